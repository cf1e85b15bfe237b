"""The supervised SVM of the labeled rows alone is that of all rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm import TSVM
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.engine.shard import hold_out
from dask_s3vm.methods.base import BinaryTask
from dask_s3vm.methods.l2svm import train_beside
from dask_s3vm.methods.labeled_rows import labeled_alone

pytestmark = pytest.mark.usefixtures("tiny_shards")

KIND = {"lam": 0.01, "fit_intercept": True, "tol": 1e-10, "max_iter": 50}


def rows_of(form, n=300, d=40, seed=0):
    """Rows of two classes, a tenth of them labeled; labeled rows leave columns of zeros."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3) + 0.4 * y[:, None] * (np.arange(d) < 9)
    few = np.where(np.arange(n) % 10 == 0, y, -1)
    X[few >= 0, 30:] = 0.0
    return form(X), few, rng.choice([0.5, 1.0, 2.0], n)


def alone(X, few, weights, lam=KIND):
    engine = ingest(X, few, weights).place(np.arange(2))
    task = BinaryTask(1, np.array([0.01, 0.03]))
    w = labeled_alone(engine, 2).train(task, **lam).w
    engine.close()
    return engine.layout.to_external(w)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_weights_are_those_of_all_rows(form):
    X, few, weights = rows_of(form)
    engine = ingest(X, few, weights).place(np.arange(2))
    engine.each(hold_out, np.arange(0, 100, 10))
    task = BinaryTask(1, np.array([0.01, 0.03]))
    found = labeled_alone(engine, 2).train(task, **KIND)
    wanted = train_beside(engine, task, **KIND)
    np.testing.assert_allclose(found.w, wanted.w, atol=1e-6)
    assert found.objective == pytest.approx(wanted.objective)
    assert found.w[-1] != 0.0
    if form is sp.csr_array:
        assert not engine.layout.to_external(found.w)[30:40].any()
    engine.close()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_bits_do_not_depend_on_the_order_of_rows(form):
    X, few, weights = rows_of(form)
    order = np.random.default_rng(1).permutation(len(few))
    assert np.array_equal(alone(X, few, weights), alone(X[order], few[order], weights[order]))


@pytest.mark.parametrize(
    ("params", "trains"),
    [({}, False), ({"supervised_part": 0.0}, False), ({"balance": "paper"}, True)],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_tsvm_begins_with_it(params, trains, n_classes):
    X, few, _ = rows_of(sp.csr_array)
    few = np.where((few == 1) & (np.arange(len(few)) % 20 == 0), n_classes - 1, few)
    model = TSVM(lam=0.01, **params).fit(X, few)
    first = [row for row in model.history_ if row["event"] == "retrain" and row["level"] == 0.0]
    assert len(first) == (1 if n_classes == 2 else n_classes)
    assert all((row["cg_steps"] > 0) == trains for row in first)
