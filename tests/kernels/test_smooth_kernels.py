"""The losses of QN-S3VM against their formulas, and at outputs of any size."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.kernels.passes import sum_rows
from dask_s3vm.kernels.rows import CSR, load_pair, new_pair, pair_output
from dask_s3vm.kernels.smooth import smooth_losses


def block_of(X, kind):
    if kind == "dense":
        return frozen(np.ascontiguousarray(X))
    csr = sp.csr_array(X)
    return CSR(
        frozen(csr.indptr.astype(np.uint32)), frozen(csr.indices.astype(np.uint16)),
        frozen(csr.data),
    )  # fmt: skip


def run(X, kind, rows, target, cost, lam_u, w, bias):
    block = block_of(X, kind)
    pair = new_pair(block, X.shape[1])
    load_pair(block, pair, w)
    rows = np.asarray(rows, dtype=np.uint32)
    known, free = smooth_losses(block, rows, target, cost, lam_u, pair, bias)
    return known, free, pair_output(block, pair)


@pytest.mark.parametrize("kind", ["csr", "dense"])
@given(seed=st.integers(0, 2**32 - 1), lam_u=st.floats(0, 5), bias=st.sampled_from([0.0, 1.0]))
@settings(deadline=None, max_examples=25)
def test_losses_and_gradient_are_those_of_the_formula(kind, seed, lam_u, bias):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(23, 5)) * (rng.random((23, 5)) < 0.6)
    target = rng.integers(-1, 2, 23).astype(np.int8)
    cost, w = rng.random(23), rng.normal(size=6)
    rows = np.flatnonzero(rng.random(23) < 0.8)
    known, free, pulls = run(X, kind, rows, target, cost, lam_u, w, bias)
    wide = np.column_stack([X, np.full(23, bias)])[rows]
    y, c, f = target[rows].astype(float), cost[rows], wide @ w
    hinge = np.log1p(np.exp(20 * (1 - y * f))) / 20
    hat = np.exp(-3 * f**2)
    assert known == pytest.approx((c * hinge)[y != 0].sum(), rel=1e-12)
    assert free == pytest.approx((c * hat)[y == 0].sum(), rel=1e-12)
    # a_i of the paper, below eq. 5
    power = np.exp(20 * (1 - y * f))
    a = np.where(y != 0, -c * y * power / (1 + power), -6 * lam_u * c * hat * f)
    np.testing.assert_allclose(pulls, wide.T @ a, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("kind", ["csr", "dense"])
@pytest.mark.parametrize("size", [1e2, 1e6, 1e150, 1e300])
def test_no_output_is_too_large(kind, size):
    X = np.array([[size], [-size], [size], [-size]])
    target = np.array([1, 1, 0, 0], dtype=np.int8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known, free, pulls = run(
            X, kind, range(4), target, np.ones(4), 1.0, np.array([1.0, 0.0]), 1.0
        )
    assert known == pytest.approx(1 + size)
    assert free == 0.0
    assert np.array_equal(pulls, [size, -1.0])  # only the second row pulls, with slope 1


@pytest.mark.parametrize("f", [-0.3, 0.0, 0.5, 1.0, 1.4])
def test_single_rows_by_hand(f):
    X, w = np.array([[1.0]]), np.array([f, 0.0])
    for y in (-1, 1):
        known, free, pulls = run(
            X, "dense", [0], np.array([y], dtype=np.int8), np.ones(1), 1.0, w, 0.0
        )
        assert known == pytest.approx(math.log(1 + math.exp(20 * (1 - y * f))) / 20)
        assert free == 0.0
    _, free, pulls = run(X, "dense", [0], np.zeros(1, dtype=np.int8), np.ones(1), 2.0, w, 0.0)
    assert free == pytest.approx(math.exp(-3 * f * f))
    assert pulls[0] == pytest.approx(-12 * f * math.exp(-3 * f * f))


@pytest.mark.parametrize("kind", ["csr", "dense"])
def test_rows_are_added_up_with_their_weights(kind, rng):
    X = rng.normal(size=(9, 4)) * (rng.random((9, 4)) < 0.5)
    block, weight = block_of(X, kind), rng.random(9)
    out = np.zeros(5)
    rows = np.array([0, 3, 4, 8], dtype=np.uint32)
    sum_rows(block, rows, weight[rows], out)
    wanted = weight[rows] @ np.column_stack([X, np.ones(9)])[rows]
    np.testing.assert_allclose(out, wanted, atol=1e-14)
