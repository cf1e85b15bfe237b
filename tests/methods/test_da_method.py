"""The outer loop of deterministic annealing, and losses at any moment."""

import itertools

import numpy as np
import pytest
from objectives import LAM, LAM_U, value_at_labels, value_of
from scipy.special import expit

from dask_s3vm import L2SVM
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods import da
from dask_s3vm.methods.base import BinaryJob, BinaryTask, Start
from dask_s3vm.methods.da import Cooling, train_da
from dask_s3vm.methods.run import Record
from dask_s3vm.parameters.methods import DAParameters

pytestmark = pytest.mark.usefixtures("tiny_shards")


def task_of(y, ratio=0.5, positive=1):
    n_labeled, n_unlabeled = int((y >= 0).sum()), int((y < 0).sum())
    costs = np.full(int(y.max()) + 1, 1 / n_labeled)
    return BinaryTask(positive, costs, n_unlabeled, float(n_unlabeled), ratio)


def parameters_of(**more):
    wanted = {
        "lam": LAM, "lam_unlabeled": LAM_U, "fit_intercept": True, "tol": 1e-8, "max_iter": 100,
    }  # fmt: skip
    return DAParameters(**(wanted | more))


def train_on(engine, record, task, **more):
    start = Start(np.zeros(engine.layout.n_features + 1))
    name, tags = f"class {task.positive}", {"class": task.positive}
    return train_da(BinaryJob(engine, record, task, start, name, tags), parameters_of(**more))


def train(X, y, ratio=0.5, **more):
    engine = ingest(X, y).place(np.arange(int(y.max()) + 1))
    record = Record()
    solution = train_on(engine, record, task_of(y, ratio), **more)
    engine.close()
    return solution, record.history


def clusters(seed, n, n_labeled, d=6):
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % 2)
    X = rng.normal(size=(n, d))
    X[:, 0] += 1.5 * truth
    truth[:2] = 0, 1
    return X, np.where(np.arange(n) < n_labeled, truth, -1)


@pytest.fixture(scope="module")
def medium():
    """200 rows, 20 labeled, several shards."""
    return clusters(6, 200, 20)


@pytest.mark.parametrize("seed", range(4))
def test_the_objective_is_that_of_the_formula_and_below_the_path(seed):
    X, y = clusters(seed, 60, 8)
    solution, rows = train(X, y)
    assert solution.objective == pytest.approx(value_of(X, y, solution.w), rel=1e-12)
    assert solution.objective <= min(row["objective"] for row in rows) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_it_ends_in_a_local_minimum(seed):
    """The weights are best for the labels, and no pair of labels is in the wrong order."""
    X, y = clusters(seed, 60, 8)
    engine = ingest(X, y).place(np.array([0, 1]))
    record = Record()
    solution = train_on(engine, record, task_of(y))
    labels = np.concatenate(engine.each(lambda shard: shard.state["target"] > 0)).astype(int)
    engine.close()
    reached = record.history[-1]["objective"]
    assert reached == pytest.approx(value_at_labels(X, y, labels), rel=1e-7)
    o, free = X @ solution.w[:-1] + solution.w[-1], y < 0
    up, down = o[free & (labels == 1) & (o < 1)], o[free & (labels == 0) & (o > -1)]
    assert len(up) == 0 or len(down) == 0 or up.min() >= down.max() - 1e-5
    assert solution.objective <= reached * (1 + 1e-12)


