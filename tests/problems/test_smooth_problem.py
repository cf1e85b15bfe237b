"""The objective of QN-S3VM against the paper's formulas, finite differences and centered rows."""

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.problems.smooth import OFFSETS, SmoothProblem

LAM, LEVEL = 0.03, -0.3


class Setting:
    """Rows as dense algebra, and the problem over them."""

    def __init__(self, X, y, weights, offset):
        rows = X.toarray() if sp.issparse(X) else X
        self.d, self.y, self.offset = rows.shape[1], y, offset
        self.weights = np.ones(len(y)) if weights is None else weights
        free = y < 0
        self.share = np.where(free, self.weights, 0) / self.weights[free].sum()
        self.costs = np.array([0.7, 1.3]) / self.weights[~free].sum()
        self.cost = np.where(free, 0, self.costs[y] * self.weights)
        mean = np.zeros(self.d) if offset == "none" else self.share @ rows
        self.centered = rows - mean  # rows that are centered for real
        with dask.config.set({"s3vm.shard-bytes": 1024, "s3vm.local-bytes": 0}):
            self.engine = ingest(X, y, weights).place(np.array([0, 1]))
        total = self.weights[free].sum()
        self.problem = SmoothProblem(self.engine, LAM, 1, self.costs, total, offset, LEVEL)

    def outputs(self, x):
        b = {"none": 0.0, "balanced": LEVEL, "free": x[-1]}[self.offset]
        return self.centered @ x[: self.d] + b

    def value(self, x, lam_u):
        """Eq. 4, written down as it is printed."""
        f, y = self.outputs(x), np.where(self.y == 1, 1.0, -1.0)
        known = np.log(1 + np.exp(20 * (1 - y * f))) / 20
        return (
            self.cost @ known + lam_u * self.share @ np.exp(-3 * f**2)
            + LAM * x[: self.d] @ x[: self.d]
        )  # fmt: skip


@pytest.fixture(params=OFFSETS)
def offset(request):
    return request.param


@pytest.fixture(params=["csr", "dense", "weighted"])
def setting(request, make_rows, offset):
    X, y = make_rows(160, 11, seed=7, density=0.5)
    rng = np.random.default_rng(8)
    y = np.where(rng.random(160) < 0.7, -1, y)
    weights = rng.integers(0, 4, 160).astype(float) if request.param == "weighted" else None
    made = Setting(X.toarray() if request.param == "dense" else X, y, weights, offset)
    assert made.engine.layout.n_shards > 1
    yield made
    made.engine.close()


@pytest.mark.parametrize("lam_u", [0.0, 0.7])
def test_value_is_the_formula_on_rows_that_are_centered(setting, lam_u, rng):
    for x in (np.zeros(setting.problem.size), rng.normal(size=setting.problem.size)):
        value, _ = setting.problem.evaluate(x, lam_u)
        assert value == pytest.approx(setting.value(x, lam_u), rel=1e-12)


@pytest.mark.parametrize("lam_u", [0.0, 1e-6, 0.7])
def test_gradient_is_that_of_finite_differences(setting, lam_u, rng):
    size, h = setting.problem.size, 1e-6
    for scale in (0.1, 1.0):
        x = scale * rng.normal(size=size)
        _, gradient = setting.problem.evaluate(x, lam_u)
        numeric = [
            (setting.value(x + h * e, lam_u) - setting.value(x - h * e, lam_u)) / (2 * h)
            for e in np.eye(size)
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-7)


def test_weights_are_for_rows_as_they_are(setting, rng):
    x = rng.normal(size=setting.problem.size)
    w = setting.problem.weights(x)
    rows = setting.centered + setting.problem.mean
    np.testing.assert_allclose(rows @ w[:-1] + w[-1], setting.outputs(x), atol=1e-12)
    np.testing.assert_allclose(setting.problem.variables(w), x, atol=1e-12)


