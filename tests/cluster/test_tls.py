"""TLS between scheduler, workers and clients: who is let in, who is not, and what is not told."""

import json
import socket
import ssl
import stat
import subprocess
import time

import click
import dask
import numpy as np
import pytest
from click.testing import CliRunner
from cluster_cases import SMALL, same_model
from distributed import Client, Security

from dask_s3vm.cli import main
from dask_s3vm.cli.cluster import refusal, security_of
from dask_s3vm.engine.ingest import ingest

pytestmark = pytest.mark.cluster

#: s3vm.connect-timeout, and seconds within which a refusal is told: it does not wait for that.
PATIENCE, PROMPTLY = 100, 90


def run_here(*words):
    """Run `dask-s3vm WORDS` in this process."""
    with dask.config.set({"s3vm.connect-timeout": PATIENCE}):
        return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory, make_certificates):
    folder = tmp_path_factory.mktemp("certificates")
    assert make_certificates(folder / "ours", "--days", 1) == 0
    assert make_certificates(folder / "theirs", "--days", 1) == 0
    return folder


def tls(folder, role):
    return [
        "--tls-ca-file", folder / "ca.pem",
        "--tls-cert", folder / f"{role}.pem",
        "--tls-key", folder / f"{role}-key.pem",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def scheduler(processes, certificates):
    """Address of a scheduler with TLS and two workers."""
    file = processes.folder / "scheduler.json"
    common = ["--host", "127.0.0.1", "--protocol", "tls", "--scheduler-file", file]
    processes.env["DASK_LOGGING__DISTRIBUTED"] = "debug"
    ours = certificates / "ours"
    # fmt: off
    processes.dask("scheduler", "scheduler", "--port", 0, *common, *tls(ours, "scheduler"),
                   "--no-dashboard", "--no-show")
    for number in range(2):
        processes.dask(f"worker{number}", "worker", *common, *tls(ours, "worker"), "--nthreads", 1,
                       "--no-dashboard", "--local-directory", processes.folder)
    # fmt: on
    return processes.wait_for(file)["address"]


def test_training_over_tls_ends_with_the_local_result(
    processes, scheduler, certificates, text_file
):
    assert scheduler.startswith("tls://")
    ours = tls(certificates / "ours", "client")
    folder = processes.folder
    blocks = ["--blocksize", "4 kB", "--json"]
    done = processes.run(
        "train",
        text_file,
        "--method",
        "l2svm",
        "--scheduler",
        scheduler,
        *ours,
        *blocks,
        "--model",
        folder / "tls",
    )
    assert done.returncode == 0, done.stderr
    (folder / "client.log").write_text(done.stderr)
    assert json.loads(done.stdout)["termination"] == "converged"
    with dask.config.set({"s3vm.shard-bytes": SMALL["DASK_S3VM__SHARD_BYTES"]}):
        done = run_here(
            "train", text_file, "--method", "l2svm", *blocks, "--model", folder / "here"
        )
    assert done.exit_code == 0, done.output
    assert same_model(folder / "tls", folder / "here")


def test_workers_exchange_vectors_over_tls(scheduler, certificates):
    folder = certificates / "ours"
    security = Security(
        tls_ca_file=str(folder / "ca.pem"),
        tls_client_cert=str(folder / "client.pem"),
        tls_client_key=str(folder / "client-key.pem"),
        require_encryption=True,
    )

    def scaled(shard, v):  # sent by its code: the workers do not have this file
        return v * 0.1**shard.number, 1

    X, v = np.random.default_rng(0).random((64, 100)), np.arange(7.0)
    small = {"s3vm.local-bytes": 0, "s3vm.shard-bytes": 4096, "s3vm.connect-timeout": PATIENCE}
    with dask.config.set(small), Client(scheduler, security=security) as client:
        client.wait_for_workers(2)
        engine = ingest(X, np.arange(64) % 2).place(np.array([0, 1]))
        plain = engine.sum(scaled, v)
        with dask.config.set({"s3vm.exchange-bytes": 0}):
            found = engine.sum(scaled, v)
        assert len(engine._exchange._met) == 2
        assert not engine._exchange._off
        engine.close()
    assert found[0].tobytes() == plain[0].tobytes()
    assert found[1] == plain[1] == engine.layout.n_shards


def test_the_configuration_does_as_well_as_options(processes, scheduler, certificates):
    written = dask.config.collect_yaml([str(certificates / "ours" / "dask.yaml")])
    with dask.config.set(dask.config.merge(dask.config.config, *written)):
        done = run_here("info", "--scheduler-file", processes.folder / "scheduler.json", "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["parts"]
    assert [row["role"] for row in rows] == ["client", "scheduler", "worker", "worker"]
    assert {row["tls"] for row in rows[1:]} == {"yes"}
    assert {row["threads"] for row in rows[2:]} == {1}
    assert all(row["direct"].endswith(" ms") for row in rows[2:])


@pytest.mark.parametrize("case", ["none", "plain", "other authority", "signed by another"])
def test_a_stranger_is_refused(case, scheduler, certificates, text_file, tmp_path):
    ours, theirs = certificates / "ours", certificates / "theirs"
    mixed = ["--tls-ca-file", ours / "ca.pem", *tls(theirs, "client")[2:]]
    address, options, words = {
        "none": (scheduler, [], "has no certificate"),
        "plain": (scheduler.replace("tls://", "tcp://"), [], "begins with tls://"),
        "other authority": (scheduler, tls(theirs, "client"), "certificate"),
        "signed by another": (scheduler, mixed, "our own certificate is no good"),
    }[case]
    model = tmp_path / "model"
    began = time.monotonic()
    done = run_here("train", text_file, "--scheduler", address, *options, "--model", model)
    assert done.exit_code == 69, done.output
    assert time.monotonic() - began < PROMPTLY
    assert words in done.output
    assert address in done.output
    assert "Traceback" not in done.output
    assert not model.exists()


def test_the_scheduler_itself_refuses_a_caller_without_certificate(scheduler, certificates):
    host, port = scheduler.removeprefix("tls://").split(":")
    context = ssl.create_default_context(cafile=certificates / "ours" / "ca.pem")
    with (  # TLS 1.3: the server's verdict on the client arrives with the first read
        pytest.raises((ssl.SSLError, ConnectionError), match=r"(?i)certificate.required|reset"),
        socket.create_connection((host, int(port))) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as line,  # by the SAN
    ):
        line.recv(1)


def test_no_secret_is_told(processes, scheduler, certificates):
    """Logs are those of the tests above, at level debug."""
    told = "".join(path.read_text() for path in processes.folder.glob("*.log"))
    assert "Register worker" in told
    done = run_here("info", "--scheduler", scheduler, *tls(certificates / "ours", "client"))
    assert done.exit_code == 0, done.output
    told += done.output
    assert "PRIVATE KEY" not in told
    for key in certificates.rglob("*-key.pem"):
        for line in key.read_text().splitlines()[1:-1]:
            assert line not in told


def test_a_local_cluster_can_have_tls_too(certificates, text_file, tmp_path):
    own = ["--method", "l2svm", "--nworkers", 1, "--json", "--model", tmp_path / "model"]
    done = run_here("train", text_file, *own, *tls(certificates / "ours", "worker"))
    assert done.exit_code == 0, done.output
    done = run_here("train", text_file, *own, *tls(certificates / "ours", "client"))
    assert done.exit_code == 2
    assert "cannot serve a local cluster" in done.output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("no authority", "--tls-ca-file is wanted too"),
        ("no certificate", "--tls-cert is wanted too"),
        ("no key", "there is no private key in"),
        ("another key", "do not belong together"),
        ("passphrase", "has a passphrase"),
    ],
)
def test_certificates_that_cannot_do_are_wrong_usage(
    change, words, certificates, text_file, tmp_path
):
    ours = certificates / "ours"
    locked = tmp_path / "locked.pem"
    command = ["openssl", "ec", "-in", ours / "client-key.pem", "-out", locked, "-aes256"]
    subprocess.run([*command, "-passout", "pass:hush"], check=True, capture_output=True)
    ca, cert, key = (tls(ours, "client")[i : i + 2] for i in (0, 2, 4))
    options = {
        "no authority": [*cert, *key],
        "no certificate": ca,
        "no key": [*ca, *cert],
        "another key": [*ca, *cert, "--tls-key", ours / "worker-key.pem"],
        "passphrase": [*ca, *cert, "--tls-key", locked],
    }[change]
    done = run_here("train", text_file, "--scheduler", "tls://127.0.0.1:1", *options)
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert "hush" not in done.output


