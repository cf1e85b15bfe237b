"""Labels of unlabeled rows: assigned, switched and restored, against sorting."""

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine import select as select_module
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.problems.hinge import active_rows
from dask_s3vm.problems.transductive import (
    TransductiveProblem,
    label_bits,
    restore_labels,
    set_known_targets,
)

LAM = 0.02
COSTS = np.array([0.4, 0.6])
ONE = np.array([1.0, 0.0])

# few distinct outputs, for ties; the margin's edges among them
OUTPUT = st.one_of(
    st.sampled_from([-1.0, 1.0, 0.0, 0.5, -0.5, 0.25, 2.0, -2.0]), st.floats(-3, 3, width=32)
)


def problem_of(X, codes, weights=None, bias=False):
    """A problem over rows in several shards, however few they are."""
    with dask.config.set({"s3vm.shard-bytes": 64, "s3vm.local-bytes": 0}):
        engine = ingest(X, codes, weights).place(np.array([0, 1]))
    return TransductiveProblem(engine, LAM, 1, COSTS, bias)


def problem_with_outputs(outputs, codes, labels=None, weights=None):
    """A problem of one column, in which the rows have given outputs, and labels, at w = ONE."""
    problem = problem_of(np.asarray(outputs)[:, None], codes, weights)
    problem.set_unlabeled_cost(0.1)
    if labels is not None:
        problem.engine.each(write_labels, labels)
    return problem


def write_labels(shard, labels):
    free = shard.unlabeled
    shard.state["target"][free] = labels[shard.first_row : shard.first_row + shard.n_rows][free]


def labels_of(problem):
    return np.concatenate(problem.engine.each(lambda shard: shard.state["target"].copy()))


def active_of(problem, point):
    return [rows.tolist() for rows in problem.engine.each(active_rows_copy, point.slot)]


def active_rows_copy(shard, slot):
    return active_rows(shard, slot).copy()


def assert_same_point(found, wanted):
    """The updated point is that of an evaluation."""
    assert found.value == pytest.approx(wanted.value, rel=1e-12, abs=1e-15)
    np.testing.assert_allclose(found.gradient, wanted.gradient, rtol=1e-10, atol=1e-12)
    assert found.n_active == wanted.n_active


def switched_by_sorting(outputs, codes, labels, most):
    """Section 1.3.2, word for word; rows of equal output in the order of the data."""
    labels = labels.copy()
    free = np.flatnonzero(codes < 0)
    up = [j for j in free if labels[j] == 1 and outputs[j] < 1]
    down = [j for j in free if labels[j] == -1 and outputs[j] > -1]
    up.sort(key=lambda j: outputs[j])
    down.sort(key=lambda j: -outputs[j])
    pairs = 0
    for i, j in zip(up, down):  # noqa: B905
        if not outputs[i] < outputs[j] or pairs == most:
            break
        labels[i], labels[j] = -1, 1
        pairs += 1
    return labels, pairs


@st.composite
def rows(draw, max_size=50):
    """Outputs, codes and labels; two labeled rows at the head."""
    free = draw(st.lists(st.tuples(OUTPUT, st.integers(-1, 1)), min_size=1, max_size=max_size))
    outputs = np.array([0.3, -0.2, *(o for o, _ in free)])
    codes = np.array([1, 0, *(min(code, 0) - (code == 1) for _, code in free)])
    signs = draw(st.lists(st.sampled_from([-1, 1]), min_size=len(codes), max_size=len(codes)))
    labels = np.where(codes < 0, signs, 2 * codes - 1)
    return outputs, codes, labels


@given(
    rows=rows(), most=st.one_of(st.none(), st.integers(1, 10)), gather=st.sampled_from([1, 2048])
)
@settings(deadline=None, max_examples=150)
def test_a_switch_is_that_of_sorted_lists(rows, most, gather):
    outputs, codes, labels = rows
    problem = problem_with_outputs(outputs, codes, labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select_module, "GATHER", gather)
        pairs, _ = problem.switch(problem.evaluate(ONE), most)
    wanted, n_wanted = switched_by_sorting(outputs, codes, labels, most)
    assert pairs == n_wanted
    assert labels_of(problem).tolist() == wanted.tolist()


