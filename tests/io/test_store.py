"""Files behind URLs: whole or not at all, on this machine and in a store in memory."""

import collections
import itertools
import os
import resource
import socket
import stat
import subprocess
import sys

import fsspec
import numpy as np
import pytest

from dask_s3vm import L2SVM, TSVM, load_model, save_model
from dask_s3vm.io import store
from dask_s3vm.reports.record import RunRecord, read_record


@pytest.fixture
def memory():
    fs = fsspec.filesystem("memory")
    yield fs
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]


@pytest.fixture(params=["path", "file-url", "memory"])
def home(request, tmp_path, memory):
    return {"path": tmp_path, "file-url": f"file://{tmp_path}", "memory": "memory://home"}[
        request.param
    ]


def content(url):
    with store.open_input(url) as stream:
        return stream.read()


def write(url, data=b"new"):
    with store.replacing(url) as stream:
        stream.write(data)


def test_a_file_is_written_found_read_and_removed(home):
    url = store.join_url(home, "a.bin")
    store.check_writable(url)
    assert not store.exists(url)
    write(url, b"first")
    write(url, b"second")
    assert store.exists(url)
    assert content(url) == b"second"
    store.remove(url)
    store.remove(url)
    assert not store.exists(url)


def test_text_is_utf8_and_keeps_its_line_ends(home):
    url = store.join_url(home, "a.txt")
    with store.replacing(url, "w") as stream:
        stream.write("é\r\nb\n")
    assert content(url) == "é\r\nb\n".encode()
    with store.open_input(url, "r") as stream:
        assert stream.read() == "é\nb\n"


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_a_failure_leaves_the_old_file_and_nothing_else(home, mode):
    url = store.join_url(home, "a.bin")
    write(url, b"old")

    def fail():
        with store.replacing(url, mode) as stream:
            stream.write(b"half" if mode == "wb" else "half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert content(url) == b"old"
    fs, folder = store.filesystem(os.fspath(home))
    assert [name.rpartition("/")[2] for name in fs.ls(folder, detail=False)] == ["a.bin"]


def test_nothing_appears_before_the_end(home):
    url = store.join_url(home, "a.bin")
    with store.replacing(url) as stream:
        stream.write(b"x")
        stream.flush()
        assert not store.exists(url)
    assert store.exists(url)


def test_symbolic_links_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    for target in ("there.bin", "dangling.bin"):
        link = tmp_path / f"link-{target}"
        link.symlink_to(tmp_path / "real" / target)
    (tmp_path / "real" / "there.bin").write_bytes(b"old")
    for target in ("there.bin", "dangling.bin"):
        link = tmp_path / f"link-{target}"
        store.check_writable(link)
        write(link)
        assert link.is_symlink()
        assert (tmp_path / "real" / target).read_bytes() == b"new"


def special_files(folder):
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as own:
        os.chdir(folder)  # a name of a socket must be short
        own.bind("socket")
    (folder / "link").symlink_to(folder / "pipe")
    return {
        folder / "pipe": "a pipe",
        folder / "folder": "a folder",
        folder / "socket": "a socket",
        folder / "link": "a pipe",
        "/dev/null": "a device",
    }


def test_what_is_not_a_regular_file_is_refused_and_stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, kind in special_files(tmp_path).items():
        before = os.stat(path)
        for call in (store.check_writable, write, store.open_input):
            with pytest.raises(ValueError, match=f"{kind}, wanted a regular file"):
                call(path)
        after = os.stat(path)
        assert (before.st_ino, stat.S_IFMT(before.st_mode)) == (
            after.st_ino,
            stat.S_IFMT(after.st_mode),
        )


def test_a_missing_folder_is_named(tmp_path):
    path = tmp_path / "none" / "a.bin"
    with pytest.raises(ValueError, match=r"a\.bin: there is no folder .*none"):
        store.check_writable(path)
    with pytest.raises(FileNotFoundError, match=r"cannot be written.*a\.bin'$"):
        write(path)


@pytest.mark.parametrize(
    "url", ["nowhere://bucket/a.bin", "s4://bucket/a.bin", "zip://a.bin::memory://a.zip"]
)
def test_stores_that_are_not_supported_are_refused(url, memory):
    with pytest.raises(ValueError, match=url.split(":")[0]):
        store.check_writable(url)


def test_a_store_that_cannot_be_written_is_refused(monkeypatch, memory):
    def refuse(*args, **kwargs):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(type(memory), "pipe_file", refuse)
    with pytest.raises(ValueError, match=r"memory://b/a: cannot be written: Access Denied; wanted"):
        store.check_writable("memory://b/a")


def test_file_servers_get_a_hidden_file_and_a_rename(monkeypatch, memory):
    monkeypatch.setattr(store, "_OBJECT_STORES", set())
    write("memory://server/new/a.bin", b"content")
    assert content("memory://server/new/a.bin") == b"content"
    assert memory.ls("/server/new", detail=False) == ["/server/new/a.bin"]

    def fail(*args, **kwargs):
        raise OSError("cut off")

    monkeypatch.setattr(type(memory), "mv", fail)
    with pytest.raises(OSError, match="cut off"):
        write("memory://server/new/a.bin", b"other")
    assert memory.ls("/server/new", detail=False) == ["/server/new/a.bin"]
    assert content("memory://server/new/a.bin") == b"content"


def test_no_room_is_told_with_the_name_of_the_file(tmp_path):
    script = f"""
import resource, numpy as np
from dask_s3vm.io import store
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, {resource.RLIM_INFINITY}))
try:
    with store.replacing({str(tmp_path / "a.npz")!r}) as stream:
        np.savez(stream, x=np.zeros(100_000))
except OSError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "there is no room" in done.stdout, done.stderr
    assert done.stdout.endswith("a.npz'\n")
    assert list(tmp_path.iterdir()) == []


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    y = np.where(X[:, 0] > 0, 1, 0)
    y[10:] = -1
    return X, y


def test_models_live_behind_urls(home):
    X, y = rows()
    model = L2SVM(lam=0.1).fit(X, y)
    url = store.join_url(home, "m.npz")
    save_model(model, url)
    np.testing.assert_array_equal(load_model(url).coef_, model.coef_)


def test_a_fit_resumes_from_a_state_behind_a_url(home, monkeypatch):
    monkeypatch.setattr("dask_s3vm._config.checkpoint_interval", lambda: 0.0)
    X, y = rows()
    whole = TSVM(lam=0.1).fit(X, y)
    folder = store.join_url(home, "state")
    told = []

    def stop(row):
        told.append(row)
        if len(told) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TSVM(lam=0.1, checkpoint=folder, callbacks=stop).fit(X, y)
    assert store.exists(store.join_url(folder, "fit.npz"))
    again = []
    resumed = TSVM(lam=0.1, checkpoint=folder, callbacks=again.append).fit(X, y)
    assert len(again) < len(whole.history_)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    assert not store.exists(store.join_url(folder, "fit.npz"))


def test_a_checkpoint_that_cannot_be_written_is_refused_before_the_fit(tmp_path):
    X, y = rows()
    (tmp_path / "file").write_text("")
    for place in ("nowhere://b/state", tmp_path / "file"):
        with pytest.raises(ValueError, match=r"^checkpoint: .*(nowhere|file)"):
            TSVM(lam=0.1, checkpoint=place, callbacks=lambda row: pytest.fail("it began")).fit(X, y)


def test_the_record_of_a_run_lives_behind_a_url(home):
    folder = store.join_url(home, "run")
    with RunRecord(folder, "a = 1\n", say=lambda text: None) as record:
        record.history.append({"step": 1, "objective": 0.5})
    facts, history, config = read_record(folder)
    assert facts["exit"] == {"code": 0, "reason": "done"}
    assert history == [{"step": 1, "objective": 0.5}]
    assert config == "a = 1\n"


def test_a_fit_gets_through_where_every_third_write_fails(memory, monkeypatch, caplog):
    """A fit ends with the error of the store; the next one goes on from the last whole state."""
    monkeypatch.setattr("dask_s3vm._config.checkpoint_interval", lambda: 0.0)
    calls, failed = itertools.count(1), collections.Counter()

    def failing(name):
        real = getattr(type(memory), name)

        def call(self, *args, **kwargs):
            if next(calls) % 3 == 0:
                failed[name] += 1
                raise OSError("Service Unavailable")
            return real(self, *args, **kwargs)

        return call

    X, y = rows()
    whole = TSVM(lam=0.1).fit(X, y)
    with monkeypatch.context() as patch:
        for name in ("pipe_file", "put_file", "rm_file"):
            patch.setattr(type(memory), name, failing(name))
        told, errors = [], []
        model = TSVM(lam=0.1, checkpoint="memory://third/state", callbacks=told.append)
        while not hasattr(model, "coef_"):
            try:
                model.fit(X, y)
            except (OSError, ValueError) as error:
                errors.append(str(error))
                assert len(errors) < 100, failed
    assert errors
    assert all("Service Unavailable" in one for one in errors), errors
    assert failed["put_file"] > 0
    assert len(told) < (len(errors) + 1) * len(whole.history_)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    assert len(model.history_) == len(whole.history_)
    there = store.exists("memory://third/state/fit.npz")
    assert there == ("could not be removed" in caplog.text)
    others = [one for one in memory.store if not one.endswith("/fit.npz")]
    assert not any(memory.size(one) for one in others), "only probes, which are empty"
