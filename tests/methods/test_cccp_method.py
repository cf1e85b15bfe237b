"""CCCP: the paper's procedure written out, descent, losses of workers."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from dask_s3vm import CCCPS3VM
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.base import BinaryTask, Start
from dask_s3vm.methods.cccp import CCCPTraining
from dask_s3vm.methods.run import Record
from dask_s3vm.parameters.methods import CCCPParameters

S = -0.3


def clusters(n_labeled=6, n_unlabeled=14, seed=0, apart=1.0):
    rng = np.random.default_rng(seed)
    n = n_labeled + n_unlabeled
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 2)) + apart * np.outer(2 * y - 1, [1.0, 0.5])
    return X, y, np.where(np.arange(n) < n_labeled, y, -1)


def transcription(X, few, C, C_star, ratio):
    """Algorithm 1 of Collobert et al., with rows twice, an offset and the constraint (11).

    Variables of a convex step are (w, b, slack of every copy). Returns (w, b).
    """
    free = few < 0
    signs = np.where(few[~free] == 1, 1.0, -1.0)
    rows = np.concatenate([X[~free], X[free], X[free]])
    u = int(free.sum())
    target = np.concatenate([signs, np.ones(u), -np.ones(u)])
    cost = np.concatenate([np.full(len(signs), C), np.full(2 * u, C_star)])
    d, n = X.shape[1], len(rows)
    mean = np.append(X[free].mean(axis=0), 1.0)
    level = 2.0 * ratio - 1.0
    edges = np.column_stack([target[:, None] * rows, target, np.eye(n)])

    def step(beta, cost, start):
        pull = (beta * target) @ np.column_stack([rows, np.ones(n)])
        gradient = np.concatenate([pull, cost])

        def value(v):
            return 0.5 * v[:d] @ v[:d] + gradient @ v

        def slope(v):
            return gradient + np.concatenate([v[:d], np.zeros(1 + n)])

        wanted = [
            {"type": "ineq", "fun": lambda v: edges @ v - 1.0, "jac": lambda v: edges},
            {
                "type": "eq",
                "fun": lambda v: mean @ v[: d + 1] - level,
                "jac": lambda v: np.append(mean, np.zeros(n))[None],
            },
        ]
        bounds = [(None, None)] * (d + 1) + [(0, None)] * n
        found = minimize(value, start, jac=slope, bounds=bounds, constraints=wanted,
                         method="SLSQP", options={"maxiter": 2000, "ftol": 1e-12})  # fmt: skip
        return found.x

    start = np.concatenate([np.zeros(d + 1), np.ones(n)])
    start[d] = level
    start[d + 1 :] = np.maximum(0.0, 1.0 - edges[:, : d + 1] @ start[: d + 1])
    only = cost * (np.arange(n) < len(signs))
    v, beta = step(np.zeros(n), only, start), None
    for _ in range(50):
        margin = target * (rows @ v[:d] + v[d])
        new = np.where((np.arange(n) >= len(signs)) & (margin < S), cost, 0.0)
        if beta is not None and np.array_equal(new, beta):
            return v[:d], v[d]
        beta = new
        start = v.copy()
        start[d + 1 :] = np.maximum(0.0, 1.0 - margin)
        v = step(beta, cost, start)
    raise AssertionError("labels do not rest")


def objective(w, b, X, few, lam, lam_unlabeled):
    f, free = X @ w + b, few < 0
    known = np.maximum(0, 1 - np.where(few == 1, 1, -1) * f)[~free]
    ramps = [np.minimum(1 - S, np.maximum(0, 1 - sign * f[free])) for sign in (1, -1)]
    return known.mean() + lam_unlabeled * (sum(ramps) - (1 - S)).mean() + lam * w @ w


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("lam", "weight"), [(0.1, 1.0), (0.02, 0.5)])
def test_it_ends_where_the_paper_s_algorithm_does(seed, lam, weight):
    X, _, few = clusters(seed=seed)
    ratio, n_labeled, u = 0.5, 6, 14
    model = CCCPS3VM(lam, weight, positive_ratio=ratio, balance="paper", tol=1e-9).fit(X, few)
    w, b = transcription(X, few, 1 / (2 * lam * n_labeled), weight / (2 * lam * u), ratio)
    reached = objective(model.coef_[0], model.intercept_[0], X, few, lam, weight)
    assert model.objective_ == pytest.approx(reached, rel=1e-9)
    assert reached == pytest.approx(objective(w, b, X, few, lam, weight), rel=1e-4)
    outputs = model.decision_function(X[few < 0])
    assert outputs.mean() == pytest.approx(2 * ratio - 1, abs=1e-9)


@pytest.mark.usefixtures("tiny_shards")
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("lam", [1e-1, 1e-3])
def test_the_objective_falls_in_every_turn(lam, kernel):
    X, _, few = clusters(20, 380, apart=0.6)
    model = CCCPS3VM(lam, positive_ratio=0.5, kernel=kernel, random_state=0).fit(X, few)
    values = [row["objective"] for row in model.history_]
    assert all(b < a for a, b in itertools.pairwise(values[:-1]))
    assert values[-1] <= values[-2]  # the last may gain less than its gap
    assert model.n_iter_ == len(values) - 1 >= 2
    assert model.history_[-1]["changes"] == 0
    assert model.termination_ == "converged"
    assert model.objective_ == pytest.approx(values[-1])


def test_labels_that_no_output_reaches_are_left_out():
    X, _, few = clusters(20, 180, apart=0.6)
    soft, hard = (
        CCCPS3VM(0.1, ramp=s, positive_ratio=0.5, balance="paper").fit(X, few) for s in (-0.9, 0.0)
    )
    assert soft.history_[0]["changes"] < hard.history_[0]["changes"] == 180


def test_weights_are_repetitions():
    X, _, few = clusters(20, 80)
    weights = np.random.default_rng(0).integers(0, 3, 100)
    more = {"lam": 0.1, "positive_ratio": 0.5, "balance": "paper", "tol": 1e-12}
    weighted = CCCPS3VM(**more).fit(X, few, sample_weight=weights.astype(float))
    repeated = CCCPS3VM(**more).fit(np.repeat(X, weights, axis=0), np.repeat(few, weights))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-8)


def test_without_a_bias_nothing_is_centered():
    X, _, few = clusters(20, 180, apart=1.5)
    model = CCCPS3VM(0.1, fit_intercept=False, positive_ratio=0.5, supervised_part=0.0).fit(X, few)
    assert model.intercept_ == 0.0
    value = objective(model.coef_[0], 0.0, X, few, 0.1, 1.0)
    assert model.objective_ == pytest.approx(value, rel=1e-9)


def test_a_warm_start_labels_by_the_last_weights():
    X, _, few = clusters(20, 180)
    model = CCCPS3VM(0.1, positive_ratio=0.5, balance="paper", warm_start=True).fit(X, few)
    before = model.objective_
    model.fit(X, few)
    assert model.history_[0]["steps"] == 0
    assert model.objective_ <= before * (1 + 1e-9)


@pytest.mark.parametrize("s", [-1.0, 0.1, -2])
def test_a_ramp_has_a_range(s):
    X, _, few = clusters()
    with pytest.raises(ValueError, match="ramp"):
        CCCPS3VM(ramp=s).fit(X, few)


def trained_bits(engine):
    record = Record()
    parameters = CCCPParameters(lam=0.05, tol=1e-4)
    found = []
    for positive in (0, 1):
        task = BinaryTask(positive, np.full(2, 1 / 50), 250, 250.0, 0.5)
        start = Start(np.zeros(engine.layout.n_features + 1))
        one = record.run(str(positive), CCCPTraining(engine, task, parameters, start))
        found += [one.w.tobytes(), one.objective, one.n_iter, one.termination]
    return found, [{**row, "seconds": 0} for row in record.history]


@pytest.mark.usefixtures("tiny_shards")
def test_a_loss_at_any_moment_changes_no_bit(losses, make_rows):
    X, y = make_rows(300, 20, seed=8)
    world = losses(X, np.where(np.arange(300) % 6 == 0, y, -1))
    wanted = trained_bits(world.source)  # compiles: slow trainings save more states
    assert world.bits_of(trained_bits, n_moments=15, least=20) == wanted


def test_one_against_the_rest():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 3)) + 4.0 * np.eye(3)[y]
    model = CCCPS3VM(0.01).fit(X, np.where(np.arange(300) < 30, y, -1))
    assert (model.transduction_ == y).mean() > 0.95
    assert model.coef_.shape == (3, 3)


def test_rows_in_dask_give_the_same_bits(as_dask):
    X, _, few = clusters(20, 180)
    here = CCCPS3VM(0.1, positive_ratio=0.5).fit(X, few)
    there = CCCPS3VM(0.1, positive_ratio=0.5).fit(as_dask(X, (50, 50, 100)), few)
    assert here.coef_.tobytes() == there.coef_.tobytes()


def test_the_engine_has_what_a_step_needs():
    X, _, few = clusters(20, 180)
    engine = ingest(X, few).place(np.array([0, 1]))
    assert trained_bits(engine)[0][3] == "converged"
