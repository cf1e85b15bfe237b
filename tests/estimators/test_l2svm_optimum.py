"""L2SVM against scikit-learn's LinearSVC, and against itself."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from dask_s3vm import L2SVM, l2svm_path

TIGHT = 1e-14


@pytest.fixture(scope="module")
def table():
    return make_classification(300, 12, n_informative=6, flip_y=0.1, random_state=1)


@pytest.fixture(scope="module")
def triple():
    """Three classes, unbalanced."""
    return make_classification(
        300, 10, n_informative=6, n_classes=3, weights=[0.6, 0.3, 0.1], random_state=2
    )


def linear_svc(X, y, lam, weight=None, **params):
    total = len(y) if weight is None else weight.sum()
    other = LinearSVC(
        loss="squared_hinge",
        dual=False,
        tol=1e-10,
        max_iter=10_000,
        C=1 / (2 * lam * total),
        **params,
    )
    return other.fit(X, y, weight)


def objective(model, X, y, lam, cost=None):
    """f at a model, from the formula of the documentation."""
    sign = np.where(y == model.classes_[1], 1.0, -1.0)
    slack = np.maximum(0, 1 - sign * (X @ model.coef_[0] + model.intercept_[0]))
    cost = np.full(len(y), 1 / len(y)) if cost is None else cost
    size = model.coef_[0] @ model.coef_[0] + model.intercept_[0] ** 2
    return 0.5 * cost @ slack**2 + 0.5 * lam * size


def assert_same_model(a, b, atol=1e-5):
    np.testing.assert_allclose(a.coef_, b.coef_, atol=atol)
    np.testing.assert_allclose(a.intercept_, b.intercept_, atol=atol)


@pytest.mark.parametrize("lam", [1e-1, 1e-3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_optimum_is_that_of_linear_svc(table, sparse_data, lam, fit_intercept, kind):
    X, y = table if kind == "dense" else sparse_data
    ours = L2SVM(lam, tol=TIGHT, fit_intercept=fit_intercept).fit(X, y)
    theirs = linear_svc(X, y, lam, fit_intercept=fit_intercept)
    theirs.intercept_ = np.atleast_1d(theirs.intercept_)
    assert_same_model(ours, theirs)
    assert ours.objective_ == pytest.approx(objective(ours, X, y, lam), rel=1e-12)
    assert ours.objective_ == pytest.approx(objective(theirs, X, y, lam), rel=1e-9)
    if not fit_intercept:
        assert ours.intercept_.tolist() == [0.0]


def test_weights_are_repetitions(table, rng):
    X, y = table
    weight = rng.integers(0, 4, len(y))
    weighted = L2SVM(1e-2, tol=TIGHT).fit(X, y, weight)
    repeated = L2SVM(1e-2, tol=TIGHT).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_same_model(weighted, repeated, 1e-6)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-10)


def test_weights_are_those_of_linear_svc(table, rng):
    X, y = table
    weight = rng.random(len(y))
    ours = L2SVM(1e-2, tol=TIGHT).fit(X, y, weight)
    assert_same_model(ours, linear_svc(X, y, 1e-2, weight))


def test_a_number_weighs_every_row_alike(table):
    X, y = table
    assert_same_model(L2SVM().fit(X, y, 3.0), L2SVM().fit(X, y), 1e-12)


@pytest.mark.parametrize("class_weight", [{0: 2.0, 1: 0.5}, {1: 3.0}, "balanced"])
def test_class_weights_are_those_of_linear_svc(triple, class_weight):
    X, y = triple
    y = (y == 2).astype(int)
    ours = L2SVM(1e-2, tol=TIGHT, class_weight=class_weight).fit(X, y)
    assert_same_model(ours, linear_svc(X, y, 1e-2, class_weight=class_weight))


def test_more_classes_are_one_vs_rest(triple):
    X, y = triple
    ours = L2SVM(1e-2, tol=TIGHT).fit(X, y)
    assert ours.coef_.shape == (3, 10)
    assert ours.objective_.shape == (3,)
    assert_same_model(ours, linear_svc(X, y, 1e-2))
    for k in range(3):
        alone = L2SVM(1e-2, tol=TIGHT).fit(X, y == k)
        np.testing.assert_allclose(ours.coef_[k], alone.coef_[0], atol=1e-7)
        assert ours.objective_[k] == pytest.approx(alone.objective_, rel=1e-10)


def test_127_classes_can_be_trained(rng):
    y = np.arange(127).repeat(2)
    model = L2SVM(1e-2, tol=1e-2).fit(rng.normal(size=(254, 3)), y)
    assert model.coef_.shape == (127, 3)


def test_float32_input_is_trained_in_float64(table):
    X, y = table
    short = X.astype(np.float32)
    a, b = L2SVM(tol=TIGHT).fit(short, y), L2SVM(tol=TIGHT).fit(short.astype(np.float64), y)
    assert a.coef_.dtype == np.float64
    assert np.array_equal(a.coef_, b.coef_)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_the_order_of_rows_does_not_matter(seed):
    X, y = make_classification(80, 6, random_state=seed % 7)
    order = np.random.default_rng(seed).permutation(80)
    a = L2SVM(1e-2, tol=TIGHT).fit(X, y)
    b = L2SVM(1e-2, tol=TIGHT).fit(sp.csr_array(X[order]), y[order])
    assert_same_model(a, b, 1e-6)


# the way there


def test_history_has_one_row_a_step(table):
    seen = []
    model = L2SVM(1e-4, callbacks=seen.append).fit(*table)
    assert seen == model.history_
    assert len(seen) == model.n_iter_ > 1
    columns = {
        "class", "lam", "iteration", "objective", "gradient_norm", "n_active", "cg_steps",
        "line_rounds", "step_length", "seconds",
    }  # fmt: skip
    assert all(set(row) == columns for row in seen)
    values = [row["objective"] for row in seen]
    assert values == sorted(values, reverse=True)
    assert values[-1] == model.objective_
    assert [row["iteration"] for row in seen] == list(range(1, len(seen) + 1))


def test_callbacks_may_be_a_list(table):
    a, b = [], []
    L2SVM(callbacks=[a.append, b.append]).fit(*table)
    assert a == b != []


def test_verbose_writes_to_standard_error_only(table, capsys):
    model = L2SVM(verbose=True).fit(*table)
    out, err = capsys.readouterr()
    assert out == ""
    assert f"Newton step {model.n_iter_}" in err
    assert "objective" in err


def test_it_says_when_it_did_not_converge(table):
    with pytest.warns(ConvergenceWarning, match="max_iter=1") as caught:
        model = L2SVM(1e-5, max_iter=1).fit(*table)
    assert model.termination_ == "max_iter"
    assert caught[0].filename == __file__
    assert L2SVM(1e-5).fit(*table).termination_ == "converged"


def test_a_repeated_fit_with_warm_start_takes_at_most_one_step(table):
    model = L2SVM(1e-4, warm_start=True).fit(*table)
    assert model.n_iter_ > 1
    model.fit(*table)
    assert model.n_iter_ <= 1
    assert len(model.history_) <= 1


def test_warm_start_leads_to_the_same_optimum(table):
    X, y = table
    model = L2SVM(1.0, warm_start=True, tol=TIGHT).fit(X, y)
    warm = model.set_params(lam=1e-3).fit(X, y)
    assert_same_model(warm, L2SVM(1e-3, tol=TIGHT).fit(X, y), 1e-6)


@pytest.mark.parametrize("kind", ["binary", "triple"])
def test_a_path_is_separate_fits_in_the_order_asked_for(table, triple, kind):
    X, y = table if kind == "binary" else triple
    lams = [1e-2, 1.0, 1e-3]
    models = l2svm_path(X, y, lams, tol=TIGHT)
    assert [model.lam for model in models] == lams
    for model in models:
        alone = L2SVM(model.lam, tol=TIGHT).fit(X, y)
        assert_same_model(model, alone, 1e-5)
        assert model.objective_ == pytest.approx(alone.objective_, rel=1e-9)
        assert np.array_equal(model.predict(X), alone.predict(X))
        assert {row["lam"] for row in model.history_} == {model.lam}


def test_a_path_needs_values(table):
    with pytest.raises(ValueError, match="lams is empty"):
        l2svm_path(*table, [])


@pytest.mark.parametrize("name", ["pcmac", "a9a"])
def test_real_data_have_the_optimum_of_linear_svc(data_dir, name):
    path = data_dir / f"{name}.svm.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in the data folder")
    X, y = load_svmlight_file(str(path))
    X, y = X[:1500], y[:1500]
    ours = L2SVM(1e-3, tol=TIGHT, unlabeled=None).fit(X, y)
    assert_same_model(ours, linear_svc(X, y, 1e-3))