def test_it_does_not_collapse_where_the_objective_is_lowest_on_one_side():
    """Few labels, no clusters: with free labels, all rows would go to one class."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 40))
    y = np.where(np.arange(400) < 10, np.arange(400) % 2, -1)
    solution, _ = train(X, y, lam=1e-3)
    share = (X @ solution.w[:-1] + solution.w[-1] > 0).mean()
    assert 0.4 < share < 0.6


@pytest.mark.parametrize("seed", range(3))
def test_it_is_not_below_the_global_minimum(seed):
    X, y = clusters(seed, 12, 4, d=3)
    solution, _ = train(X, y)
    free = np.flatnonzero(y < 0)
    least = np.inf
    for signs in itertools.product([0, 1], repeat=len(free)):
        labels = y.copy()
        labels[free] = signs
        least = min(least, value_at_labels(X, y, labels))
    assert solution.objective >= least * (1 - 1e-9)


def test_temperatures_fall_until_beliefs_are_certain(medium):
    _, rows = train(*medium)
    path = [row for row in rows if row["event"] == "anneal"]
    assert path[0]["temperature"] == da.FIRST_TEMPERATURE * LAM_U
    for a, b in itertools.pairwise(path):
        power = np.log2(np.log(a["temperature"] / b["temperature"]) / np.log(da.COOLING))
        assert power == pytest.approx(round(power), abs=1e-9)  # 1.5, its square, its fourth power
        decided = a["entropy"] < da.DECIDED * np.log(2)
        assert round(power) == 0 or (decided and a["evaluations"] == 1)
        assert a["entropy"] >= da.CERTAIN
    assert 1 < len(path) < da.MAX_TEMPERATURES
    assert path[-1]["entropy"] <= np.log(2) / 180
    assert all(-1e-12 <= row["entropy"] <= np.log(2) for row in path)


def test_a_row_that_is_always_in_doubt_does_not_keep_it_from_ending():
    """r u = 2.5: one row is +1 with probability 1/2 at any temperature."""
    X, y = clusters(1, 15, 10)
    _, rows = train(X, y, ratio=0.5)
    path = [row for row in rows if row["event"] == "anneal"]
    assert len(path) < da.MAX_TEMPERATURES


def test_the_history_says_what_was_done(medium):
    solution, rows = train(*medium)
    keys = {
        "class", "event", "temperature", "objective", "entropy", "evaluations", "cg_steps",
        "switches", "seconds",
    }  # fmt: skip
    assert all(set(row) == keys for row in rows)
    events = [event for event, _ in itertools.groupby(row["event"] for row in rows)]
    assert events[:3] == ["anneal", "retrain", "switch"]
    assert all(row["evaluations"] > 0 for row in rows if row["event"] == "anneal")
    assert solution.n_iter == sum(row["event"] in ("anneal", "switch") for row in rows)
    assert solution.termination == "converged"


def test_weights_rest_where_the_alternation_of_the_paper_does(medium, monkeypatch):
    """At a temperature: w is the minimum for its p (eq. 1.8, doubled rows), p those of eq. 1.9."""
    X, y = medium
    temperature, free = 0.3, y < 0
    monkeypatch.setattr(da, "FIRST_TEMPERATURE", temperature / LAM_U)
    monkeypatch.setattr(da, "MAX_TEMPERATURES", 1)
    monkeypatch.setattr(da, "REST", 1e-13)
    monkeypatch.setattr(da, "ROUGH", 1e-13)
    engine = ingest(X, y).place(np.array([0, 1]))
    cooling = Cooling(engine, task_of(y), parameters_of(), Start(np.zeros(X.shape[1] + 1)))
    state = cooling.advance(cooling.start())
    assert state.done
    point = cooling._point
    engine.close()
    o = X @ point.w[:-1] + point.w[-1]
    g = LAM_U * (np.maximum(0, 1 - o) ** 2 - np.maximum(0, 1 + o) ** 2)
    p = np.where(free, expit((point.nu - g) / temperature), y)
    assert p[free].mean() == pytest.approx(0.5, abs=1e-8)
    assert p[free].std() > 0.05
    cost = np.where(free, LAM_U / free.sum(), 1 / (~free).sum())
    weight = np.concatenate([cost * p, cost * (1 - p)])
    doubled = L2SVM(LAM / weight.sum(), tol=1e-14, max_iter=200)
    doubled.fit(np.concatenate([X, X]), np.repeat([1, 0], len(y)), weight)
    np.testing.assert_allclose(point.w[:-1], doubled.coef_[0], atol=2e-5)
    assert point.w[-1] == pytest.approx(doubled.intercept_[0], abs=2e-5)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_a_ratio_of_nothing_or_all_is_a_supervised_problem(medium, ratio):
    X, y = medium
    solution, rows = train(X, y, ratio=ratio)
    assert {row["event"] for row in rows} == {"retrain"}
    wanted = value_at_labels(X, y, np.where(y < 0, int(ratio), y))
    assert rows[-1]["objective"] == pytest.approx(wanted, rel=1e-7)
    assert np.isfinite(solution.w).all()


def trained_bits(engine, y, positives):
    record = Record()
    found = [
        train_on(engine, record, task_of(y, 0.4, positive), tol=1e-6) for positive in positives
    ]
    numbers = [(one.w.tobytes(), one.objective, one.n_iter, one.termination) for one in found]
    return numbers, [{**row, "seconds": 0} for row in record.history]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_loss_at_any_moment_changes_no_bit(losses, monkeypatch, medium, n_classes):
    X, y = medium
    y = np.where((y >= 0) & (np.arange(200) % n_classes == 2), 2, y)
    if n_classes == 3:
        monkeypatch.setattr(da, "MAX_TEMPERATURES", 2)
    positives = [1] if n_classes == 2 else [0, 1, 2]
    losses(X, y).bits_of(lambda engine: trained_bits(engine, y, positives), n_moments=25)


def test_equal_rows_in_doubt_do_not_cool_forever(rng):
    """Beliefs of equal rows on the plane are never certain; steps that are skipped do count."""
    X = np.concatenate(
        [rng.normal(2, 0.1, (60, 2)), rng.normal(-2, 0.1, (60, 2)), np.zeros((2, 2))]
    )
    y = np.full(len(X), -1)
    y[:5], y[60:65] = 1, 0
    _, history = train(X, y, lam=1e-2, lam_unlabeled=1.0)
    temperatures = [row["temperature"] for row in history if row["event"] == "anneal"]
    assert history[len(temperatures) - 1]["entropy"] > da.CERTAIN
    assert temperatures[-1] >= da.FIRST_TEMPERATURE / da.COOLING**da.MAX_TEMPERATURES
