"""A state is written by one fit at a time, and stays until the model is safe."""

import errno
import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
from waiting import LIMIT

import dask_s3vm as s3
from dask_s3vm.checkpoints import held, holds_state
from dask_s3vm.checkpoints.locks import FolderLock
from dask_s3vm.checkpoints.state_file import FileCheckpoint, read_state, write_state
from dask_s3vm.exceptions import CheckpointError
from dask_s3vm.io import store
from dask_s3vm.methods.run import Saved, Snapshot

IDENTITY = {"estimator": "TSVM"}


def snapshot(n, size=3):
    return Snapshot({"a": Saved({"n": n, "w": np.zeros(size)}, False, n, 0)}, [], n)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def rows(make_rows, rng):
    X, y = make_rows(200, 8, seed=2)
    return X, np.where(rng.random(200) < 0.3, y, -1)


def stopped_fit(directory, rows):
    def stop(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        s3.TSVM(checkpoint=directory, callbacks=stop).fit(*rows)


def test_two_fits_do_not_share_a_directory(rows, tmp_path):
    refused = []

    def try_too(row):
        with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()} on"):
            s3.TSVM(checkpoint=tmp_path / "." / "", lam=0.5).fit(*rows)
        refused.append(row)

    s3.TSVM(checkpoint=tmp_path, callbacks=try_too).fit(*rows)
    assert refused
    assert names(tmp_path) == []
    s3.TSVM(checkpoint=tmp_path, lam=0.5).fit(*rows)


def test_a_fit_that_fails_or_is_refused_lets_others_in(rows, tmp_path):
    stopped_fit(tmp_path, rows)
    with pytest.raises(CheckpointError, match="lam was"):
        s3.TSVM(checkpoint=tmp_path, lam=0.5).fit(*rows)
    assert names(tmp_path) == ["fit.npz"]
    s3.TSVM(checkpoint=tmp_path).fit(*rows)
    assert names(tmp_path) == []


HOLD = """
import sys, time
from dask_s3vm.checkpoints.locks import FolderLock
lock = FolderLock(sys.argv[1])
print("held", flush=True)
time.sleep(600)
"""


def test_the_lock_ends_with_its_process(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(CheckpointError, match=f"in use by process {process.pid} on"):
            FileCheckpoint(tmp_path, IDENTITY)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT)
        process.stdout.close()
    checkpoint = FileCheckpoint(tmp_path, IDENTITY)
    checkpoint.save(snapshot(1))
    checkpoint.close()


def test_a_lock_file_that_was_removed_locks_nobody(tmp_path, monkeypatch):
    """Between opening the file and locking it, its holder may have removed it."""
    first = FolderLock(tmp_path)
    real, opened = os.open, []

    def open_then_release(path, *args):
        file = real(path, *args)
        if str(path).endswith(".lock") and not opened:
            opened.append(path)
            first.release()
        return file

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_then_release)
        second = FolderLock(tmp_path)
    with pytest.raises(BlockingIOError):
        FolderLock(tmp_path)
    second.release()
    FolderLock(tmp_path).release()
    assert names(tmp_path) == []


def test_a_store_without_locks_is_not_locked():
    url = "memory://holding/state"
    one, other = FolderLock(url), FolderLock(url)
    one.release()
    other.release()


def fit_and_lose(model, rows, path):
    """Fit a model whose file never comes to be."""
    model.fit(*rows)
    assert holds_state(model.checkpoint)
    return path


def test_a_held_state_stays_until_the_model_is_safe(rows, tmp_path):
    state = tmp_path / "state"
    whole = s3.TSVM().fit(*rows)
    with pytest.raises(s3.io.ModelFileError), held(state):
        s3.load_model(fit_and_lose(s3.TSVM(checkpoint=state), rows, tmp_path / "m.npz"))
    assert holds_state(state)
    again = []
    with held(state):
        model = s3.TSVM(checkpoint=state, callbacks=again.append).fit(*rows)
        assert holds_state(state)
    assert not holds_state(state)
    assert again == [], "a fit that was done is not done again"
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    np.testing.assert_array_equal(model.transduction_, whole.transduction_)
    assert len(model.history_) == len(whole.history_)
    assert names(state) == []


def test_a_held_directory_is_for_one_fit_at_a_time(rows, tmp_path):
    with held(tmp_path):
        with pytest.raises(CheckpointError, match="in use"), held(tmp_path):
            pass

        def try_too(row):
            with pytest.raises(CheckpointError, match="in use"):
                s3.TSVM(checkpoint=tmp_path, lam=0.5).fit(*rows)

        s3.TSVM(checkpoint=tmp_path, callbacks=try_too).fit(*rows)


def test_a_full_disk_leaves_the_last_state(tmp_path):
    write_state(tmp_path, IDENTITY, snapshot(1))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(OSError, match=r"there is no room.*fit\.npz"):
            write_state(tmp_path, IDENTITY, snapshot(2, size=1 << 16))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert read_state(tmp_path, IDENTITY).rounds == 1
    assert names(tmp_path) == ["fit.npz"]


def refuse(*args, **more):
    raise PermissionError(errno.EACCES, "Permission denied")


def test_a_permission_taken_away_leaves_the_last_state(tmp_path, monkeypatch):
    write_state(tmp_path, IDENTITY, snapshot(1))
    with monkeypatch.context() as patch:
        patch.setattr(store.os, "replace", refuse)
        with pytest.raises(PermissionError, match=r"cannot be written: Perm.*fit\.npz"):
            write_state(tmp_path, IDENTITY, snapshot(2))
    assert read_state(tmp_path, IDENTITY).rounds == 1


def test_a_state_that_cannot_be_removed_costs_no_model(rows, tmp_path, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setattr(store.os, "remove", refuse)
        model = s3.TSVM(checkpoint=tmp_path).fit(*rows)
    assert hasattr(model, "coef_")
    assert "could not be removed" in caplog.text
