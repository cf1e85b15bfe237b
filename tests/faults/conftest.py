"""A cluster to break, and the table of what was survived."""

import collections

import dask
import pytest
from processes import Processes


@pytest.fixture(scope="module")
def world():
    """Processes of a cluster."""
    processes = Processes(3)
    yield processes
    processes.close()


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
    """Takes (method, fault, number of faults, survived)."""
    return lambda row: request.node.user_properties.append(("fault", row))


def pytest_terminal_summary(terminalreporter):
    """Print method x fault -> survived."""
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.getreports(kind)]
    rows = [row for one in reports for name, row in one.user_properties if name == "fault"]
    if not rows:
        return
    cells = collections.defaultdict(lambda: [0, 0])
    for method, fault, _, survived in rows:
        cells[method, fault][0] += survived
        cells[method, fault][1] += 1
    faults = list(dict.fromkeys(fault for _, fault, _, _ in rows))
    terminalreporter.section("fits that survived, of all")
    width = max(len(method) for method, *_ in rows)
    terminalreporter.write_line(" " * width + "".join(f"{fault:>13}" for fault in faults))
    for method in dict.fromkeys(method for method, *_ in rows):
        shown = [
            "{}/{}".format(*cells[method, fault]) if (method, fault) in cells else "-"
            for fault in faults
        ]
        terminalreporter.write_line(f"{method:<{width}}" + "".join(f"{cell:>13}" for cell in shown))
    wrong = sum(not survived for *_, survived in rows)
    terminalreporter.write_line(
        f"{sum(row[2] for row in rows)} faults in {len(rows)} fits: {wrong} not survived"
    )
