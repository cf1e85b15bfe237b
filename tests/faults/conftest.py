"""A cluster to break, and the table of what was survived."""

import collections
import importlib.util
import shutil
from pathlib import Path

import dask
import pytest
from hosts import permitted
from processes import Processes

AUTHORITY = Path(__file__).resolve().parents[2] / "cluster" / "tls" / "make_certificates.py"


@pytest.fixture(scope="module")
def world(request, tmp_path_factory):
    """Processes of a cluster, of a kind that the test may choose."""
    kind = getattr(request, "param", "plain")
    if kind == "hosts" and not permitted():
        pytest.skip("network namespaces need root and iproute2")
    options = {"security": certificates(tmp_path_factory.mktemp("tls"))} if kind == "tls" else {}
    processes = Processes(3, nannies=kind == "nannies", hosts=kind == "hosts", **options)
    yield processes
    processes.close()


def certificates(folder):
    """Arguments of `distributed.Security` with which every role can work."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is not there")
    spec = importlib.util.spec_from_file_location("make_certificates", AUTHORITY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main([str(folder / "ca"), "--days", "1", "--host", "127.0.0.1"]) == 0
    options = {"tls_ca_file": str(folder / "ca" / "ca.pem"), "require_encryption": True}
    for role in ("scheduler", "worker", "client"):
        options[f"tls_{role}_cert"] = str(folder / "ca" / f"{role}.pem")
        options[f"tls_{role}_key"] = str(folder / "ca" / f"{role}-key.pem")
    return options


@pytest.fixture(scope="module")
def client(world):
    with world.connect() as client:
        client.wait_for_workers(3)
        yield client


@pytest.fixture
def impatient():
    """Short times: nothing here takes long."""
    times = {
        "s3vm.shard-bytes": 2048,
        "s3vm.local-bytes": 0,
        "s3vm.worker-timeout": "300 s",  # machines that run tests are busy
        "s3vm.scheduler-timeout": "300 s",
        "s3vm.recovery-backoff": "50 ms",
        "s3vm.elastic-interval": "50 ms",
    }
    with dask.config.set(times):
        yield


@pytest.fixture
def tally(request):
    """Takes (method, fault, number of faults, what became of the fit)."""
    return lambda row: request.node.user_properties.append(("fault", row))


def pytest_terminal_summary(terminalreporter):
    """Print method x fault -> survived, and why the others did not."""
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.getreports(kind)]
    rows = [row for one in reports for name, row in one.user_properties if name == "fault"]
    if not rows:
        return
    cells = collections.defaultdict(lambda: [0, 0])
    for method, fault, n, end in rows:
        cells[method, fault][0] += n if end == "survived" else 0
        cells[method, fault][1] += n
    faults = list(dict.fromkeys(fault for _, fault, _, _ in rows))
    terminalreporter.section("faults survived, of all")
    width = max(len(method) for method, *_ in rows)
    terminalreporter.write_line(" " * width + "".join(f"{fault:>13}" for fault in faults))
    for method in dict.fromkeys(method for method, *_ in rows):
        shown = [
            "{}/{}".format(*cells[method, fault]) if (method, fault) in cells else "-"
            for fault in faults
        ]
        terminalreporter.write_line(f"{method:<{width}}" + "".join(f"{cell:>13}" for cell in shown))
    ends = collections.Counter()
    for *_, n, end in rows:
        ends[end] += n
    told = ", ".join(f"{count} {end}" for end, count in ends.most_common())
    terminalreporter.write_line(f"{sum(ends.values())} faults: {told}")
