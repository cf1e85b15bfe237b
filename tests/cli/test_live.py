"""`train --live`."""

import socket

from running import run

from dask_s3vm.live.server import HOST


def test_a_page_is_served_while_a_model_is_trained(g2c_file, monkeypatch):
    monkeypatch.setattr("dask_s3vm.live.publisher.FIRST", 0.0)
    taken = []
    monkeypatch.setattr(
        "dask_s3vm.live.board.Board.take", lambda self, message: taken.append(message)
    )
    done = run("train", g2c_file, "--method", "tsvm", "--live", 0)
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("live page: ")]
    assert line.startswith(f"live page: http://{HOST}:")
    assert taken[-1]["state"] == "done"
    assert taken[0]["about"]["method"] == "TSVM"


def test_a_taken_port_is_named(g2c_file):
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        done = run("train", g2c_file, "--live", port)
    assert done.exit_code == 2
    assert f"--live {port}: " in done.output
    assert "in use" in done.output
