"""Steps of conjugate gradients in one compiled loop: the bits of one call for each product."""

import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.problems.hinge import L2SVMProblem
from dask_s3vm.solvers.conjugate_gradients import conjugate_gradients


@pytest.fixture(params=["dense", "float32", "csr", "ones"])
def rows(request, rng):
    X = rng.normal(size=(90, 13))
    if request.param == "dense":
        return X
    if request.param == "float32":
        return X.astype(np.float32)
    kept = rng.random(X.shape) < 0.4
    return sp.csr_array(np.where(kept, 1.0 if request.param == "ones" else X, 0.0))


def problem_of(rows, n_shards=1):
    engine = ingest(rows, np.arange(90) % 2).place(np.arange(2))
    assert (engine.layout.n_shards == 1) == (n_shards == 1)
    return L2SVMProblem(engine, 1e-3, 1, np.array([0.5, 0.7]))


@pytest.mark.parametrize("most", [3, 1000])
@pytest.mark.parametrize("at_once", [1, 4, 32])
def test_bits_and_rounds_of_single_products(rows, rng, most, at_once, monkeypatch):
    monkeypatch.setattr("dask_s3vm.solvers.conjugate_gradients.AT_ONCE", at_once)
    problem = problem_of(rows)
    point = problem.evaluate(rng.normal(size=14))
    scale = np.sqrt(problem.hessian_diagonal(point))
    steps = problem.cg_steps(point)
    assert steps is not None
    found, rounds = [], []
    for one in (None, steps):
        before = problem.engine.rounds
        solve = conjugate_gradients(
            lambda p: problem.hessian_product(point, p), -point.gradient, 1e-9, most, scale, one
        )
        found.append((solve.x.tobytes(), solve.n_steps, solve.residual))
        rounds.append(problem.engine.rounds - before)
    assert found[0] == found[1]
    assert rounds == [found[0][1]] * 2


def test_a_direction_of_zero_ends_it(rows):
    problem = problem_of(rows)
    problem.lam = 0.0
    point = problem.evaluate(np.zeros(14))
    vectors = [np.zeros(14), np.ones(14), np.zeros(14), np.ones(14)]
    assert problem.cg_steps(point)(*vectors, 14.0, 1.0, 0.5, 10) == (1, 14.0, 1.0, True)
    assert not vectors[0].any()


def test_several_shards_make_one_round_for_each_step(rows, tiny_shards):
    problem = problem_of(rows, n_shards=3)
    assert problem.cg_steps(problem.evaluate(np.zeros(14))) is None
