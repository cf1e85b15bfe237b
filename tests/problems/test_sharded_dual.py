"""The dual on shards: the optimum of the exact one, its certificate, the same bits everywhere."""

import dask
import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.problems.dual import KernelCache, KernelDual
from dask_s3vm.problems.sharded_dual import ShardedDual

pytestmark = pytest.mark.usefixtures("tiny_shards")

COSTS = np.array([0.3, 1.7])


@pytest.fixture
def case(make_rows):
    X, y = make_rows(400, 30, seed=3)
    few = np.where(np.arange(400) % 4 == 0, y, -1)
    return X, few


def sharded(X, codes, weights=None):
    engine = ingest(X, codes, weights).place(np.array([0, 1]))
    assert engine.layout.n_shards > 3
    return engine, ShardedDual(engine, 1, COSTS)


def exact(X, codes, weights=None):
    X = X.toarray() if sp.issparse(X) else X
    K = X @ X.T
    target = np.where(codes < 0, 0, 2 * codes - 1)
    cost = COSTS[codes] * (1.0 if weights is None else weights)
    cache = KernelCache(lambda rows: K[rows], np.diag(K).copy())
    return KernelDual(cache, target, cost, weights)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_optimum_is_the_exact_one(case, rng, dense, weighted):
    X, few = case
    X = X.toarray() if dense else X
    weights = rng.integers(0, 3, 400).astype(float) if weighted else None
    _, ours = sharded(X, few, weights)
    reference = exact(X, few, weights)
    for _ in range(2):  # on given labels, and on all
        found = ours.solve(1e-9, 10_000)
        wanted = reference.solve(1e-9, 100_000)
        assert found.termination == wanted.termination == "converged"
        assert found.primal == pytest.approx(wanted.primal, rel=1e-8)
        assert found.gap <= 1e-9 * found.primal
        assert ours.n_waiting == reference.n_waiting
        if ours.n_waiting:
            np.testing.assert_allclose(ours.score(), reference.score(), atol=1e-3)
            new = ours.accept(-np.inf, np.inf, 0.5, 0.2, 1)
            assert new[:2] == reference.accept(-np.inf, np.inf, 0.5, 0.2, 1)[:2]
    assert ours.n_waiting == 0


def test_the_certificate_is_the_gap_of_the_formula(case):
    X, few = case
    engine, ours = sharded(X, few)
    for tol in (1e-1, 1e-2, 1e-4):
        found = ours.solve(tol, 1000)
        # already optimal: the next round drops what the last one proposed
        state = engine.each(_state)
        alpha = np.concatenate([one[0] for one in state])
        cost = np.concatenate([one[1] for one in state])
        y = np.where(few < 0, 0, 2 * few - 1)
        w = X.T @ (y * alpha)
        np.testing.assert_allclose(engine.layout.to_external(ours.w)[:-1], w, atol=1e-12)
        primal = w @ w / 2 + cost @ np.maximum(0, 1 - y * (X @ w))
        dual = alpha.sum() - w @ w / 2
        assert found.primal == pytest.approx(primal)
        assert found.gap == pytest.approx(primal - dual, abs=1e-12 * primal)
        assert found.gap <= tol * primal
        assert (alpha >= 0).all()
        assert (alpha <= cost).all()


def _state(shard):
    return shard.state["star_alpha"], shard.state["star_cost"]


def test_every_round_raises_the_dual(case):
    X, few = case
    engine, ours = sharded(X, few)
    duals = [0.0]
    for _ in range(15):
        ours.solve(0.0, 1)
        ours.solve(0.0, 0, fresh=True)  # apply
        alpha = np.concatenate([one[0] for one in engine.each(_state)])
        duals.append(alpha.sum() - ours.w @ ours.w / 2)
    assert (np.diff(duals) >= -1e-12).all()
    assert duals[-1] > duals[1]


def test_confidence_is_the_order_statistic(case):
    X, few = case
    _, ours = sharded(X, few)
    ours.solve(1e-6, 1000)
    extremes = ours.score()
    reference = exact(X, few)
    reference.solve(1e-10, 100_000)
    for n in (1, 2, 17, 300):
        wanted = reference.confidence(n, reference.score())
        assert ours.confidence(n, extremes) == pytest.approx(wanted, abs=1e-2)
    assert ours.confidence(1, extremes) == 1.0


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_bits_on_any_number_of_threads(case, threads):
    X, few = case
    found = []
    for number in (1, threads):
        with dask.config.set({"s3vm.threads": number}):
            _, ours = sharded(X, few)
            ours.solve(1e-3, 100)
            ours.accept(*(0.5 * value for value in ours.score()), 0.5, 0.2, 1)
            ours.solve(1e-3, 100)
            found.append((ours.w.tobytes(), *(part.tobytes() for part in ours.labels())))
    assert found[0] == found[1]


def test_a_warm_start_needs_fewer_rounds(case):
    X, few = case
    _, ours = sharded(X, few)
    cold = ours.solve(1e-4, 1000)
    ours.accept(*ours.score(), 0.5, 0.2, 1)
    warm = ours.solve(1e-4, 1000)
    assert warm.steps < 0.5 * cold.steps
