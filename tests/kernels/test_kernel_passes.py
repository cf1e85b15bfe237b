"""Compiled passes against numpy and scipy."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.kernels import passes
from dask_s3vm.kernels.rows import CSR, WIDE, load_pair, new_pair, pair_output

KINDS = [
    ("csr", np.uint16, np.float32),
    ("csr", np.uint16, np.float64),
    ("csr", np.uint32, np.float32),
    ("csr", np.uint32, np.float64),
    ("dense", None, np.float32),
    ("dense", None, np.float64),
]

kinds = pytest.mark.parametrize(
    "kind",
    KINDS,
    ids=lambda k: "-".join(str(p) for p in k[:1]) + k[2].__name__ + (k[1].__name__ if k[1] else ""),
)
biases = pytest.mark.parametrize("bias", [0.0, 1.0])


def block_of(matrix, kind):
    """Rows of one kind, and the matrix of the values that they really store."""
    form, columns, values = kind
    stored = matrix.astype(values)
    if form == "dense":
        return frozen(np.ascontiguousarray(stored)), stored.astype(np.float64)
    csr = sp.csr_array(stored)
    rows = CSR(csr.indptr.astype(np.uint32), csr.indices.astype(columns), csr.data.astype(values))
    return CSR(*(frozen(part) for part in rows)), stored.astype(np.float64)


def problem(seed, n=23, d=13):
    """Rows with empty ones among them, targets, costs with zeros among them, and a vector."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    matrix[rng.random(n) < 0.2] = 0.0
    target = rng.choice([-1, 1], size=n).astype(np.int8)
    cost = rng.random(n) * (rng.random(n) < 0.8)
    return matrix, target, cost, rng.normal(size=d + 1)


def with_bias(matrix, bias):
    return np.column_stack([matrix, np.full(len(matrix), bias)])


def loaded(rows, v):
    pair = new_pair(rows, len(v) - 1)
    load_pair(rows, pair, v)
    return pair


@kinds
@biases
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 30), d=st.integers(1, 40))
@settings(deadline=None, max_examples=25)
def test_gram_is_the_product_of_the_chosen_rows(kind, bias, seed, n, d):
    matrix, _, cost, v = problem(seed, n, d)
    rows, stored = block_of(matrix, kind)
    chosen = np.flatnonzero(np.random.default_rng(seed).random(n) < 0.6).astype(np.uint32)
    pair = loaded(rows, v)
    curvature = passes.gram(rows, chosen, cost, pair, bias)
    part = with_bias(stored, bias)[chosen]
    product = part.T @ (cost[chosen] * (part @ v))
    np.testing.assert_allclose(pair_output(rows, pair), product, rtol=1e-12, atol=1e-12)
    assert curvature == pytest.approx(v @ product, rel=1e-11, abs=1e-12)


@kinds
@biases
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 30), d=st.integers(1, 40))
@settings(deadline=None, max_examples=25)
def test_squared_hinge_gives_loss_gradient_outputs_and_active_rows(kind, bias, seed, n, d):
    matrix, target, cost, v = problem(seed, n, d)
    rows, stored = block_of(matrix, kind)
    outputs, active = np.full(n, np.nan), np.zeros(n, dtype=np.uint32)
    pair = loaded(rows, v)
    loss, n_active = passes.squared_hinge(rows, target, cost, pair, bias, outputs, active)
    wide = with_bias(stored, bias)
    o = wide @ v
    slack = np.maximum(0.0, 1.0 - target * o)
    counted = np.flatnonzero((slack > 0) & (cost > 0))
    assert active[:n_active].tolist() == counted.tolist()
    np.testing.assert_allclose(outputs[cost > 0], o[cost > 0], rtol=1e-12, atol=1e-12)
    assert np.isnan(outputs[cost == 0]).all()
    assert loss == pytest.approx(cost @ slack**2, rel=1e-11, abs=1e-13)
    half_gradient = -wide.T @ (cost * slack * target)
    np.testing.assert_allclose(pair_output(rows, pair), half_gradient, rtol=1e-11, atol=1e-12)


@kinds
@biases
def test_outputs_of_is_the_matrix_product(kind, bias):
    matrix, _, _, v = problem(1)
    rows, stored = block_of(matrix, kind)
    outputs = np.full(len(matrix), np.nan)
    passes.outputs_of(rows, 20, loaded(rows, v), bias, outputs)
    np.testing.assert_allclose(outputs[:20], (with_bias(stored, bias) @ v)[:20], rtol=1e-12)
    assert np.isnan(outputs[20:]).all()


@kinds
@biases
def test_diagonal_is_that_of_the_weighted_gram_matrix(kind, bias):
    matrix, _, cost, v = problem(2)
    rows, stored = block_of(matrix, kind)
    chosen = np.array([0, 3, 4, 11, 22], dtype=np.uint32)
    out = np.ones(len(v))
    kernel = passes.diagonal_dense if kind[0] == "dense" else passes.diagonal_csr
    kernel(rows, chosen, cost, bias, out)
    part = with_bias(stored, bias)[chosen]
    wanted = 1.0 + np.diag(part.T @ np.diag(cost[chosen]) @ part)
    np.testing.assert_allclose(out, wanted, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS[:4])
