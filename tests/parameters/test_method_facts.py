"""What methods say of themselves is true, and quick to read."""

import subprocess
import sys
import warnings

import dask
import numpy as np
import pytest
from sklearn.metrics.pairwise import KERNEL_PARAMS

import dask_s3vm
from dask_s3vm import L2SVM, QPS3VM, C_to_lam, lam_to_C
from dask_s3vm.datasets import hide_labels, make_g2c
from dask_s3vm.parameters.fields import parameters_of
from dask_s3vm.parameters.methods import COLUMNS, METHODS, estimator_of
from dask_s3vm.parameters.shared import KERNELS

SMALL = {"s3vm": {"lam": 1e-2}, "s2rlsc": {"n_restarts": 3}, "qp": {"n_restarts": 1}}
every_method = pytest.mark.parametrize("name", sorted(METHODS))


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 90)
    X = rng.normal(size=(90, 4)) + np.outer(2 * y - 1, np.ones(4))
    y[30:] = -1
    return X, y


def fitted(name, rows):
    if name == "s3vm":  # labels that are too few alone
        X, y = dask.compute(*make_g2c(500, 50))
        rows = X, hide_labels(y, 40, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator_of(name)(**SMALL.get(name, {}), random_state=0).fit(*rows)


def test_they_are_read_without_heavy_imports():
    code = (
        "import sys, dask_s3vm.parameters.methods; "
        "print([name for name in ('numpy', 'sklearn', 'numba', 'dask') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_kernels_are_those_of_scikit_learn():
    assert sorted(KERNELS) == sorted(KERNEL_PARAMS)


@every_method
def test_the_estimator_is_found(name):
    kind = estimator_of(name)
    assert kind.facts is METHODS[name].facts
    assert getattr(dask_s3vm, kind.__name__) is kind
    assert [one.name for one in parameters_of(kind)] == [
        one.name for one in parameters_of(METHODS[name])
    ]


@every_method
def test_columns_are_the_ones_of_the_history(name, rows):
    model, columns = fitted(name, rows), METHODS[name].facts.columns
    assert set(columns) <= set(COLUMNS)
    assert {column for row in model.history_ for column in row} == set(columns)
    for row in model.history_:
        assert [column for column in columns if column in row] == list(row)


@every_method
def test_iterations_are_counted(name, rows):
    model = fitted(name, rows)
    counted = {
        "l2svm": lambda rows: len(rows),
        "lapsvm": lambda rows: len(rows),
        "rlsc": lambda rows: 1,
        "tsvm": lambda rows: sum(row["event"] == "switch" for row in rows),
        "s3vm": lambda rows: sum(row["event"] == "switch" for row in rows),
        "da": lambda rows: sum(row["event"] in ("anneal", "switch") for row in rows),
        "cccp": lambda rows: max(row["iteration"] for row in rows),
        "qn": lambda rows: 1 + max(row["stage"] for row in rows),
        "s2rlsc": lambda rows: len(rows),
        "qp": lambda rows: sum(row["event"] != "train" for row in rows),
        "sqp": lambda rows: 1,
        "star": lambda rows: max(row["stage"] for row in rows),
    }
    assert model.n_iter_ == counted[name](model.history_)


def test_lam_and_C_are_converted(rows):
    X, y = rows[0][:30], rows[1][:30]
    lam = 0.05
    C = lam_to_C(lam, 30)
    assert C_to_lam(C, 30) == pytest.approx(lam)
    with pytest.warns(UserWarning, match="no unlabeled row"):
        by_cost = QPS3VM(C=C, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(L2SVM(lam, tol=1e-12).fit(X, y).coef_, by_cost.coef_, rtol=1e-6)


@every_method
def test_rounds_are_expected_in_order(name):
    facts = METHODS[name].facts
    low, high = facts.expected_rounds(1e-3)
    assert 0 < low <= high
    assert facts.expected_rounds(1e-3, 3) == (3 * low, 3 * high)


def test_docstrings_are_made_when_they_are_read():
    code = (
        "from dask_s3vm.parameters import fields; made = []; own = fields._with_sections; "
        "fields._with_sections = lambda *args: made.append(args[0]) or own(*args); "
        "from dask_s3vm import TSVM; print(len(made)); "
        "print('positive_ratio' in TSVM.__doc__, TSVM().__doc__ is TSVM.__doc__, len(made))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\nTrue True 1\n"
