"""The program for labels against the paper's formulas, and its vertices against a sort."""

import numpy as np
import pytest
from program_cases import C_STAR, Case

from dask_s3vm.engine.select import Ranked
from dask_s3vm.problems.label_program import LabelProgram, Vertex, set_scores
from dask_s3vm.problems.label_sums import kernel_bounds

pytestmark = pytest.mark.usefixtures("tiny_shards")

kinds = pytest.mark.parametrize("sparse", [False, True])
centers = pytest.mark.parametrize("center", [False, True])


@kinds
@centers
@pytest.mark.parametrize("seed", range(3))
def test_objective_and_gradient_are_those_of_the_paper(seed, center, sparse):
    case = Case(seed, center=center, positive_rows=bool(seed % 2))
    sums = case.sums(case.engine(sparse))
    for P in np.random.default_rng(seed).random((4, case.u)):
        raw = case.raw(P)
        assert sums.value(raw) == pytest.approx(case.objective(P), rel=1e-10)
        found = np.column_stack([case.X, np.ones(len(case.X))])[case.free] @ sums.direction(raw)
        np.testing.assert_allclose(found, case.gradient(P), atol=1e-12)


def test_gradient_is_the_derivative():
    case = Case(5, center=True)
    P, e = np.full(case.u, 0.4), 1e-6
    for j, slope in enumerate(case.gradient(P)):
        step = e * np.eye(case.u)[j]
        rise = (case.objective(P + step) - case.objective(P - step)) / (2 * e)
        assert slope == pytest.approx(rise, abs=1e-8)


@kinds
@centers
@pytest.mark.parametrize("positive_rows", [False, True])
def test_kernel_bounds_hold_and_are_reached(center, positive_rows, sparse):
    case = Case(1, n_unlabeled=200, center=center, positive_rows=positive_rows)
    engine = case.engine(sparse)
    assert engine.layout.n_shards > 1
    low, high = kernel_bounds(engine, case.sums(engine))
    kernel = np.concatenate([case.Kuu, case.Klu])
    longest = max((case.U**2).sum(axis=1).max(), (case.L**2).sum(axis=1).max())
    assert high == pytest.approx(longest)
    assert kernel.max() <= high * (1 + 1e-12)
    assert low == (0.0 if positive_rows and not center else -high)
    assert kernel.min() >= low


def shares(case, engine, vertex, ratio=0.5):
    """P of the unlabeled rows, put together from the shards."""
    program = LabelProgram(engine, case.sums(engine), ratio)
    engine.each(set_scores, vertex.direction)
    point = program._point(vertex, 0)
    held = engine.each(lambda shard: shard.state["share0"])
    return np.concatenate(held)[case.free], point


@kinds
@pytest.mark.parametrize("ratio", [0.0, 0.1, 1 / 3, 0.5, 0.77, 1.0])
def test_a_vertex_is_the_best_point_for_a_linear_function(ratio, sparse):
    case = Case(3, n_unlabeled=151, center=True)
    engine = case.engine(sparse)
    assert engine.layout.n_shards > 1
    program = LabelProgram(engine, case.sums(engine), ratio)
    direction = np.append(np.round(np.random.default_rng(0).normal(size=3), 1), 0.0)
    point = program.vertex(direction)
    P, again = shares(case, engine, point.vertex, ratio)
    # by a stable sort: as many ones as fit, then the fraction
    order = np.argsort(case.X[case.free] @ direction[:-1], kind="stable")
    wanted = np.zeros(case.u)
    wanted[order] = np.clip(ratio * case.u - np.arange(case.u), 0.0, 1.0)
    np.testing.assert_allclose(P, wanted, atol=1e-9)
    assert P.sum() == pytest.approx(ratio * case.u)
    assert ((P > 0) & (P < 1)).sum() <= 1
    np.testing.assert_allclose(point.raw, case.raw(P), atol=1e-9)
    assert point.value == pytest.approx(case.objective(P), rel=1e-9)
    assert again.raw.tobytes() == point.raw.tobytes()


def test_ties_go_by_row_number():
    case = Case(3, n_unlabeled=11)
    engine = case.engine()
    program = LabelProgram(engine, case.sums(engine), 4 / 11)
    point = program.vertex(np.zeros(4))
    P, _ = shares(case, engine, point.vertex)
    assert P.tolist() == [1.0] * 4 + [0.0] * 7


def test_a_whole_number_of_rows_survives_rounding():
    case = Case(0, n_unlabeled=49)
    engine = case.engine()
    for k in range(50):
        assert LabelProgram(engine, case.sums(engine), k / 49).budget == k


def test_edits_are_part_of_a_vertex():
    case = Case(2)
    engine = case.engine()
    rows = np.flatnonzero(case.free)
    order = np.argsort(case.X[case.free][:, 0], kind="stable")
    last = Ranked(case.X[case.free][order[3], 0], int(rows[order[3]]))
    edits = {int(rows[order[0]]): 0.0, int(rows[order[8]]): 1.0}
    P, _ = shares(case, engine, Vertex(np.array([1.0, 0, 0, 0]), last, 0.5, edits))
    wanted = np.zeros(case.u)
    wanted[order[[1, 2, 3, 8]]] = [1.0, 1.0, 0.5, 1.0]
    assert P.tolist() == wanted.tolist()


@centers
def test_rows_near_the_threshold_are_all_rows_if_these_are_few(center):
    case = Case(4, n_unlabeled=60, center=center)
    engine = case.engine()
    program = LabelProgram(engine, case.sums(engine), 0.41)
    point = program.vertex(program.sums.direction(program.uniform().raw))
    program.vertex(program.sums.direction(point.raw), beside=point)  # scores at the point
    near = program.near(point)
    P, _ = shares(case, engine, point.vertex)
    assert near.numbers.tolist() == np.flatnonzero(case.free).tolist()
    assert near.p.tolist() == P.tolist()
    np.testing.assert_allclose(near.o, case.gradient(P), atol=1e-12)
    raw = case.X[case.free]
    np.testing.assert_allclose(near.gram, raw @ raw.T, atol=1e-12)
    # swap two entries by hand
    after = near.p.copy()
    i, j = int(np.argmax(near.p)), int(np.argmin(near.p))
    after[[i, j]] = after[[j, i]]
    moved = program.moved(point, near, after)
    assert moved.value == pytest.approx(case.objective(after), rel=1e-10)
    assert shares(case, engine, moved.vertex)[0].tolist() == after.tolist()


def test_curvature_of_the_cases_matters():
    # else the tests above would not see a wrong quadratic term
    case = Case(0)
    P, Q = np.zeros(case.u), np.ones(case.u)
    linear = 0.5 * (case.objective(P) + case.objective(Q))
    assert case.objective(0.5 * (P + Q)) - linear == pytest.approx(
        C_STAR**2 / 8 * case.Kuu.sum(), rel=1e-9
    )
