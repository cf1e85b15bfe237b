"""A convex step of the ramp loss: formulas against numpy, the optimum, the same bits everywhere."""

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.kernels.ramp import double_step
from dask_s3vm.problems.ramp import RampProblem

pytestmark = pytest.mark.usefixtures("tiny_shards")

COSTS, UNLABELED, FLAT, LEVEL = np.array([0.3, 0.7]), 0.05, 0.3, 0.2


@settings(max_examples=200, deadline=None)
@given(
    f=st.floats(-3, 3),
    curvature=st.sampled_from([0.0, 0.01, 0.5, 4.0]),
    place=st.floats(-1, 1),
    cost=st.sampled_from([0.01, 0.3, 2.0]),
)
def test_a_step_is_the_best_one(f, curvature, place, cost):
    v = place * cost

    def value(s):
        return -np.abs(v + s) - f * s - 0.5 * curvature * s * s

    step = double_step(f, curvature, v, cost)
    assert abs(v + step) <= cost * (1 + 1e-12)
    others = np.linspace(-cost, cost, 401) - v
    assert value(step) >= value(others).max() - 1e-12


class Case:
    """Rows in shards, and the convex problem as it is written."""

    def __init__(self, X, codes, weights=None, level=LEVEL):
        self.engine = ingest(X, codes, weights).place(np.array([0, 1]))
        self.problem = RampProblem(self.engine, 1, COSTS, UNLABELED, FLAT, level)
        self.X = X.toarray() if sp.issparse(X) else X
        self.codes, self.level = codes, level
        self.weights = np.ones(len(codes)) if weights is None else weights
        free = codes < 0
        mean = np.average(self.X[free], axis=0, weights=self.weights[free])
        self.mean = mean if level is not None else 0.0 * mean
        self.y = np.where(codes == 1, 1, -1)
        self.cost = self.weights * np.where(free, UNLABELED, COSTS[codes])

    def outputs(self, w):
        return (self.X - self.mean) @ w + (self.level or 0.0)

    def convex(self, w, labels):
        f, free = self.outputs(w), self.codes < 0
        known = np.maximum(0, 1 - self.y * f)
        # two hinges less the tangents of two others, as in the paper, less 1 - s = 1 + FLAT
        tangent = np.where(labels == 0, 0.0, labels * f - FLAT)
        unlabeled = np.maximum(0, 1 - f) + np.maximum(0, 1 + f) - tangent - (1 + FLAT)
        return 0.5 * w @ w + self.cost @ np.where(free, unlabeled, known)

    def ramp(self, w):
        f, free = self.outputs(w), self.codes < 0
        known = np.maximum(0, 1 - self.y * f)

        def ramp(z):
            return np.minimum(1 + FLAT, np.maximum(0, 1 - z))

        return 0.5 * w @ w + self.cost @ np.where(free, ramp(f) + ramp(-f) - (1 + FLAT), known)


@pytest.fixture
def rows(make_rows):
    X, y = make_rows(300, 20, seed=4)
    return X, np.where(np.arange(300) % 5 == 0, y, -1)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("level", [LEVEL, None])
def test_values_gap_and_optimum(rows, rng, dense, weighted, level):
    X, codes = rows
    weights = rng.integers(0, 3, 300).astype(float) if weighted else None
    case = Case(X.toarray() if dense else X, codes, weights, level)
    problem, external = case.problem, case.engine.layout.to_external
    problem.with_unlabeled_rows()
    start = rng.normal(size=len(problem.mean))
    problem.w = problem.weights(start)
    w = external(problem.w)[:-1]
    value, changed = problem.relabel()
    f = case.outputs(w)
    labels = np.where(np.abs(f) > FLAT, np.sign(f), 0)
    counts = (codes < 0) & (case.weights > 0)
    assert value == pytest.approx(case.ramp(w), rel=1e-12)
    assert changed == np.count_nonzero(labels[counts])
    assert case.convex(w, labels) == pytest.approx(value, rel=1e-12)  # they touch there
    found = problem.solve(1e-9, -np.inf, 10_000)
    best = external(problem.w)[:-1]
    assert found.termination == "converged"
    assert found.primal == pytest.approx(case.convex(best, labels), rel=1e-9)
    assert 0.0 <= found.gap <= 1e-9 * found.primal
    assert case.ramp(best) <= case.convex(best, labels) + 1e-12
    for scale in (1e-3, 1e-2, 0.1):
        near = best + scale * rng.normal(size=(20, len(best)))
        assert min(case.convex(one, labels) for one in near) >= found.primal - found.gap - 1e-12
    # dual variables follow new labels, and give the weights from which a training goes on
    problem.relabel()
    np.testing.assert_allclose(problem.solve(1e9, -np.inf, 1).primal, case.convex(
        external(problem.w)[:-1], np.where(np.abs(g := case.outputs(best)) > FLAT, np.sign(g), 0)
    ), rtol=1e-9)  # fmt: skip


def test_the_same_bits_with_any_number_of_threads(rows):
    found = []
    for threads in (1, 2, 3):
        with dask.config.set({"s3vm.threads": threads}):
            problem = Case(*rows).problem
            problem.labeled_rows_alone()
            first = problem.solve(1e-3, -np.inf, 100)
            problem.with_unlabeled_rows()
            value, changed = problem.relabel()
            last = problem.solve(1e-3, value, 100)
            found.append((problem.w.tobytes(), first, last, changed))
    assert found[0] == found[1] == found[2]
