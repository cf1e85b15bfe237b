"""The line that tells how a fit is getting on, by a clock that the test turns."""

import io
import os
import pty
import threading
import types

import dask
import numpy as np
import pytest

from dask_s3vm import (
    DAS3VM,
    L2SVM,
    QNS3VM,
    QPS3VM,
    RLSC,
    S2RLSC,
    STARSVM,
    TSVM,
    MaxMarginClustering,
    SubmodularS3VM,
)
from dask_s3vm.live.course import Pace
from dask_s3vm.live.line import Progress, duration
from dask_s3vm.methods.tsvm import TSVMState, TSVMTraining, levels


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def level_row(level, pairs=0, objective=0.25):
    return {"class": 1, "event": "switch", "level": level, "objective": objective,
            "n_active": 1200, "switches": pairs, "seconds": 0.1}  # fmt: skip


def tell(progress, row, what="level 28 of 45", done=27 / 45):
    """Say where a fit is, as a record does, and then what it has done there."""
    progress.at({"class": row["class"]}, what, done)
    progress.add_row(row)


def lines_of(rows_at, rounds=None):
    """Lines that are logged for rows at given seconds."""
    clock, stream = Clock(), io.StringIO()
    progress = Progress(rounds, 1, stream, clock)
    for now, row in rows_at:
        clock.now = now
        tell(progress, row, f"level {row['level']:.1g}", None)
    progress.close()
    return stream.getvalue().splitlines()


def test_log_lines_are_few_and_plain():
    rows = [(0.01 * i, level_row(0.01 + 1e-5 * i, pairs=i)) for i in range(3000)]
    lines = lines_of(rows)
    # the first row, those after 10 s and 20 s, and the last one
    assert [line.split("]")[0] for line in lines] == ["[0 s", "[10 s", "[20 s", "[30 s"]
    assert not any("\r" in line or "\x1b" in line for line in lines)
    assert "switches 2,999" not in lines[0]
    assert "active rows 1,200" in lines[0]
    assert "objective 0.25" in lines[0]


def test_a_row_that_was_shown_is_not_shown_again_at_the_end():
    assert len(lines_of([(0.0, level_row(0.1))])) == 1
    assert lines_of([]) == []


def test_switches_are_added_up_within_a_level():
    rows = [(20.0 * i, level_row(level, 5)) for i, level in enumerate((0.1, 0.1, 0.1, 0.2))]
    found = [line.split("switches ")[1].split()[0] for line in lines_of(rows)]
    assert found == ["5", "10", "15", "5"]


def test_rounds_per_second_are_those_since_the_last_count():
    clock, stream = Clock(), io.StringIO()
    count = iter([100, 100 + 30 * 20])
    progress = Progress(lambda: next(count), 1, stream, clock)
    for now in (2.0, 2.5, 32.0):
        clock.now = now
        tell(progress, level_row(0.1))
    assert [line.split(" rounds/s")[0].split()[-1] for line in stream.getvalue().splitlines()] == [
        "50", "20",
    ]  # fmt: skip


def test_without_rows_a_log_tells_once_a_minute_that_the_fit_is_alive():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(None, 1, stream, clock)
    progress.at({}, "level 1 of 45", 0.0)
    progress.refresh()
    assert stream.getvalue() == ""
    tell(progress, level_row(0.1))
    for now in range(1, 200):
        clock.now = float(now)
        progress.refresh()
    assert [line.split("]")[0] for line in stream.getvalue().splitlines()] == [
        "[0 s", "[1:00 min", "[2:00 min", "[3:00 min",
    ]  # fmt: skip


def read_terminal(write):
    """What a terminal of 60 columns was sent."""
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    got = []

    def read():
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # the other end is closed
                return
            if not piece:
                return
            got.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(follower, "w") as stream:
        write(stream)
    reader.join(10)
    os.close(leader)
    return b"".join(got).decode()


def test_a_terminal_has_one_line_that_never_wraps():
    def write(stream):
        clock = Clock()
        progress = Progress(None, 1, stream, clock)
        for i in range(100):
            clock.now = i / 16
            tell(progress, level_row(0.01 + 1e-5 * i))
        progress.close()

    sent = read_terminal(write)
    assert sent.count("\n") == 1
    assert sent.endswith("\n")
    drawn = sent.rstrip().split("\r\x1b[2K")[1:]
    assert len(drawn) == 51  # every second row is 0.1 s later, and the last one
    assert all(0 < len(line) < 60 for line in drawn)
    assert drawn[-1].startswith("[6 s]  level 28 of 45")


def test_the_ticking_thread_ends_with_the_fit():
    stream = io.StringIO()
    progress = Progress(None, 1, stream)
    progress.start()
    tell(progress, level_row(0.1))
    progress.close()
    assert not [t for t in threading.enumerate() if t.name == "s3vm-progress"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1:00 min"), (185, "3:05 min"), (3599.7, "1:00 h"),
     (7620, "2:07 h")],
)  # fmt: skip
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_the_time_left_follows_the_later_half():
    pace = Pace()
    for now, done in [(0, 0.0), (1, 0.25), (2, 0.5), (12, 0.6), (22, 0.7)]:
        pace.passed(now, done)
    # since the last mark before half time: 0.2 in 20 s
    assert pace.left(22) == pytest.approx(30)
    assert pace.left(27) == pytest.approx(25)
    assert pace.left(100) == 0.0
    pace.passed(30, None)
    assert pace.left(30) is None