def test_an_expired_certificate_is_named(certificates, make_certificates, tmp_path):
    assert make_certificates(tmp_path, "--days", 1) == 0
    files = [str(tmp_path / name) for name in ("ca.pem", "client.pem", "client-key.pem")]
    assert refusal(security_of(*files)) is None
    for name in ("client.pem", "client-key.pem"):
        (tmp_path / name).unlink()
    assert make_certificates(tmp_path, "--use-ca", "--role", "client", "--days", -1) == 0
    assert "expired" in refusal(security_of(*files))


def test_certificates_are_private_and_never_overwritten(make_certificates, tmp_path, capfd):
    folder = tmp_path / "new"
    assert make_certificates(folder, "--host", "s.example", "--host", "10.1.2.3") == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    keys = sorted(folder.glob("*-key.pem"))
    assert len(keys) == 4
    assert all(stat.S_IMODE(key.stat().st_mode) == 0o600 for key in keys)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert make_certificates(folder) == 1
    assert make_certificates(folder, "--use-ca", "--role", "worker") == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    told = "".join(capfd.readouterr())
    assert "not overwritten" in told
    assert "PRIVATE" not in told
    shown = subprocess.run(
        ["openssl", "x509", "-in", folder / "scheduler.pem", "-noout", "-ext", "subjectAltName"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "DNS:s.example" in shown.stdout
    assert "IP Address:10.1.2.3" in shown.stdout


@pytest.mark.parametrize("place", ["ca", "client", "client-key"])
def test_a_damaged_file_is_named(place, certificates, tmp_path):
    files = {name: certificates / "ours" / f"{name}.pem" for name in ("ca", "client", "client-key")}
    raw = files[place].read_bytes()
    files[place] = tmp_path / "damaged.pem"
    files[place].write_bytes(raw[:100] + b"?" + raw[101:])
    with pytest.raises(click.UsageError, match=r"damaged\.pem"):
        security_of(*map(str, files.values()))
    security = Security(
        require_encryption=True,
        tls_ca_file=str(files["ca"]),
        tls_client_cert=str(files["client"]),
        tls_client_key=str(files["client-key"]),
    )
    assert "cannot be read as PEM" in refusal(security)
