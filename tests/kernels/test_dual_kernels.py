"""Kernels of the dual SVM: single steps and labels, against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.kernels import dual
from dask_s3vm.kernels.dual import box_step

numbers = st.floats(-3, 3)


@settings(deadline=None, max_examples=200)
@given(numbers, st.floats(0, 5), st.floats(0, 1), st.floats(0, 2))
def test_a_step_is_the_best_one_in_the_box(slope, curvature, share, cost):
    alpha = share * cost
    s = box_step(slope, curvature, alpha, cost)
    assert -1e-12 <= alpha + s <= cost + 1e-12
    grid = np.linspace(-alpha, cost - alpha, 1001)
    assert (
        slope * s - curvature * s**2 / 2 >= (slope * grid - curvature * grid**2 / 2).max() - 1e-12
    )


@pytest.fixture
def rows(rng):
    outputs = np.round(rng.normal(size=60), 1)  # with ties, and zeros
    stage = np.where(rng.random(60) < 0.3, 0, dual.WAITING).astype(np.int32)
    return outputs, stage


@pytest.mark.parametrize("weighted", [False, True])
def test_labels_follow_the_formula_of_algorithm_1(rows, rng, weighted):
    outputs, stage = rows
    weights = rng.uniform(0.5, 2, 60) if weighted else np.empty(0)
    target, cost = np.zeros(60, dtype=np.int8), np.zeros(60)
    waiting = stage == dual.WAITING
    g = outputs[waiting]
    tau = 0.4
    wanted = waiting.copy()
    wanted[waiting] = (g >= (1 - tau) * g.max()) | (-g >= (1 - tau) * (-g).max())
    new = stage.copy()
    n_positive, n_negative, loss, high, low = dual.accept(
        outputs, (1 - tau) * g.max(), (1 - tau) * g.min(), 7, 3.0, 2.0, weights, target, cost, new
    )
    assert np.array_equal(new == 7, wanted)
    assert np.array_equal(new[~wanted], stage[~wanted])
    assert np.array_equal(target, np.where(wanted, np.where(outputs > 0, 1, -1), 0))
    factor = weights if weighted else 1.0
    assert np.array_equal(cost, np.where(target > 0, 3.0, 2.0) * wanted * factor)
    assert (n_positive, n_negative) == ((target > 0).sum(), (target < 0).sum())
    assert loss == pytest.approx((cost * np.maximum(0, 1 - target * outputs)).sum())
    left = outputs[new == dual.WAITING]
    assert (high, low) == (left.max(), left.min())


def test_relative_confidence(rows):
    outputs, stage = rows
    waiting = np.flatnonzero(stage == dual.WAITING)
    high, low = outputs[waiting].max(), outputs[waiting].min()
    values, numbers = np.empty(60), np.empty(60, dtype=np.uint32)
    n = dual.doubts(outputs, stage, high, low, values, numbers)
    assert np.array_equal(numbers[:n], waiting)
    g = outputs[waiting]
    np.testing.assert_allclose(-values[:n], np.maximum(g / high, g / low))
