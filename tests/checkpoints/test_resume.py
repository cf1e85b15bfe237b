"""A fit that is interrupted at any round and gone on with ends with the same bits."""

import dask
import numpy as np
import pytest

import dask_s3vm as s3
from dask_s3vm.checkpoints import holds_state
from dask_s3vm.engine.local import LocalEngine
from dask_s3vm.exceptions import CheckpointError
from dask_s3vm.methods import run

FITS = {
    "l2svm": lambda **more: s3.L2SVM(lam=1e-3, **more),
    "tsvm": lambda **more: s3.TSVM(lam=1e-2, positive_ratio=0.5, **more),
    "tsvm, rare class": lambda **more: s3.TSVM(lam=1e-2, **more),
    "s3vm, rare class": lambda **more: s3.S3VM(lam=1e-2, **more),
    "tsvm, few switches": lambda **more: s3.TSVM(
        lam=1e-2, positive_ratio=0.5, max_switches=3, **more
    ),
    "s3vm": lambda **more: s3.S3VM(lam=1e-2, positive_ratio=0.5, **more),
    "tsvm, probability": lambda **more: s3.TSVM(
        lam=1e-2, positive_ratio=0.5, probability=True, **more
    ),
    "qp, safe": lambda **more: s3.QPS3VM(safe=True, positive_ratio=0.5, **more),
    "da": lambda **more: s3.DAS3VM(lam=1e-2, positive_ratio=0.5, **more),
    "da, one side": lambda **more: s3.DAS3VM(
        lam=1e-2, positive_ratio=1.0, balance="predictions", **more
    ),
    "cccp": lambda **more: s3.CCCPS3VM(lam=1e-2, positive_ratio=0.5, **more),
    "lapsvm": lambda **more: s3.LapSVM(lam=1e-3, **more),
    "qn": lambda **more: s3.QNS3VM(lam=1e-2, positive_ratio=0.5, **more),
    "s2rlsc": lambda **more: s3.S2RLSC(n_restarts=6, random_state=0, **more),
    "s2rlsc, shards": lambda **more: s3.S2RLSC(n_restarts=12, sharded=True, random_state=0, **more),
    "qp": lambda **more: s3.QPS3VM(n_restarts=2, random_state=0, **more),
    "sqp": lambda **more: s3.SubmodularS3VM(**more),
    "star": lambda **more: s3.STARSVM(kernel="linear", sharded=True, **more),
    "star, exact": lambda **more: s3.STARSVM(kernel="rbf", sharded=False, random_state=0, **more),
    "rbf": lambda **more: s3.TSVM(
        lam=1e-2, kernel="rbf", n_components=20, random_state=3, positive_ratio=0.5, **more
    ),
}


#: Fits whose work is not done in rounds, or in one go.
FEW_ROUNDS = ("da, one side", "s2rlsc", "star, exact")


class Stop(KeyboardInterrupt):
    """Someone pressed a key."""


@pytest.fixture(autouse=True)
def often(tiny_shards, monkeypatch):
    """States are written at every step boundary, whatever it costs."""
    monkeypatch.setattr(run, "SAVING_SHARE", 1e9)
    with dask.config.set({"s3vm.checkpoint-interval": "0 s", "s3vm.threads": 1}):
        yield


@pytest.fixture
def rows(make_rows, rng):
    X, y = make_rows(240, 12, seed=9)
    return X, np.where(rng.random(240) < 0.2, y, -1)


@pytest.fixture
def rare():
    """Rows of a rare class that is nowhere in particular: folds of the labels decide the bias."""
    rng = np.random.default_rng(2)
    y = (np.arange(240) % 6 == 0).astype(int)
    return rng.normal(size=(240, 6)), np.where(np.arange(240) < 60, y, -1)


def interrupt_after(monkeypatch, n_rounds):
    """Let the engine's round number `n_rounds` raise; it counts what was made before."""
    left = [n_rounds]

    def counted(original):
        def round_of(self, op, *args):
            left[0] -= 1
            if left[0] < 0:
                raise Stop
            return original(self, op, *args)

        return round_of

    monkeypatch.setattr(LocalEngine, "sum", counted(LocalEngine.sum))
    monkeypatch.setattr(LocalEngine, "each", counted(LocalEngine.each))
    return left


def rounds_of(monkeypatch, fit):
    """Number of rounds that a fit makes."""
    with monkeypatch.context() as patch:
        left = interrupt_after(patch, 10**9)
        fit()
        return 10**9 - left[0]


