"""RLSC against closed forms, scikit-learn and literal leave-one-out."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

from dask_s3vm import RLSC, load_model, rlsc_path, save_model
from dask_s3vm.datasets import make_text
from dask_s3vm.estimators import _least_squares_model

LAMS = [1e-3, 0.1, 1.0, 30.0]


def data(seed=0, n=60, d=7, n_classes=2):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, d)) + rng.normal(size=(n_classes, d))[y]
    return X, y


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


def closed_form(X, y, lam, weights=None):
    """(w, b) of 1/l sum c_i (y_i - w.x_i - b)^2 + lam |(w, b)|^2."""
    A = with_ones(X)
    c = np.ones(len(X)) if weights is None else weights
    c = c / c.sum()
    return np.linalg.solve(A.T @ (c[:, None] * A) + lam * np.eye(A.shape[1]), A.T @ (c * y))


@pytest.mark.parametrize("lam", LAMS)
@pytest.mark.parametrize("intercept", [True, False])
def test_it_is_ridge_regression_on_the_signs(lam, intercept):
    X, y = data()
    model = RLSC(lam=lam, fit_intercept=intercept).fit(X, y)
    A = with_ones(X) if intercept else X
    ridge = Ridge(alpha=lam * len(X), fit_intercept=False).fit(A, 2.0 * y - 1)
    w = np.append(model.coef_[0], model.intercept_)[: A.shape[1]]
    assert np.allclose(w, ridge.coef_, atol=1e-9)
    residual = (2.0 * y - 1) - A @ ridge.coef_
    assert model.objective_ == pytest.approx(np.mean(residual**2) + lam * ridge.coef_ @ ridge.coef_)
    if not intercept:
        assert model.intercept_[0] == 0.0


def test_sample_and_class_weights_multiply_the_loss():
    X, y = data(1)
    weights = np.random.default_rng(0).random(len(y))
    model = RLSC(lam=0.3, class_weight={0: 2.0}).fit(X, y, weights)
    # class weights do not enter the total that the sample weights are divided by
    A, c = with_ones(X), weights * np.where(y == 0, 2.0, 1.0) / weights.sum()
    w = np.linalg.solve(A.T @ (c[:, None] * A) + 0.3 * np.eye(8), A.T @ (c * (2.0 * y - 1)))
    assert np.allclose(np.append(model.coef_[0], model.intercept_), w, atol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_is_leaving_one_out(n_classes, weighted):
    X, y = data(2, n=40, n_classes=n_classes)
    c = np.random.default_rng(5).uniform(0.2, 2.0, 40) if weighted else np.ones(40)
    model = RLSC(lam=LAMS).fit(X, y, c)
    c = c / c.sum()
    A = with_ones(X)
    positives = [1] if n_classes == 2 else range(n_classes)
    Y = np.stack([np.where(y == k, 1.0, -1.0) for k in positives], axis=1)
    for number, lam in enumerate(LAMS):
        loss = error = 0.0
        for i in range(40):
            keep = np.arange(40) != i  # the others keep their weight
            H = A[keep].T @ (c[keep, None] * A[keep]) + lam * np.eye(8)
            output = A[i] @ np.linalg.solve(H, A[keep].T @ (c[keep, None] * Y[keep]))
            loss += c[i] * np.sum((Y[i] - output) ** 2)
            found = int(output[0] > 0) if n_classes == 2 else int(output.argmax())
            error += c[i] * (found != y[i])
        assert model.loo_losses_[number] == pytest.approx(loss)
        assert model.loo_errors_[number] == pytest.approx(error)
    best = min(range(4), key=lambda i: (model.loo_errors_[i], model.loo_losses_[i]))
    assert model.lam_ == LAMS[best]
    alone = RLSC(lam=LAMS[best]).fit(X, y, c)
    assert np.allclose(model.coef_, alone.coef_, atol=1e-10)


def test_more_classes_are_one_against_the_rest():
    X, y = data(3, n_classes=3)
    model = RLSC(lam=0.1).fit(X, y)
    for k in range(3):
        w = closed_form(X, np.where(y == k, 1.0, -1.0), 0.1)
        assert np.allclose(np.append(model.coef_[k], model.intercept_[k]), w, atol=1e-10)
    assert model.objective_.shape == (3,)


def test_rows_without_a_label_are_left_out():
    X, y = data(4)
    part = np.where(np.arange(60) < 25, y, -1)
    model, alone = RLSC(lam=0.1).fit(X, part), RLSC(lam=0.1).fit(X[:25], y[:25])
    assert np.allclose(model.coef_, alone.coef_, atol=1e-12)


def test_an_exact_kernel_is_kernel_ridge_regression():
    X, y = data(5, n=50)
    K, s = rbf_kernel(X, gamma=0.1), 2.0 * y - 1
    model = RLSC(lam=0.01, kernel="rbf", gamma=0.1, n_components=None, fit_intercept=False)
    c = np.linalg.solve(K / 50 + 0.01 * np.eye(50), s / 50)  # eq. 12
    assert np.allclose(model.fit(X, y).decision_function(X), K @ c, atol=1e-7)


@pytest.mark.parametrize("make", [sp.csr_array, lambda X: da.from_array(X, chunks=(17, 3))])
def test_any_kind_of_rows_gives_the_same_model(make, tiny_shards):
    X, y = data(6)
    wanted, found = RLSC(lam=LAMS).fit(X, y), RLSC(lam=LAMS).fit(make(X), y)
    assert np.allclose(found.coef_, wanted.coef_, atol=1e-12)
    assert np.allclose(found.loo_losses_, wanted.loo_losses_)
    assert found.lam_ == wanted.lam_


def test_a_path_is_the_models_one_by_one():
    X, y = data(7)
    for model, lam in zip(rlsc_path(X, y, LAMS), LAMS, strict=True):
        alone = RLSC(lam=lam).fit(X, y)
        assert np.allclose(model.coef_, alone.coef_, atol=1e-12)
        assert model.loo_errors_.shape == (1,)
        assert np.array_equal(model.predict(X), alone.predict(X))


@pytest.fixture(scope="module")
def texts():
    X, y = make_text(120, 5000, 30, block="scipy")
    return sp.csr_array(sp.vstack(list(dask.compute(*X.to_delayed().ravel())))), y.compute()


@pytest.mark.parametrize("lazy", [False, True])
def test_few_wide_rows_are_exact(texts, lazy, as_dask):
    X, y = texts
    model = RLSC(lam=1e-2, n_components=3).fit(as_dask(X, (50, 70)) if lazy else X, y)
    assert model.coef_.shape == (1, 5000)
    assert model.kernel_map_ is None
    A, s = X.toarray(), 2.0 * y - 1
    K = A @ A.T + 1.0  # dual form, with the kernel of the rows and a constant: f = (K + 1) c
    c = np.linalg.solve(K / 120 + 1e-2 * np.eye(120), s / 120)
    assert np.allclose(model.decision_function(X), K @ c, atol=1e-8)
    assert np.allclose(model.coef_[0], A.T @ c, atol=1e-8)


def test_many_wide_rows_go_through_landmarks(texts, monkeypatch):
    X, y = texts
    monkeypatch.setattr(_least_squares_model, "LARGEST", 100)  # fewer than rows and columns
    monkeypatch.setattr(_least_squares_model, "MOST_LABELED", 0)  # those drawn alone
    exact, near, far = (
        RLSC(lam=1e-2, n_components=n, random_state=0).fit(X, y).objective_ for n in (None, 90, 9)
    )
    assert exact < near < far
    assert near == pytest.approx(exact, rel=0.3)


def test_bad_lams_are_named():
    X, y = data()
    for bad in ([0.1, -1.0], [], [np.nan], [[0.1, "a"]]):
        with pytest.raises(ValueError, match="lam"):
            RLSC(lam=bad).fit(X, y)
    with pytest.raises(ValueError, match="lams is empty"):
        rlsc_path(X, y, [])


def test_a_model_file_holds_it(tmp_path):
    X, y = data()
    model = RLSC(lam=[0.1, 1.0]).fit(X, y)
    save_model(model, tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.loo_errors_, model.loo_errors_)
    assert again.get_params()["lam"] == [0.1, 1.0]


def test_one_line_of_progress_and_each_row_of_the_history_once(capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    seen = []
    model = RLSC(lam=[0.1, 1.0, 10.0], callbacks=[seen.append], verbose=True).fit(X, y)
    assert seen == model.history_
    assert [row["lam"] for row in seen] == [0.1, 1.0, 10.0]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(set(lines)) == 2  # the first row and the last


@pytest.mark.parametrize("lazy", [False, True])
def test_labeled_rows_are_landmarks_of_wide_rows(lazy, monkeypatch):
    X, y = data(n=90, d=40)
    few = np.where(np.arange(90) % 5 == 0, y, -1)
    rows = sp.csr_array(X)
    given = (da.from_array(rows, chunks=(30, 40)), da.from_array(few, chunks=30)) if lazy else None
    exact = RLSC(0.1).fit(rows, few)
    monkeypatch.setattr(_least_squares_model, "LARGEST", 20)
    model = RLSC(0.1, n_components=5, random_state=0).fit(*(given or (rows, few)))
    # the model is a sum of the labeled rows, and of the bias, which the features do not change
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, exact.intercept_, rtol=1e-7)
    for name, value in (("MOST_LABELED", 17), ("MOST_FEATURES", 90 * 17)):
        with monkeypatch.context() as patch:
            patch.setattr(_least_squares_model, name, value)  # no room for 18 of them
            other = RLSC(0.1, n_components=5, random_state=0).fit(rows, few)
        assert np.abs(other.coef_ - exact.coef_).max() > 0.01 * np.abs(exact.coef_).max()


@pytest.mark.parametrize("lazy", [False, True])
def test_rows_without_a_label_are_no_landmarks_of_a_supervised_model(lazy, monkeypatch):
    X, y = data(n=60, d=200)
    few = np.where(np.arange(60) % 5 == 0, y, -1)
    labeled = few >= 0
    made = _least_squares_model.fit_kernel_map
    shapes = []

    def make(rows, *args, **kwargs):
        shapes.append(rows.shape)
        return made(rows, *args, **kwargs)

    monkeypatch.setattr(_least_squares_model, "fit_kernel_map", make)
    given = (da.from_array(X, chunks=(7, 200)), da.from_array(few, chunks=7)) if lazy else (X, few)
    model, alone = RLSC(0.1).fit(*given), RLSC(0.1).fit(X[labeled], few[labeled])
    RLSC(0.1, safe=True).fit(*given)
    assert shapes == [(12, 200), (12, 200), (60, 200)]
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-9)
    Z, t = np.c_[X[labeled], np.ones(12)], np.where(few[labeled] == 1, 1.0, -1.0)
    w = np.linalg.solve(Z.T @ Z / 12 + 0.1 * np.eye(201), Z.T @ t / 12)
    np.testing.assert_allclose(np.append(model.coef_[0], model.intercept_), w, rtol=1e-7)


@pytest.mark.parametrize("d", [10, 9000])
def test_no_rows_are_a_clear_error(d):
    X, y = np.zeros((0, d)), np.zeros(0, dtype=int)
    for given in ((X, y), (da.from_array(X, chunks=(1, d)), da.from_array(y, chunks=1))):
        with pytest.raises(ValueError, match=r"0 sample|no labeled|0 rows|no rows"):
            RLSC().fit(*given)
