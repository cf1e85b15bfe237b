"""The live page of this process: on loopback, to look at only."""

import socket
import threading

import numpy as np
import pytest

from dask_s3vm import L2SVM
from dask_s3vm.live.server import live_page

pytestmark = pytest.mark.usefixtures("at_once")


@pytest.fixture
def rows(make_rows):
    X, y = make_rows(600, 30, seed=5)
    return X, np.where(np.arange(len(y)) % 10 == 1, y, -1)  # every tenth from 0 on is empty


def port_of(address):
    return int(address.split(":")[2].split("/")[0])


def test_a_fit_without_a_cluster_is_seen(rows, state_at, ask):
    found = []
    with live_page(0) as address:
        L2SVM(lam=0.01, callbacks=lambda row: found.append(state_at(address))).fit(*rows)
        fit = state_at(address)["fit"]
        assert (fit["method"], fit["state"]) == ("L2SVM", "done")
        assert [row[:2] for row in fit["shards"]] == [["this process", 1]]
        assert fit["totals"]["transport"] == 0.0
        for path in (address, address.removesuffix("s3vm")):
            status, headers, page = ask(path)
            assert (status, "S3VM fits" in page) == (200, True)
            assert "script-src 'sha256-" in headers["Content-Security-Policy"]
    assert found
    assert not [t for t in threading.enumerate() if t.name == "s3vm-live"]


def test_fits_after_the_page_are_not_told(rows, monkeypatch):
    with live_page(0):
        pass
    monkeypatch.setattr("dask_s3vm.live.publisher.Publisher.__init__", None)
    L2SVM(lam=0.01).fit(*rows)


def test_it_listens_on_loopback_alone():
    with live_page(0) as address:
        assert address.startswith("http://127.0.0.1:")
        with socket.create_connection(("127.0.0.1", port_of(address)), timeout=10):
            pass
        own = socket.gethostbyname(socket.gethostname())
        others = {own, "127.0.0.2"} - {"127.0.0.1"}
        for host in others:
            with pytest.raises(OSError, match=r".+"):
                socket.create_connection((host, port_of(address)), timeout=10)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD"])
def test_it_answers_get_alone(method, ask):
    with live_page(0) as address:
        assert ask(address, method)[0] == 501
        assert ask(address + "/../../etc/passwd")[0] == 404


def test_a_page_of_a_stranger_cannot_read_it(ask):
    with live_page(0) as address:
        assert ask(address, Host="evil.example")[0] == 421
        assert ask(address, Host=f"localhost:{port_of(address)}")[0] == 200


def test_a_port_that_is_taken_is_an_error():
    with (
        live_page(0) as address,
        pytest.raises(OSError, match="in use"),
        live_page(port_of(address)),
    ):
        pass