def same_model(one, other):
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    if not isinstance(one, (s3.L2SVM, s3.LapSVM)):  # they find no labels
        np.testing.assert_array_equal(one.transduction_, other.transduction_)
    np.testing.assert_array_equal(one.objective_, other.objective_)
    np.testing.assert_array_equal(one.calibration_, other.calibration_)
    assert one.n_iter_ == other.n_iter_
    assert one.termination_ == other.termination_


def without_times(history):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in history]


@pytest.mark.parametrize("name", FITS)
def test_same_bits_after_an_interruption_at_any_round(name, rows, rare, tmp_path, monkeypatch):
    make, rows = FITS[name], rare if name.endswith("rare class") else rows
    whole = make().fit(*rows)
    total = rounds_of(monkeypatch, lambda: make(checkpoint=tmp_path / "count").fit(*rows))
    resumed_late = 0
    for n_rounds in np.unique(np.linspace(0, total - 1, 10).astype(int)):
        directory = tmp_path / f"stop{n_rounds}"
        with monkeypatch.context() as patch:
            interrupt_after(patch, n_rounds)
            with pytest.raises(Stop):
                make(checkpoint=directory).fit(*rows)
        kept = holds_state(directory)
        with monkeypatch.context() as patch:
            left = interrupt_after(patch, 10**9)
            again = make(checkpoint=directory).fit(*rows)
            resumed_late += kept and 10**9 - left[0] < total
        same_model(whole, again)
        assert without_times(again.history_) == without_times(whole.history_)
        assert not holds_state(directory)
    few = name in FEW_ROUNDS
    assert few or resumed_late >= 3, "to go on takes fewer rounds than to start again"


@pytest.mark.parametrize("name", ["s2rlsc", "star, exact"])
def test_same_bits_after_an_interruption_between_rounds(name, rows, tmp_path):
    make = FITS[name]
    whole = make().fit(*rows)
    for place in range(1, len(whole.history_), 1 + len(whole.history_) // 5):
        seen = []

        def stop(row, seen=seen, place=place):
            seen.append(row)
            if len(seen) > place:
                raise Stop

        directory = tmp_path / str(place)
        with pytest.raises(Stop):
            make(checkpoint=directory, callbacks=stop).fit(*rows)
        later = []
        again = make(checkpoint=directory, callbacks=later.append).fit(*rows)
        same_model(whole, again)
        assert len(later) == len(whole.history_) - place


def test_more_classes_go_on_where_they_were(make_rows, rng, tmp_path, monkeypatch):
    X, y = make_rows(240, 12, seed=9)
    y = y + (X[:, [3]].toarray().ravel() > 0)
    y = np.where(rng.random(240) < 0.3, y, -1)
    for make in (s3.TSVM, s3.DAS3VM, s3.QPS3VM, s3.STARSVM):
        more = {"random_state": 0} if make is s3.STARSVM else {}
        whole = make(**more).fit(X, y)
        seen = []

        def stop(row, seen=seen):
            seen.append(row["class"])
            if len(seen) > 3 and seen[-1] == 2:
                raise Stop

        directory = tmp_path / make.__name__
        with pytest.raises(Stop):
            make(checkpoint=directory, callbacks=stop, **more).fit(X, y)
        again = make(checkpoint=directory, callbacks=(later := []).append, **more).fit(X, y)
        same_model(whole, again)
        assert {row["class"] for row in later} == {2}


SUPERVISED = [
    s3.L2SVM, s3.TSVM, s3.DAS3VM, s3.CCCPS3VM, s3.QNS3VM, s3.QPS3VM, s3.SubmodularS3VM, s3.STARSVM,
    s3.LapSVM,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*y has no unlabeled row:UserWarning")
@pytest.mark.parametrize("make", SUPERVISED, ids=lambda make: make.__name__)
def test_classes_without_unlabeled_rows_go_on_where_they_were(make, rng, tmp_path):
    y = np.arange(150) % 3
    X = rng.normal(size=(150, 4)) + 2.0 * np.eye(4)[y]
    more = {"random_state": 0} if make is s3.STARSVM else {}
    whole = make(**more).fit(X, y)

    def stop(row):
        if row["class"] == 2:
            raise Stop

    with pytest.raises(Stop):
        make(checkpoint=tmp_path, callbacks=stop, **more).fit(X, y)
    later = []
    again = make(checkpoint=tmp_path, callbacks=later.append, **more).fit(X, y)
    same_model(whole, again)
    assert {row["class"] for row in later} == {2}


def test_clusters_go_on_where_they_were(rng, tmp_path):
    X = rng.normal(size=(150, 4)) + 6 * rng.integers(0, 3, 150)[:, None]
    make = lambda **more: s3.MaxMarginClustering(4, n_restarts=5, random_state=0, **more)  # noqa: E731
    whole = make().fit(X)

    def stop(row):
        if row["split"] == 1 and row["restart"] == 2:
            raise Stop

    with pytest.raises(Stop):
        make(checkpoint=tmp_path, callbacks=stop).fit(X)
    later = []
    again = make(checkpoint=tmp_path, callbacks=later.append).fit(X)
    np.testing.assert_array_equal(whole.coef_, again.coef_)
    np.testing.assert_array_equal(whole.labels_, again.labels_)
    assert min(row["split"] for row in later) == 1
    assert len([row for row in later if row["split"] == 1]) < 5


def interrupted(directory, rows, **more):
    """Leave a state of a DA fit behind."""

    def stop(row):
        if row["temperature"] < 1.0:
            raise Stop

    with pytest.raises(Stop):
        s3.DAS3VM(lam=1e-2, checkpoint=directory, callbacks=stop, **more).fit(*rows)
    assert holds_state(directory)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"lam": 2e-2}, "parameter lam was 0.01, is 0.02"),
        ({"tol": 1e-3}, "parameter tol"),
        ({"class_weight": "balanced"}, "parameter class_weight"),
    ],
)
def test_a_state_of_other_parameters_is_refused(change, named, rows, tmp_path):
    interrupted(tmp_path, rows)
    with pytest.raises(CheckpointError, match=named):
        s3.DAS3VM(**{"lam": 1e-2, "checkpoint": tmp_path, **change}).fit(*rows)
    assert holds_state(tmp_path), "a state that is refused stays"