@given(rows=rows(), most=st.one_of(st.none(), st.integers(1, 10)))
@settings(deadline=None, max_examples=100)
def test_a_switch_lowers_the_objective_and_keeps_the_balance(rows, most):
    outputs, codes, labels = rows
    problem = problem_with_outputs(outputs, codes, labels)
    before = problem.evaluate(ONE)
    pairs, moved = problem.switch(before, most)
    shown = active_of(problem, moved)
    after = problem.evaluate(ONE)
    assert_same_point(moved, after)
    assert shown == active_of(problem, after)
    assert labels_of(problem).sum() == labels.sum()
    if pairs:
        assert after.value <= before.value  # the same where outputs differ by next to nothing
    else:
        assert after.value == before.value
    if most is None:
        assert problem.switch(after, None)[0] == 0


@given(rows=rows(), below=st.integers(0, 8), above=st.integers(0, 8))
@settings(deadline=None, max_examples=150)
def test_a_release_finds_the_best_labels_within_bounds(rows, below, above):
    outputs, codes, labels = rows
    free = codes < 0
    n = int((labels[free] == 1).sum())
    fewest, most = max(n - below, 0), min(n + above, int(free.sum()))
    problem = problem_with_outputs(outputs, codes, labels)
    _, point = problem.switch(problem.evaluate(ONE), None)
    released, moved = problem.release(point, fewest, most)
    after = problem.evaluate(ONE)
    assert_same_point(moved, after)
    assert released or after.value == pytest.approx(point.value, rel=1e-12)
    own = np.sort(outputs[free])[::-1]
    up, down = np.maximum(0, 1 - own) ** 2, np.maximum(0, 1 + own) ** 2
    losses = [0.05 * (up[:k].sum() + down[k:].sum()) for k in range(fewest, most + 1)]
    now = labels_of(problem)[free]
    here = 0.05 * (np.maximum(0, 1 - now * outputs[free]) ** 2).sum()
    assert here == pytest.approx(min(losses), rel=1e-12, abs=1e-15)
    assert fewest <= (now == 1).sum() <= most
    assert problem.release(after, fewest, most)[0] == 0


@given(rows=rows(), seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=100)
def test_a_switch_of_weighted_rows_does_not_raise_the_objective(rows, seed):
    """Otherwise switching and retraining would not terminate."""
    outputs, codes, labels = rows
    weights = np.random.default_rng(seed).uniform(0.1, 3, len(codes))
    problem = problem_with_outputs(outputs, codes, labels, weights)
    before = problem.evaluate(ONE)
    _, moved = problem.switch(before, None)
    after = problem.evaluate(ONE)
    assert_same_point(moved, after)
    assert after.value <= before.value * (1 + 1e-12)


def test_switching_is_repeated_in_either_slot():
    rng = np.random.default_rng(0)
    outputs, codes = rng.uniform(-1.5, 1.5, 80), np.r_[0, 1, np.full(78, -1)]
    labels = np.where(codes < 0, rng.choice([-1, 1], 80), 2 * codes - 1)
    problem = problem_with_outputs(outputs, codes, labels)
    far = problem.evaluate(-2 * ONE)
    near = problem.evaluate(ONE, beside=far)
    assert near.slot == 1
    assert problem.switch(near, 5)[0] == 5
    wanted, _ = switched_by_sorting(outputs, codes, labels, 5)
    assert labels_of(problem).tolist() == wanted.tolist()


@given(rows=rows(), data=st.data())
@settings(deadline=None, max_examples=100)
def test_the_rows_of_largest_output_are_assigned_the_positive_label(rows, data):
    outputs, codes, _ = rows
    problem = problem_with_outputs(outputs, codes)
    free = np.flatnonzero(codes < 0)
    n_positive = data.draw(st.integers(0, len(free)))
    problem.assign(ONE, n_positive)
    wanted = 2 * codes - 1
    wanted[free] = -1
    wanted[free[np.argsort(-outputs[free], kind="stable")[:n_positive]]] = 1
    assert labels_of(problem).tolist() == wanted.tolist()


@pytest.mark.parametrize("n_positive", [0, 1, 17, 40])
def test_ties_are_assigned_by_row_number(n_positive):
    codes = np.r_[np.full(40, -1), 0, 1]
    problem = problem_with_outputs(np.full(42, 0.5), codes)
    problem.assign(ONE, n_positive)
    assert labels_of(problem)[:40].tolist() == [1] * n_positive + [-1] * (40 - n_positive)


def test_rows_outside_the_problem_are_assigned_by_their_outputs_too():
    """Before the first level unlabeled rows have cost 0, and an evaluation skips them."""
    problem = problem_of(np.array([[0.1], [-0.1], [3.0], [-2.0]]), np.array([1, 0, -1, -1]))
    problem.evaluate(ONE)
    problem.assign(ONE, 1)
    assert labels_of(problem).tolist() == [1, -1, 1, -1]