def test_balanced_outputs_have_the_wanted_mean(setting, rng):
    w = setting.problem.weights(rng.normal(size=setting.problem.size))
    mean = setting.share @ ((setting.centered + setting.problem.mean) @ w[:-1] + w[-1])
    assert (mean == pytest.approx(LEVEL)) == (setting.offset == "balanced")


def test_another_weight_needs_the_labeled_rows_alone(setting, rng):
    x = rng.normal(size=setting.problem.size)
    for old, new in ((1e-6, 1e-4), (0.1, 0.5), (1.0, 0.2)):
        wanted = setting.problem.evaluate(x, new)
        found = setting.problem.reweighed(x, *setting.problem.evaluate(x, old), old, new)
        assert found[0] == pytest.approx(wanted[0], rel=1e-13)
        np.testing.assert_allclose(found[1], wanted[1], atol=1e-13)
    old = setting.problem.evaluate(x, 1.0)
    setting.engine.each(spoil_unlabeled_rows)
    assert np.isfinite(setting.problem.reweighed(x, *old, 1.0, 2.0)[1]).all()


def test_one_round_per_evaluation(setting):
    before = setting.engine.rounds
    setting.problem.evaluate(np.zeros(setting.problem.size), 1.0)
    assert setting.engine.rounds == before + 1


def test_the_supervised_stage_reads_no_unlabeled_row(setting):
    """Unlabeled rows are NaN: reading one would show in the result."""
    x = np.ones(setting.problem.size)
    wanted = setting.problem.evaluate(x, 0.0)
    setting.engine.each(spoil_unlabeled_rows)
    value, gradient = setting.problem.evaluate(x, 0.0)
    assert value == wanted[0]
    assert np.array_equal(gradient, wanted[1])
    assert np.isnan(setting.problem.evaluate(x, 1.0)[1]).any()


def spoil_unlabeled_rows(shard):
    rows = shard.rows
    if isinstance(rows, np.ndarray):
        shard.rows = np.where((shard.codes < 0)[:, None], np.nan, rows)
    else:
        of_row = np.repeat(shard.codes < 0, np.diff(rows.indptr.astype(np.int64)))
        shard.rows = rows._replace(values=np.where(of_row, np.nan, rows.values))
    array = shard.rows if isinstance(shard.rows, np.ndarray) else shard.rows.values
    array.flags.writeable = False


def test_columns_that_never_occur_are_no_variables(make_rows):
    X, y = make_rows(80, 6, seed=1, density=0.6)
    wide = sp.csr_array((X.data, X.indices + 3, X.indptr), shape=(80, 50))
    engine = ingest(wide, np.where(np.arange(80) < 20, y, -1)).place(np.array([0, 1]))
    problem = SmoothProblem(engine, LAM, 1, np.full(2, 1 / 20), 60.0, "free")
    assert problem.size == 9 + 1
    w = problem.weights(np.arange(10.0))
    assert w.shape == (51,)
    assert np.array_equal(w[:9], np.arange(9))
    assert not w[9:-1].any()
    engine.close()


@given(cuts=st.lists(st.integers(0, 120), max_size=4), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=15)
def test_chunks_change_no_bit(cuts, seed, make_rows, as_dask):
    X, y = make_rows(120, 9, seed=3)
    y = np.where(np.random.default_rng(4).random(120) < 0.7, -1, y)
    edges = np.unique([0, *cuts, 120])
    x = np.random.default_rng(seed).normal(size=10)
    found = []
    with dask.config.set({"s3vm.shard-bytes": 1024, "scheduler": "synchronous"}):
        for rows in (X, as_dask(X, np.diff(edges).tolist())):
            engine = ingest(rows, y).place(np.array([0, 1]))
            problem = SmoothProblem(engine, LAM, 1, np.full(2, 0.02), 80.0, "free")
            value, gradient = problem.evaluate(x, 0.8)
            found.append((value, gradient.tobytes()))
            engine.close()
    assert found[0] == found[1]
