"""The outer loop of deterministic annealing, and losses at any moment."""

import itertools

import numpy as np
import pytest
from losses import Losses

from dask_s3vm import L2SVM
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods import annealing
from dask_s3vm.methods.annealing import DASettings, train_da
from dask_s3vm.methods.base import History, TransductiveTask

pytestmark = pytest.mark.usefixtures("tiny_shards")

LAM, LAM_U = 0.02, 0.8


def task_of(y, ratio=0.5, positive=1):
    n_labeled, n_unlabeled = int((y >= 0).sum()), int((y < 0).sum())
    costs = np.full(int(y.max()) + 1, 1 / n_labeled)
    return TransductiveTask(positive, costs, n_unlabeled, float(n_unlabeled), ratio)


def settings_of(**more):
    wanted = {
        "lam": LAM, "lam_unlabeled": LAM_U, "fit_intercept": True, "tol": 1e-8, "max_iter": 100,
    }  # fmt: skip
    return DASettings(**(wanted | more))


def train(X, y, ratio=0.5, **more):
    engine = ingest(X, y).place(np.arange(int(y.max()) + 1))
    history = History()
    solution = train_da(engine, task_of(y, ratio), settings_of(**more), None, history)
    engine.close()
    return solution, history.rows


def clusters(seed, n, n_labeled, d=6):
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % 2)
    X = rng.normal(size=(n, d))
    X[:, 0] += 1.5 * truth
    truth[:2] = 0, 1
    return X, np.where(np.arange(n) < n_labeled, truth, -1)


@pytest.fixture(scope="module")
def medium():
    """200 rows, 20 labelled, several shards."""
    return clusters(6, 200, 20)


def value_of(X, y, w):
    """Transductive objective from the formula."""
    o = X @ w[:-1] + w[-1]
    lab = y >= 0
    known = np.maximum(0, 1 - (2 * y[lab] - 1) * o[lab])
    free = np.maximum(0, 1 - np.abs(o[~lab]))
    return 0.5 * (known**2).mean() + 0.5 * LAM_U * (free**2).mean() + 0.5 * LAM * w @ w


def value_at_labels(X, y, labels):
    """Minimum over w for given labels of all rows."""
    weight = np.where(y >= 0, 1 / (y >= 0).sum(), LAM_U / (y < 0).sum())
    total = weight.sum()
    return L2SVM(LAM / total, tol=1e-13).fit(X, labels, weight).objective_ * total


@pytest.mark.parametrize("seed", range(4))
def test_the_objective_is_that_of_the_formula_and_the_best_of_the_path(seed):
    X, y = clusters(seed, 60, 8)
    solution, rows = train(X, y)
    assert solution.objective == pytest.approx(value_of(X, y, solution.w), rel=1e-12)
    assert solution.objective <= min(row["objective"] for row in rows)


def test_the_last_solve_is_as_accurate_as_was_asked_for():
    """For its beliefs, which are certain by then; it is returned where it is the best."""
    gaps = []
    for seed in range(8):
        X, y = clusters(seed, 60, 8)
        engine = ingest(X, y).place(np.array([0, 1]))
        history = History()
        solution = train_da(engine, task_of(y), settings_of(), None, history)
        p = np.concatenate(engine.each(lambda shard: shard.state["belief"].copy()))
        engine.close()
        if solution.objective == history.rows[-1]["objective"]:
            labels = np.where(y < 0, p > 0.5, y)
            o, lab = X @ solution.w[:-1] + solution.w[-1], y >= 0
            loss = np.maximum(0, 1 - (2 * labels - 1) * o) ** 2
            value = 0.5 * loss[lab].mean() + 0.5 * LAM_U * loss[~lab].mean()
            value += 0.5 * LAM * solution.w @ solution.w
            gaps.append(value / value_at_labels(X, y, labels) - 1)
    assert len(gaps) > 0
    assert max(gaps) < 1e-4


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
    path = [row for row in rows if row["temperature"] > 0]
    steps = [list(group) for _, group in itertools.groupby(path, lambda row: row["temperature"])]
    assert steps[0][0]["temperature"] == annealing.FIRST_TEMPERATURE * LAM_U
    for a, b in itertools.pairwise(steps):
        assert a[0]["temperature"] / b[0]["temperature"] == pytest.approx(annealing.COOLING)
        assert a[-1]["divergence"] < annealing.REST or len(a) == annealing.MAX_STEPS
        assert a[-1]["entropy"] >= annealing.CERTAIN
    assert len(steps) <= annealing.MAX_TEMPERATURES
    assert steps[-1][-1]["entropy"] < annealing.CERTAIN
    assert all(row["divergence"] >= -1e-12 for row in rows)
    assert all(-1e-12 <= row["entropy"] <= np.log(2) for row in rows)


def test_the_history_says_what_was_done(medium):
    solution, rows = train(*medium)
    keys = {
        "class", "temperature", "objective", "divergence", "entropy", "n_active", "cg_steps",
        "seconds",
    }  # fmt: skip
    assert all(set(row) == keys for row in rows)
    assert solution.termination == "converged"


def test_at_a_temperature_the_annealed_objective_falls(medium, monkeypatch):
    """Eq. 1.6: each half step lowers it, at p of mean r."""
    X, y = medium
    engine = ingest(X, y).place(np.array([0, 1]))
    run = annealing._Run(engine, task_of(y), settings_of(), History())
    temperature, share = 0.3, 1 / (y < 0).sum()
    values = []

    def annealed_value(entropy):
        value = run.problem.step(lambda: run.problem.evaluate(run._point.w)).value
        values.append(value - 0.5 * temperature * entropy)

    run.solve(np.zeros(X.shape[1] + 1))
    for _ in range(12):
        _, entropy = run._update_beliefs(temperature)
        annealed_value(entropy)
        run.solve(run._point.w)
        annealed_value(entropy)
        p = np.concatenate(engine.each(lambda s: s.state["belief"][s.unlabeled]))
        assert share * p.sum() == pytest.approx(0.5, abs=1e-8)
    engine.close()
    assert all(b <= a * (1 + 1e-9) for a, b in itertools.pairwise(values))
    assert values[-1] < values[0]


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_a_ratio_of_nothing_or_all_ends_at_once(medium, ratio):
    solution, rows = train(*medium, ratio=ratio)
    assert len({row["temperature"] for row in rows if row["temperature"] > 0}) == 1
    assert np.isfinite(solution.w).all()


# losses


def trained_bits(engine, y, positives):
    history = History()
    found = [
        train_da(engine, task_of(y, 0.4, positive), settings_of(tol=1e-6), None, history)
        for positive in positives
    ]
    numbers = [(one.w.tobytes(), one.objective, one.n_iter, one.termination) for one in found]
    return numbers, [{**row, "seconds": 0} for row in history.rows]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_loss_at_any_moment_changes_no_bit(monkeypatch, medium, n_classes):
    X, y = medium
    y = np.where((y >= 0) & (np.arange(200) % n_classes == 2), 2, y)
    if n_classes == 3:
        monkeypatch.setattr(annealing, "MAX_TEMPERATURES", 2)
    world = Losses(ingest(X, y).place(np.arange(n_classes)), monkeypatch)
    positives = [1] if n_classes == 2 else [0, 1, 2]
    wanted = trained_bits(world.engine(), y, positives)
    total = world.calls
    assert total > 50
    for at in range(1, total + 1, max(1, total // 25)):
        engine = world.engine(at)
        assert trained_bits(engine, y, positives) == wanted, f"lost at call {at}"
        assert engine.generation == 1