@given(rows=rows())
@settings(deadline=None, max_examples=50)
def test_labels_are_restored_from_their_bits(rows):
    outputs, codes, labels = rows
    engine = problem_with_outputs(outputs, codes, labels).engine
    bits = engine.each(label_bits)
    assert sum(len(part) for part in bits) <= len(codes) // 8 + engine.layout.n_shards
    engine.each(set_known_targets, 1)
    assert np.concatenate(
        engine.each(lambda shard: shard.state["target"][shard.unlabeled])
    ).tolist() == [0] * int((codes < 0).sum())
    engine.each(restore_labels, bits)
    restored = np.concatenate(engine.each(lambda shard: shard.state["target"].copy()))
    assert restored.tolist() == labels.tolist()
    assert restored.dtype == np.int8


# value and derivatives


@pytest.fixture(params=[True, False], ids=["weighted", "plain"])
def setting(request, make_rows):
    """A problem with labels, and f and its dense rows as a formula."""
    X, y = make_rows(150, 9, seed=3, density=0.6)
    rng = np.random.default_rng(4)
    codes = np.where(rng.random(150) < 0.7, -1, y)
    weights = rng.integers(0, 3, 150).astype(float) if request.param else None
    problem = problem_of(X, codes, weights, bias=True)
    problem.set_unlabeled_cost(0.05)
    labels = np.where(codes < 0, rng.choice([-1, 1], 150), 2 * codes - 1)
    problem.engine.each(write_labels, labels)
    cost = np.where(codes < 0, 0.05, COSTS[codes]) * (1.0 if weights is None else weights)
    wide = np.column_stack([X.toarray(), np.ones(150)])

    def f(w, own_side=False):
        margin = labels * (wide @ w)
        margin = np.where(own_side & (codes < 0), np.abs(margin), margin)
        return 0.5 * cost @ np.maximum(0, 1 - margin) ** 2 + 0.5 * LAM * w @ w

    yield problem, f
    problem.engine.close()


def test_value_and_gradient_are_those_of_the_formula(setting, rng):
    problem, f = setting
    w, h = rng.normal(size=10), 1e-6
    point = problem.evaluate(w)
    assert point.value == pytest.approx(f(w), rel=1e-12)
    numeric = [(f(w + h * e) - f(w - h * e)) / (2 * h) for e in np.eye(10)]
    np.testing.assert_allclose(point.gradient, numeric, rtol=1e-5, atol=1e-8)


def test_the_transductive_value_has_every_row_on_its_own_side(setting, rng):
    problem, f = setting
    for w in (np.zeros(10), rng.normal(size=10)):
        point = problem.evaluate(w)
        assert problem.transductive_value(point) == pytest.approx(f(w, True), rel=1e-12)
        assert problem.transductive_value(point) <= point.value * (1 + 1e-12)


@pytest.mark.parametrize("cost", [0.05, 0.31, 1e-7])
def test_a_point_is_carried_to_another_cost(setting, rng, cost):
    problem, _ = setting
    w, p = rng.normal(size=10), rng.normal(size=10)
    point = problem.evaluate(w)
    carried = problem.at_cost(point, problem.labeled_part(point), cost)
    problem.set_unlabeled_cost(cost)
    product = problem.hessian_product(carried, p)
    again = problem.evaluate(w)
    assert_same_point(carried, again)
    np.testing.assert_array_equal(product[0], problem.hessian_product(again, p)[0])


def test_the_labeled_part_is_all_there_is_without_unlabeled_rows(setting, rng):
    problem, _ = setting
    w = rng.normal(size=10)
    part = problem.labeled_part(problem.evaluate(w))
    problem.set_unlabeled_cost(0.0)
    alone = problem.evaluate(w)
    assert part.loss == pytest.approx(alone.value - 0.5 * LAM * w @ w, rel=1e-12)
    np.testing.assert_allclose(part.gradient, alone.gradient - LAM * w, rtol=1e-10, atol=1e-13)


def test_unlabeled_rows_of_cost_zero_are_skipped(setting, rng):
    problem, _ = setting
    w = rng.normal(size=10)
    problem.set_unlabeled_cost(0.0)
    before = problem.evaluate(w)
    problem.engine.each(set_known_targets, 1)
    after = problem.evaluate(w)
    assert (before.value, before.n_active) == (after.value, after.n_active)
