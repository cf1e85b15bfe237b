"""Signals, checkpoints and exit codes."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from running import run
from waiting import LIMIT

from dask_s3vm import DAS3VM, load_model
from dask_s3vm.checkpoints import held, holds_state
from dask_s3vm.cli.stopping import BURST, SIGNALS, supervised


def start(*args, log):
    """Start `dask-s3vm ARGS` in a new process that writes its log to a file."""
    command = [sys.executable, "-c", "from dask_s3vm.__main__ import main; main()", *map(str, args)]
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
    """The model of a DA run that is not stopped."""
    path = hard_rows.with_name("straight.npz")
    done = run("train", hard_rows, "--method", "da", "--positive-ratio", 0.5, "--nworkers", 0,
               "--model", path)  # fmt: skip
    assert done.exit_code == 0, done.output
    return load_model(path)


def test_sigterm_in_the_middle_of_da_then_resume_gives_the_same_bits(hard_rows, straight, tmp_path):
    common = ["train", hard_rows, "--method", "da", "--positive-ratio", 0.5, "--nworkers", 0]
    saving = ["--checkpoint", tmp_path / "state", "--report", tmp_path / "report"]
    stopped, log = tmp_path / "stopped.npz", tmp_path / "log"
    process = start(*common, "--model", stopped, *saving, log=log)
    wait_for("temperature", log, process)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # a second one must not spoil what is being written
    assert process.wait(LIMIT) == 75, log.read_text()
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

    refused = run(*common, "--model", stopped, *saving)
    assert refused.exit_code == 2
    assert "--resume" in refused.output
    other = run(*common, "--model", stopped, *saving, "--resume", "--lam", 0.5)
    assert other.exit_code == 65
    assert "lam" in other.output

    resumed = run(*common, "--model", stopped, *saving, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert "resuming from" in resumed.output
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
    assert process.wait(LIMIT) == code, log.read_text()
    assert log.read_text().splitlines()[-1] == f"stopped by {signal.Signals(number).name}"
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.slow
@pytest.mark.cluster
def test_a_stop_on_a_local_cluster_saves_the_state(hard_rows, straight, tmp_path):
    """Like a batch system: every process of the job gets the signal, the workers too."""
    common = ["train", hard_rows, "--method", "da", "--positive-ratio", 0.5]
    saving = ["--checkpoint", tmp_path / "state", "--model", tmp_path / "m.npz"]
    log = tmp_path / "log"
    command = [sys.executable, "-c", "from dask_s3vm.__main__ import main; main()"]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, *map(str, [*common, *saving, "--nworkers", 2])],
            stdout=subprocess.DEVNULL,
            stderr=stream,
            start_new_session=True,
            env=os.environ | {"DASK_S3VM__LOCAL_BYTES": "0"},
        )
    wait_for("temperature", log, process)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(LIMIT) == 75, log.read_text()
    assert holds_state(tmp_path / "state")
    resumed = run(*common, *saving, "--nworkers", 0, "--resume")
    assert resumed.exit_code == 0, resumed.output
    model = load_model(tmp_path / "m.npz")
    assert np.array_equal(model.coef_, straight.coef_)
    assert np.array_equal(model.intercept_, straight.intercept_)


def test_resume_without_a_state_starts_from_the_beginning(g2c_file, tmp_path):
    done = run(
        "train", g2c_file, "--nworkers", 0, "--model", tmp_path / "m.npz", "--checkpoint",
        tmp_path / "state", "--resume",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "starting from the beginning" in done.output


def test_a_method_that_saves_no_state_says_so(g2c_file, tmp_path):
    done = run("train", g2c_file, "--method", "rlsc", "--checkpoint", tmp_path / "s")
    assert done.exit_code == 2
    assert "--checkpoint has no effect with --method rlsc" in done.output


def ended(command, send):
    """Run a command in a new process that gets signals; returns its exit code and messages."""
    code = (
        "import sys, threading, time, click\n"
        "from dask_s3vm import __main__, cli, interrupts\n"
        "from dask_s3vm.cli.stopping import resumable\n"
        "def wait(seconds, look):\n"
        "    print('ready', flush=True)\n"
        "    interrupts.sleep(seconds) if look else time.sleep(seconds)\n"
        f"@click.command()\ndef probe():\n{command}\n"
        "cli.main.get_command = lambda ctx, name: probe\n"
        "sys.argv = ['dask-s3vm', 'probe']\n"
        "__main__.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        send(process)
        process.wait(LIMIT)
        return process.returncode, process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_stops_where_it_looks(number):
    code, said = ended("    wait(600, True)", lambda process: process.send_signal(number))
    assert code == 128 + number
    assert said == f"stopped by {signal.Signals(number).name}\n"


def test_a_saved_state_is_announced():
    body = "    with resumable(lambda: True, 'more to come'):\n        wait(600, True)"
    code, said = ended(body, lambda process: process.send_signal(signal.SIGTERM))
    assert code == 75
    assert said == "stopped by SIGTERM; more to come\n"


def test_a_command_that_does_not_look_is_ended():
    body = "    with resumable(lambda: True, 'more'):\n        wait(600, False)"
    began = time.monotonic()
    code, said = ended(body, lambda process: process.send_signal(signal.SIGTERM))
    assert code == 75
    assert said == "stopped by SIGTERM; more\n"
    assert time.monotonic() - began < 300


def test_a_second_signal_ends_the_process_at_once():
    def send(process):
        process.send_signal(signal.SIGINT)
        while process.poll() is None:  # signals of one burst count as one
            time.sleep(2 * BURST)
            process.send_signal(signal.SIGINT)

    code, said = ended("    wait(600, False)", send)
    assert code == 130
    assert said == "stopped by SIGINT\n"


def test_children_are_ended_too(tmp_path):
    body = (
        "    import subprocess\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"    open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "    wait(600, False)"
    )
    code, _ = ended(body, lambda process: process.send_signal(signal.SIGTERM))
    assert code == 143
    child = int((tmp_path / "pid").read_text())
    while psutil.pid_exists(child) and psutil.Process(child).status() != "zombie":
        time.sleep(0.05)


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    assert run("--help").exit_code == 0
    assert supervised(lambda: 5) == 5
    with pytest.raises(LookupError):
        supervised(lambda: {}[1])
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_the_state_goes_after_the_model_has_come(g2c_file, tmp_path, monkeypatch):
    """Whatever stops a run before its model is written, the run can be gone on with."""
    state, model = tmp_path / "state", tmp_path / "m.npz"
    command = ["train", g2c_file, "--nworkers", 0, "--model", model, "--checkpoint", state]
    seen = []

    def fail(estimator, path):
        seen.append(holds_state(state))
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("dask_s3vm.save_model", fail)
        broken = run(*command)
    assert broken.exit_code == 1
    assert "No space left" in broken.output
    assert seen == [True]
    assert holds_state(state)
    assert not model.exists()
    done = run(*command, "--resume")
    assert done.exit_code == 0, done.output
    assert not holds_state(state)
    assert load_model(model).coef_.shape[0] == 1


def test_two_runs_do_not_share_a_checkpoint(g2c_file, tmp_path):
    with held(tmp_path):
        done = run(
            "train", g2c_file, "--nworkers", 0, "--model", tmp_path / "m.npz", "--checkpoint",
            tmp_path,
        )  # fmt: skip
    assert done.exit_code == 2
    assert f"in use by process {os.getpid()}" in done.output


#: Sends SIGTERM at a moment of `dask-s3vm ARGS`: before or after one call of a function, or before
#: one that does not return in time.
SIGNAL_AT = """
import importlib, os, signal, sys, time
where, name, when = sys.argv[1:4]
module = importlib.import_module(where)
real = getattr(module, name)
def signaling(*args, **kwargs):
    setattr(module, name, real)
    if when == "after":
        found = real(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600 if when == "in" else 0.3)  # until the main thread has it
    return found if when == "after" else real(*args, **kwargs)