def test_pack_entries_copies_the_listed_rows(kind):
    rows, stored = block_of(problem(3)[0], kind)
    chosen = np.array([1, 2, 8, 21], dtype=np.uint32)
    lengths = np.diff(rows.indptr.astype(np.int64))[chosen]
    indptr = np.append(0, np.cumsum(lengths)).astype(np.uint32)
    indices = np.empty(indptr[-1], dtype=rows.indices.dtype)
    values = np.empty(indptr[-1], dtype=rows.values.dtype)
    passes.pack_entries(rows.indptr, rows.indices, chosen, indptr, indices)
    passes.pack_entries(rows.indptr, rows.values, chosen, indptr, values)
    packed = sp.csr_array(
        (values, indices.astype(np.int32), indptr.astype(np.int32)), shape=(4, 13)
    )
    assert np.array_equal(packed.toarray(), stored[chosen])


@given(seed=st.integers(0, 2**32 - 1), step=st.floats(-2, 3))
@settings(deadline=None)
def test_hinge_slope_is_the_derivative_of_the_loss_along_the_outputs(seed, step):
    rng = np.random.default_rng(seed)
    target = rng.choice([-1, 1], size=17).astype(np.int8)
    cost = rng.random(17) * (rng.random(17) < 0.8)
    here, there = rng.normal(size=17), rng.normal(size=17)
    slope, curvature = passes.hinge_slope(target, cost, here, there, step)
    move = there - here
    slack = 1.0 - target * (here + step * move)
    on = slack > 0
    assert slope == pytest.approx(-(cost * slack * target * move)[on].sum(), rel=1e-9, abs=1e-12)
    assert curvature == pytest.approx((cost * move**2)[on].sum(), rel=1e-12)


def test_hinge_slope_never_reads_outputs_of_rows_without_cost():
    nan = np.array([np.nan, 0.5])
    slope, curvature = passes.hinge_slope(
        np.array([1, 1], dtype=np.int8), np.array([0.0, 2.0]), nan, np.array([np.nan, 0.7]), 0.0
    )
    assert (slope, curvature) == pytest.approx((2 * -0.5 * 0.2, 2 * 0.04))


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[2], KINDS[4]])
def test_sums_are_float64_although_values_are_float32(kind):
    matrix = np.full((1, 16), 1.0)
    matrix[0, 0] = 2.0**24  # plus 1 is lost in float32
    rows, stored = block_of(matrix, kind)
    outputs = np.zeros(1)
    passes.outputs_of(rows, 1, loaded(rows, np.append(np.ones(16), 0.0)), 0.0, outputs)
    assert outputs[0] == 2.0**24 + 15
    both, _ = block_of(np.array([[2.0**24], [1.0]]), kind)
    pair = loaded(both, np.array([1.0, 0.0]))
    passes.gram(both, np.arange(2, dtype=np.uint32), np.array([1.0, 1.0]), pair, 0.0)
    assert pair_output(both, pair)[0] == 2.0**48 + 1
    assert stored.dtype == np.float64


@pytest.mark.parametrize("form", ["csr", "dense"])
def test_float32_and_float64_storage_of_the_same_values_give_the_same_bits(form):
    matrix, target, cost, v = problem(4, 40, 21)
    matrix = matrix.astype(np.float32).astype(np.float64)
    columns = np.uint16 if form == "csr" else None
    found = []
    for values in (np.float32, np.float64):
        rows, _ = block_of(matrix, (form, columns, values))
        pair = loaded(rows, v)
        outputs, active = np.zeros(40), np.zeros(40, dtype=np.uint32)
        loss, n_active = passes.squared_hinge(rows, target, cost, pair, 1.0, outputs, active)
        found.append((loss, n_active, pair_output(rows, pair).tobytes(), outputs.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("values", [np.float32, np.float64])
def test_wide_passes_that_look_ahead_have_the_bits_of_narrow_ones(values):
    matrix, target, cost, v = problem(3, n=40, d=30)
    matrix[-1] = 0.0  # behind the last entry there is nothing to look at
    rows, _ = block_of(matrix, ("csr", np.uint32, values))
    wide = np.concatenate([v[:-1], np.zeros(WIDE), v[-1:]])
    chosen = np.array([0, 1, 5, 39], dtype=np.uint32)

    def found(vector):
        outputs, active = np.zeros(40), np.zeros(40, dtype=np.uint32)
        first, second = loaded(rows, vector), loaded(rows, vector)
        curvature = passes.gram(rows, chosen, cost, first, 1.0)
        loss = passes.squared_hinge(rows, target, cost, second, 1.0, outputs, active)
        sums = [pair_output(rows, pair)[[*range(30), -1]] for pair in (first, second)]
        passes.outputs_of(rows, 40, loaded(rows, vector), 1.0, outputs)
        return curvature, *loss, *(part.tobytes() for part in (*sums, outputs, active))

    assert found(wide) == found(v)
