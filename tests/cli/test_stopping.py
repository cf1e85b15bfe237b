"""Signals, checkpoints and exit codes."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from running import run

from dask_s3vm import DAS3VM, load_model
from dask_s3vm.checkpoints import holds_state
from dask_s3vm.cli.signals import Stopped, stopping


def start(*args, log):
    """Start `dask-s3vm ARGS` in a process of its own, which writes its log to a file."""
    command = [sys.executable, "-c", "from dask_s3vm.cli import main; main()", *map(str, args)]
    with log.open("wb") as stream:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stream)


def wait_for(word, log, process, seconds=120):
    end = time.monotonic() + seconds
    while word not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)


@pytest.fixture(scope="module")
def hard_rows(tmp_path_factory):
    """Rows on which DA takes some seconds."""
    rng = np.random.default_rng(0)
    n_rows = 20_000
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, 40)) + 0.25 * np.outer(2 * y - 1, rng.normal(size=40))
    path = tmp_path_factory.mktemp("hard") / "rows.npz"
    np.savez(path, X=X.astype(np.float32), y=np.where(np.arange(n_rows) < 60, y, -1))
    return path


@pytest.fixture(scope="module")
def straight(hard_rows):
    """The model of a DA run that nobody stops."""
    path = hard_rows.with_name("straight.npz")
    done = run("train", hard_rows, "--method", "da", "--positive-ratio", 0.5, "--nworkers", 0,
               "--model", path)  # fmt: skip
    assert done.exit_code == 0, done.output
    return load_model(path)


def test_sigterm_in_the_middle_of_da_then_resume_gives_the_same_bits(hard_rows, straight, tmp_path):
    common = ["train", hard_rows, "--method", "da", "--positive-ratio", 0.5, "--nworkers", 0]
    kept = ["--checkpoint", tmp_path / "state", "--report", tmp_path / "report"]
    stopped, log = tmp_path / "stopped.npz", tmp_path / "log"
    process = start(*common, "--model", stopped, *kept, log=log)
    wait_for("temperature", log, process)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # a second one must not spoil what is being written
    assert process.wait(60) == 75, log.read_text()
    assert "stopped by SIGTERM" in log.read_text()
    assert "--resume" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert holds_state(tmp_path / "state")
    assert not stopped.exists()

    ended = json.loads((tmp_path / "report" / "run.json").read_text())["exit"]
    assert ended["code"] == 75
    partial = json.loads((tmp_path / "report" / "history.json").read_text())
    assert partial[0]["temperature"] == 10.0
    assert partial[-1]["event"] == "anneal"

    refused = run(*common, "--model", stopped, *kept)
    assert refused.exit_code == 2
    assert "--resume" in refused.output
    other = run(*common, "--model", stopped, *kept, "--resume", "--lam", 0.5)
    assert other.exit_code == 65
    assert "lam" in other.output

    resumed = run(*common, "--model", stopped, *kept, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert "going on from" in resumed.output
    assert not holds_state(tmp_path / "state")
    a, b = straight, load_model(stopped)
    assert isinstance(b, DAS3VM)
    assert np.array_equal(a.coef_, b.coef_)
    assert np.array_equal(a.intercept_, b.intercept_)
    assert a.objective_ == b.objective_
    # the history of a resumed fit is that of a whole one, but for the time it took
    timeless = [[{**row, "seconds": 0} for row in model.history_] for model in (a, b)]
    assert timeless[0] == timeless[1]
    written = json.loads((tmp_path / "report" / "history.json").read_text())
    assert len(written) == len(b.history_)
    ended = json.loads((tmp_path / "report" / "run.json").read_text())["exit"]
    assert ended["code"] == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_without_a_checkpoint_has_the_code_of_its_signal(number, code, hard_rows, tmp_path):
    log = tmp_path / "log"
    process = start(
        "train", hard_rows, "--method", "da", "--nworkers", 0, "--positive-ratio", 0.5,
        "--model", tmp_path / "m.npz", log=log,
    )  # fmt: skip
    wait_for("temperature", log, process)
    process.send_signal(number)
    assert process.wait(60) == code, log.read_text()
    assert log.read_text().splitlines()[-1] == f"stopped by {signal.Signals(number).name}"
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.slow
@pytest.mark.cluster
def test_a_stop_on_a_local_cluster_keeps_the_state(hard_rows, straight, tmp_path):
    """As a batch system does it: everyone in the job is told to end, workers too."""
    common = ["train", hard_rows, "--method", "da", "--positive-ratio", 0.5]
    kept = ["--checkpoint", tmp_path / "state", "--model", tmp_path / "m.npz"]
    log = tmp_path / "log"
    command = [sys.executable, "-c", "from dask_s3vm.cli import main; main()"]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, *map(str, [*common, *kept, "--nworkers", 2])],
            stdout=subprocess.DEVNULL,
            stderr=stream,
            start_new_session=True,
            env=os.environ | {"DASK_S3VM__LOCAL_BYTES": "0"},
        )
    wait_for("temperature", log, process)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(120) == 75, log.read_text()
    assert holds_state(tmp_path / "state")
    resumed = run(*common, *kept, "--nworkers", 0, "--resume")
    assert resumed.exit_code == 0, resumed.output
    model = load_model(tmp_path / "m.npz")
    assert np.array_equal(model.coef_, straight.coef_)
    assert np.array_equal(model.intercept_, straight.intercept_)


def test_resume_without_a_state_starts_anew(g2c_file, tmp_path):
    done = run(
        "train", g2c_file, "--nworkers", 0, "--model", tmp_path / "m.npz", "--checkpoint",
        tmp_path / "state", "--resume",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "starting anew" in done.output


def test_a_method_that_keeps_no_state_says_so(g2c_file, tmp_path):
    done = run("train", g2c_file, "--method", "rlsc", "--checkpoint", tmp_path / "s")
    assert done.exit_code == 2
    assert "--checkpoint has no effect with --method rlsc" in done.output


def test_one_signal_raises_and_others_are_ignored():
    before = signal.getsignal(signal.SIGTERM)

    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped) as caught, stopping():
        work()
    assert caught.value.number == signal.SIGTERM
    assert caught.value.name == "SIGTERM"
    assert isinstance(caught.value, KeyboardInterrupt)
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_is_held_is_finished_first():
    done = []

    def write():
        signal.raise_signal(signal.SIGTERM)
        done.append("written")

    with pytest.raises(Stopped), stopping() as stopper, stopper.held():
        write()
    assert done == ["written"]
    with stopping() as stopper, stopper.held():
        pass
