"""Swaps of pairs on a vertex: each change of F is the one that the formula says."""

import itertools

import numpy as np
import pytest

from dask_s3vm.problems.label_program import swap_pairs


def instance(seed, n=8, d=3):
    rng = np.random.default_rng(seed)
    Z, g = rng.normal(size=(n, d)), rng.normal(size=d)
    curvature = 0.5

    def value(P):
        return -0.5 * curvature * np.sum((P @ Z) ** 2) + P @ (Z @ g)

    def gradient(P):
        return Z @ g - curvature * Z @ (P @ Z)

    return Z, curvature, value, gradient


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("seed", range(6))
def test_it_ends_where_no_pair_gains(seed, fraction):
    Z, curvature, value, gradient = instance(seed)
    P = np.array([1.0, 1, 1, fraction, 0, 0, 0, 0])
    # another origin changes inner products and the gradient, but no move
    shifted = Z + 3.0
    offset = np.random.default_rng(seed).normal()
    after, fall, moves = swap_pairs(
        P, gradient(P) + offset, shifted @ shifted.T, curvature, 1e-12, 100
    )
    assert value(P) - value(after) == pytest.approx(fall, abs=1e-10)
    assert (fall > 0) == (moves > 0)
    np.testing.assert_allclose(np.sort(after), np.sort(P), atol=1e-12)  # a vertex, of the same sum
    for i, j in itertools.permutations(range(8), 2):
        t = min(after[i], 1 - after[j])
        other = after + t * (np.eye(8)[j] - np.eye(8)[i])
        assert value(other) >= value(after) - 1e-10


def test_some_instances_have_swaps():
    falls = []
    for seed in range(6):
        Z, curvature, _, gradient = instance(seed)
        P = np.array([1.0, 1, 1, 0, 0, 0, 0, 0])
        falls.append(swap_pairs(P, gradient(P), Z @ Z.T, curvature, 1e-12, 100)[1])
    assert min(falls) >= 0 < max(falls)


def test_there_is_a_limit_to_the_moves():
    Z, curvature, _, gradient = instance(1, n=40)
    P = (np.arange(40) < 20).astype(float)
    _, fall, moves = swap_pairs(P, gradient(P), Z @ Z.T, curvature, 1e-12, 1)
    assert moves == 1
    assert fall > 0
