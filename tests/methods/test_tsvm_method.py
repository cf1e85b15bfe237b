"""The outer loop of TSVM: levels, descent, local optimality, and losses at any moment."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from objectives import LAM, LAM_U, value_at_labels, value_of

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods import tsvm
from dask_s3vm.methods.base import BinaryJob, BinaryTask, Start
from dask_s3vm.methods.run import Record
from dask_s3vm.methods.tsvm import (
    FIRST_LEVEL,
    GROWTH,
    LabelAlternation,
    TurnState,
    levels,
    train_tsvm,
)
from dask_s3vm.parameters.methods import TSVMParameters

pytestmark = pytest.mark.usefixtures("tiny_shards")


def parameters_of(**more):
    wanted = {
        "lam": LAM, "lam_unlabeled": LAM_U, "max_switches": None, "fit_intercept": True,
        "tol": 1e-10, "max_iter": 100,
    }  # fmt: skip
    return TSVMParameters(**(wanted | more))


def task_of(y, ratio=0.5, positive=1, interval=None):
    n_labeled, n_unlabeled = int((y >= 0).sum()), int((y < 0).sum())
    n_classes = int(y.max()) + 1
    costs = np.full(n_classes, 1 / n_labeled)
    interval = (ratio, ratio) if interval is None else interval
    return BinaryTask(positive, costs, n_unlabeled, float(n_unlabeled), ratio, interval)


def train_on(engine, record, task, **more):
    start = Start(np.zeros(engine.layout.n_features + 1))
    name, tags = f"class {task.positive}", {"class": task.positive}
    return train_tsvm(BinaryJob(engine, record, task, start, name, tags), parameters_of(**more))


def train(X, y, ratio=0.5, **more):
    engine = ingest(X, y).place(np.arange(int(y.max()) + 1))
    record = Record()
    solution = train_on(engine, record, task_of(y, ratio), **more)
    engine.close()
    return solution, record.history


def tiny(seed, n_unlabeled, d=3):
    """Two overlapping clusters, two labeled rows of each."""
    rng = np.random.default_rng(seed)
    truth = np.append([0, 1, 0, 1], rng.integers(0, 2, n_unlabeled))
    X = rng.normal(size=(len(truth), d))
    X[:, 0] += 1.5 * truth
    return X, np.append(truth[:4], np.full(n_unlabeled, -1))


@pytest.fixture(scope="module")
def medium():
    """200 rows, 20 labeled, several shards."""
    rng = np.random.default_rng(6)
    truth = rng.integers(0, 2, 200)
    X = rng.normal(size=(200, 8))
    X[:, 0] += 1.5 * truth
    return X, np.where(np.arange(200) < 20, truth, -1)


# levels


@pytest.mark.parametrize("lam_u", [1e-9, 1e-5, 1.3e-5, 0.5, 1.0, 100.0])
def test_levels_grow_to_the_wanted_cost(lam_u):
    costs = levels(lam_u)
    assert costs[0] == min(FIRST_LEVEL, lam_u)
    assert costs[-1] == lam_u
    for a, b in itertools.pairwise(costs):
        assert a < b <= GROWTH * a * (1 + 1e-15)


# descent


@pytest.mark.parametrize("most", [None, 1, 5])
def test_the_objective_never_rises_within_a_level(medium, most):
    _, rows = train(*medium, max_switches=most)
    trained = [row for row in rows if row["event"] == "retrain"]
    for _, level in itertools.groupby(trained, key=lambda row: row["level"]):
        values = [row["objective"] for row in level]
        assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(values))
    assert sum(row["switches"] for row in rows) > 0
    assert max(row["switches"] for row in rows) <= (most or np.inf)


@pytest.mark.parametrize("most", [None, 1, 5])
def test_every_level_ends_when_nothing_switches(medium, most):
    _, rows = train(*medium, max_switches=most)
    for level, of_level in itertools.groupby(rows[1:], key=lambda row: row["level"]):
        events = list(of_level)
        assert events[-1]["event"] == "switch"
        if most is not None:  # all pairs at once leave none at the same weights
            assert events[-1]["switches"] == 0
        assert level > 0


def test_levels_that_change_nothing_cost_no_round(medium):
    """Nearly all rows are outside the margin: w stays where it is until the cost is large."""
    X, y = medium
    rounds = []
    for lam_u in (1e-5, 1e-3):
        engine = ingest(X, y).place(np.arange(2))
        train_on(engine, Record(), task_of(y, 0.5), lam_unlabeled=lam_u)
        rounds.append(engine.rounds)
    assert len(levels(1e-3)) > 15
    assert rounds[1] <= rounds[0] + len(levels(1e-3))  # a level takes 3 rounds at least


def test_the_history_says_what_was_done(medium):
    solution, rows = train(*medium)
    keys = {
        "class", "event", "level", "objective", "n_active", "newton_steps", "cg_steps", "switches",
        "seconds",
    }  # fmt: skip
    assert all(set(row) == keys for row in rows)
    assert rows[0]["event"] == "retrain"
    assert rows[0]["level"] == 0.0
    assert [row["level"] for row in rows] == sorted(row["level"] for row in rows)
    assert [row["event"] for row in rows[1:]] == ["retrain", "switch"] * solution.n_iter
    assert sum(row["newton_steps"] for row in rows) > 0
    assert all(row["newton_steps"] == 0 for row in rows if row["event"] == "switch")
    assert solution.termination == "converged"


# optimality


def labelings(y, n_positive):
    free = np.flatnonzero(y < 0)
    for chosen in itertools.combinations(free, n_positive):
        labels = np.where(y < 0, 0, y)
        labels[list(chosen)] = 1
        yield labels


@pytest.mark.parametrize("seed", range(6))
def test_the_objective_is_that_of_the_formula(seed):
    X, y = tiny(seed, 30)
    solution, _ = train(X, y)
    assert solution.objective == pytest.approx(value_of(X, y, solution.w), rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_it_ends_in_a_local_optimum_and_not_below_the_global_one(seed):
    X, y = tiny(seed, 7)
    solution, rows = train(X, y, ratio=3 / 7)
    reached = rows[-1]["objective"]  # at labels that obey the ratio
    values = {tuple(labels): value_at_labels(X, y, labels) for labels in labelings(y, 3)}
    assert reached >= min(values.values()) * (1 - 1e-9)
    ends = [labels for labels, value in values.items() if value == pytest.approx(reached, rel=1e-8)]
    assert ends, "the objective is not that of any balanced labeling"
    # a pair that would be switched at the minimum of some labeling lowers it: there is none
    o = X @ solution.w[:-1] + solution.w[-1]
    assert any(nothing_switches(np.array(labels), y, o) for labels in ends)
    assert solution.objective <= reached * (1 + 1e-12)


def nothing_switches(labels, y, o):
    free = y < 0
    up, down = o[free & (labels == 1) & (o < 1)], o[free & (labels == 0) & (o > -1)]
    return len(up) == 0 or len(down) == 0 or up.min() >= down.max() - 1e-6


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_all_rows_of_one_sign_is_a_supervised_problem(medium, ratio):
    X, y = medium
    _, rows = train(X, y, ratio=ratio)
    assert sum(row["switches"] for row in rows) == 0
    wanted = value_at_labels(X, y, np.where(y < 0, int(ratio), y))
    assert rows[-1]["objective"] == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize(("ratio", "n", "wanted"), [(0.5, 3, 2), (0.0, 7, 0), (1.0, 7, 7)])
def test_the_number_of_positive_rows_is_rounded(ratio, n, wanted):
    assert BinaryTask(1, np.ones(2), n, float(n), ratio).n_positive == wanted


def trained_bits(engine, y, positives, **more):
    record = Record()
    found = [train_on(engine, record, task_of(y, 0.4, positive), **more) for positive in positives]
    numbers = [(one.w.tobytes(), one.objective, one.n_iter, one.termination) for one in found]
    return numbers, [{**row, "seconds": 0} for row in record.history]


@pytest.mark.parametrize(
    ("interval", "wanted"),
    [
        ((0.26, 0.361), (280, 330)),  # half of it
        ((0.10, 0.50), (250, 350)),  # no more than five points
        ((0.30, 0.304), (300, 300)),  # too narrow
        ((0.05, 0.55), (300, 300)),  # too wide
        ((0.30, 0.30), (300, 300)),
    ],
)
def test_labels_may_end_near_the_ratio(interval, wanted):
    assert BinaryTask(1, np.ones(2), 1000, 1000.0, 0.3, interval).label_window == wanted


def test_a_release_lowers_the_objective_within_its_window():
    rng = np.random.default_rng(3)
    truth = rng.random(300) < 0.4
    X = rng.normal(size=(300, 5)) + 1.2 * truth[:, None]
    y = np.where(np.arange(300) < 40, truth.astype(int), -1)
    found = {}
    for interval in ((0.5, 0.5), (0.35, 0.65)):
        engine, record = ingest(X, y).place(np.arange(2)), Record()
        task = task_of(y, 0.5, interval=interval)
        solution = train_on(engine, record, task)
        n = sum(
            int(np.count_nonzero(shard.state["target"][shard.unlabeled] > 0))
            for shard in engine.shared_rows().shards
        )
        found[interval] = solution.objective, n, record.history
        engine.close()
    fixed, free = found.values()
    assert fixed[1] == 130
    assert free[1] < 130
    assert free[1] >= task.label_window[0]
    assert free[0] < fixed[0]
    released = [row for row in free[2] if row["event"] == "release"]
    assert released
    assert not any(row["event"] == "release" for row in fixed[2])
    # labels are not brought to rest at `tol` first, as those of a fixed number are
    before = itertools.takewhile(lambda row: row["event"] != "release", free[2])
    assert sum(row["cg_steps"] for row in before) < sum(row["cg_steps"] for row in fixed[2])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_loss_at_any_moment_changes_no_bit(losses, medium, n_classes):
    X, y = medium
    y = np.where((y >= 0) & (np.arange(200) % n_classes == 2), 2, y)
    positives = [1] if n_classes == 2 else [0, 1, 2]
    more = {"lam_unlabeled": 2e-5, "tol": 1e-6} if n_classes == 3 else {"tol": 1e-4}
    losses(X, y).bits_of(lambda engine: trained_bits(engine, y, positives, **more), n_moments=40)


def test_labels_that_never_rest_do_not_hang_a_fit(monkeypatch):
    """A change of labels that is reported again and again ends after so many turns."""
    monkeypatch.setattr(tsvm, "MAX_TURNS", 7)
    told, turns = [], []
    # at most one pair at once: all pairs would leave none at the same weights
    alternation = LabelAlternation(Restless(), 0.0, 10, 1, lambda *half: told.append(half))
    monkeypatch.setattr(
        alternation, "retrained", lambda state: turns.append(state.gap) or replace(state)
    )
    state = TurnState(None, np.ones(1), [], 1.0, 0.1, 0, False, "converged")
    while not state.done:
        state = alternation.turn(state, to_tol=True)
    assert turns == [0.1] * 7
    assert [half[0] for half in told] == ["switch"] * 7
    assert state.n_turns == 7
    assert state.termination == "max_iter"


class Restless:
    """A problem that switches a pair whenever it is asked to."""

    labels = ()

    def switch(self, point, most):
        return 1, point