def test_nothing_is_guessed_from_one_or_two_marks():
    pace = Pace()
    assert pace.left(0) is None
    pace.passed(1, 0.1)
    pace.passed(2, 0.2)
    assert pace.left(2) is None


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    y = np.arange(240) % 3
    X = rng.random((240, 4)) + 0.8 * np.eye(4)[y]
    return X, np.where(np.arange(240) < 45, y, -1)


@pytest.fixture
def told(monkeypatch):
    """What records tell the progress line: (what rows are about, words, part done)."""
    told, at = [], Progress.at

    def listen(self, *where):
        told.append(where)
        at(self, *where)

    monkeypatch.setattr(Progress, "at", listen)
    return told


def test_levels_of_tsvm_are_counted_as_the_method_does(rows, told):
    """Also where levels that change nothing are passed over."""
    X, y = rows
    walked, met = levels(0.5), []

    def compare(row):
        _, what, done = told[-1]
        if row["level"] == 0.0:
            assert (what, done) == ("labeled rows alone", None)
            return
        number = walked.index(row["level"]) + 1
        assert what == f"level {number} of {len(walked)}"
        assert done == (None if number == len(walked) else (number - 1) / len(walked))
        met.append(number)

    model = TSVM(1e-2, 0.5, positive_ratio="labels", verbose=True, callbacks=compare)
    model.fit(X, np.minimum(y, 1))
    assert met == sorted(met)
    assert met[-1] == len(walked)
    steps = np.diff(np.unique(met))
    assert len(steps) > 1
    assert steps.max() > 1


def test_every_level_has_its_number():
    walked = levels(0.5)
    training = types.SimpleNamespace(_levels=walked)
    for number, level in enumerate(walked, 1):
        state = TSVMState(None, number, level, np.zeros(1), False)
        what, done = TSVMTraining.progress(training, state)
        assert what == f"level {number} of {len(walked)}"
        assert done == (None if level == 0.5 else (number - 1) / len(walked))


def test_binary_problems_are_numbered_as_they_turn_up():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(None, 3, stream, clock)
    for number, key in enumerate(("class", "class", "split")):
        clock.now = 20.0 * number
        progress.at({key: 7 * number}, "stage 2 of 4", 0.5)
        progress.add_row({"objective": 1.0})
        progress.at({key: 7 * number}, "", 1.0)
    assert [line.split("  ")[1] for line in stream.getvalue().splitlines()] == [
        f"problem {number} of 3, stage 2 of 4" for number in (1, 2, 3)
    ]
    assert [part for _, part in progress._pace._passed] == [k / 6 for k in range(1, 7)]


def test_problems_that_are_under_way_at_once_count_by_their_parts():
    clock = Clock()
    progress = Progress(None, 2, io.StringIO(), clock)
    for number, done in ((1, 0.5), (0, 0.25), (1, None), (0, 0.5), (1, 1.0), (0, 1.0)):
        clock.now += 1.0
        progress.at({"class": number}, "stage 2 of 4", done)
    assert [part for _, part in progress._pace._passed] == [0.25, 0.375, 0.5, 0.75, 1.0]


@pytest.fixture
def one_thread():
    """Problems are solved one after the other."""
    with dask.config.set({"s3vm.threads": 1}):
        yield


EVERY = [L2SVM, TSVM, DAS3VM, QNS3VM, RLSC, S2RLSC, STARSVM, QPS3VM, SubmodularS3VM]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_method_has_its_words(kind, rows, capfd, one_thread):
    X, y = rows
    model = kind(verbose=True)
    if kind is not RLSC and kind is not L2SVM:
        model.set_params(positive_ratio="labels")
    model.fit(X, y)
    lines = capfd.readouterr().err.splitlines()
    assert 1 <= len(lines) <= 3
    words = {
        L2SVM: "Newton step", TSVM: "level", DAS3VM: "descent", QNS3VM: "stage",
        RLSC: "values of lam",
        S2RLSC: "restart 50 of 50", STARSVM: "stage", QPS3VM: "SVM on the labels found",
        SubmodularS3VM: "SVM on the labels found",
    }[kind]  # fmt: skip
    assert words in lines[-1]
    if kind is not RLSC:
        assert "problem 3 of 3" in lines[-1]


@pytest.mark.parametrize("kind", [TSVM, DAS3VM, QNS3VM, S2RLSC], ids=lambda kind: kind.__name__)
def test_what_is_done_only_grows(kind, rows, monkeypatch):
    X, y = rows
    found, passed = [], Pace.passed

    def listen(self, now, done):
        found.append(done)
        passed(self, now, done)

    monkeypatch.setattr(Pace, "passed", listen)
    kind(verbose=True).fit(X, y)
    done = [part for part in found if part is not None]
    assert done == sorted(done)
    assert 0 <= done[0] < 0.34
    assert 0.67 < done[-1] <= 1


def test_a_resumed_fit_goes_on_counting(rows, tmp_path, capfd, one_thread):
    def stop(row):
        if row["class"] == 2:
            raise KeyboardInterrupt

    model = TSVM(checkpoint=tmp_path, callbacks=stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*rows)
    model.set_params(callbacks=None, verbose=True).fit(*rows)
    lines = capfd.readouterr().err.splitlines()
    assert lines
    assert all("problem 3 of 3" in line for line in lines)


def test_clusters_are_told_of_too(rows, capfd):
    MaxMarginClustering(3, n_restarts=4, verbose=True, random_state=0).fit(rows[0])
    assert "problem 2 of 2, restart 4 of 4" in capfd.readouterr().err.splitlines()[-1]


def test_the_line_ends_when_a_fit_fails(rows, capfd):
    def fail(row):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        TSVM(verbose=True, callbacks=[fail]).fit(*rows)
    assert not [t for t in threading.enumerate() if t.name == "s3vm-progress"]