setattr(module, name, signaling)
sys.argv = ["dask-s3vm", *sys.argv[4:]]
from dask_s3vm.__main__ import main
main()
"""


@pytest.mark.parametrize(
    "moment",
    [
        ("dask_s3vm", "save_model", "before"),
        ("dask_s3vm", "save_model", "in"),
        ("dask_s3vm.io.store", "_sync_folder", "after"),
        ("dask_s3vm.cli.train", "look_at", "after"),
        ("dask_s3vm.checkpoints.state_file", "remove", "before"),
        ("dask_s3vm.checkpoints.state_file", "remove", "after"),
        ("dask_s3vm.cli.train", "show", "before"),
        ("dask_s3vm.cli.stopping", "end_process", "before"),
    ],
    ids=lambda moment: "-".join(moment[1:]),
)
def test_a_signal_at_the_very_end_leaves_a_model_or_a_state(moment, g2c_file, tmp_path):
    """The exit code says which of both there is: never none, never the promise of a state."""
    model, state = tmp_path / "m.npz", tmp_path / "state"
    command = ["train", g2c_file, "--nworkers", 0, "--model", model, "--checkpoint", state]
    done = subprocess.run(
        [sys.executable, "-c", SIGNAL_AT, *moment, *map(str, command)],
        capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    if done.returncode == 75:
        assert holds_state(state)
        assert "run again with --resume" in done.stderr
        again = run(*command, "--resume")
        assert again.exit_code == 0, again.output
    else:
        assert done.returncode in (0, 143), done.stderr
        assert model.exists(), done.stderr
    assert "Traceback" not in done.stderr
    assert not holds_state(state)
    assert load_model(model).coef_.shape[0] == 1