def test_a_state_of_other_rows_is_refused(rows, tmp_path):
    interrupted(tmp_path, rows)
    X, y = rows
    model = s3.DAS3VM(lam=1e-2, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="rows: shape was"):
        model.fit(X[:-1], y[:-1])
    with pytest.raises(CheckpointError, match="rows: labels was"):
        model.fit(X, np.r_[1 if y[0] != 1 else 0, y[1:]])
    other = X.copy()
    other.data[0] += 1e-3
    with pytest.raises(CheckpointError, match="rows: digest was"):
        model.fit(other, y)
    with pytest.raises(CheckpointError, match="rows: digest was"):
        model.fit(X, y, sample_weight=np.ones(len(y)))


def test_a_state_of_another_estimator_is_refused(rows, tmp_path):
    interrupted(tmp_path, rows)
    with pytest.raises(CheckpointError, match="estimator was DAS3VM, is TSVM"):
        s3.TSVM(lam=1e-2, checkpoint=tmp_path).fit(*rows)


def test_reports_make_no_difference(rows, tmp_path, capsys):
    interrupted(tmp_path, rows)
    s3.DAS3VM(lam=1e-2, checkpoint=tmp_path, verbose=True).fit(*rows)


def test_what_is_drawn_must_be_known(rows, tmp_path):
    with pytest.raises(ValueError, match="random_state is an int, got None"):
        s3.TSVM(kernel="rbf", checkpoint=tmp_path).fit(*rows)


def test_a_failing_fit_keeps_its_state(rows, tmp_path):
    def fail(row):
        if row["temperature"] < 1.0:
            raise RuntimeError("a callback of the user's")

    with pytest.raises(RuntimeError, match="of the user's"):
        s3.DAS3VM(lam=1e-2, checkpoint=tmp_path, callbacks=fail).fit(*rows)
    assert holds_state(tmp_path)


def test_states_are_not_written_at_every_step(rows, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(
        "dask_s3vm.checkpoints.state_file.write_state", lambda *args: written.append(args)
    )
    with dask.config.set({"s3vm.checkpoint-interval": "1 h"}):
        s3.DAS3VM(lam=1e-2, checkpoint=tmp_path).fit(*rows)
        assert not written
        with pytest.raises(Stop):
            s3.DAS3VM(lam=1e-2, checkpoint=tmp_path, callbacks=_stop_in_the_middle).fit(*rows)
    assert len(written) == 1, "the last one is"


def _stop_in_the_middle(row):
    if row["temperature"] < 1.0:
        raise Stop
