"""TSVM and DAS3VM from outside: what they find, edge cases and weights."""

import warnings

import dask
import numpy as np
import pytest
import scipy.sparse as sp
from transductive_cases import assert_identical, assert_same, both, clusters, each, quiet

from dask_s3vm import DAS3VM, L2SVM, TSVM
from dask_s3vm.datasets import hide_labels, make_g2c, make_text

pytestmark = quiet


# what they find


@pytest.mark.parametrize(("kind", "lam"), [(TSVM, 1e-2), (DAS3VM, 1e-1)])
def test_gaussian_clusters_are_found(kind, lam):
    errors = []
    for seed in range(4):
        X, y = dask.compute(*make_g2c(400, 50, random_state=seed))
        partial = hide_labels(y, 10, random_state=seed)
        models = L2SVM(lam).fit(X, partial), kind(lam, positive_ratio=0.5).fit(X, partial)
        errors.append([(model.predict(X) != y)[partial == -1].mean() for model in models])
    supervised, ours = np.mean(errors, axis=0)
    assert ours < 0.03
    assert ours < 0.5 * supervised


@pytest.fixture(scope="module")
def texts():
    """Small text collections, 60 labels of 800 rows."""
    found = []
    for seed in range(4):
        X, y = make_text(800, 2000, 40, block="scipy", random_state=seed)
        rows = sp.vstack(list(dask.compute(*X.to_delayed().ravel())), format="csr")
        y = y.compute()
        partial = hide_labels(y, 60, random_state=seed)
        found.append((rows, y, partial, float(y[partial == -1].mean())))
    return found


@pytest.fixture(scope="module")
def text_models(texts):
    """(supervised, TSVM, TSVM of single switches, DA) of each collection."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for X, _, partial, ratio in texts:
            single = TSVM(positive_ratio=ratio, max_switches=1)
            models = TSVM(positive_ratio=ratio), single, DAS3VM(positive_ratio=ratio)
            found.append([model.fit(X, partial) for model in (L2SVM(), *models)])
    return found


@pytest.mark.parametrize("which", [1, 3], ids=["TSVM", "DAS3VM"])
def test_errors_on_text_are_far_below_the_supervised(texts, text_models, which):
    errors = []
    for (X, y, partial, _), models in zip(texts, text_models, strict=True):
        free = partial == -1
        errors.append([(model.predict(X) != y)[free].mean() for model in models])
    errors = np.mean(errors, axis=0)
    assert errors[which] < 0.75 * errors[0]


def test_switching_one_pair_at_a_time_finds_the_same_objective(text_models):
    ratios = [one.objective_ / many.objective_ for _, many, one, _ in text_models]
    assert np.median(np.abs(np.log(ratios))) < 0.005
    assert max(ratios) < 1.03
    for _, many, one, _ in text_models:
        assert max(row["switches"] for row in one.history_) <= 1
        assert max(row["switches"] for row in many.history_) > 1


def test_annealing_finds_no_higher_objective_on_most_sets(text_models):
    lower = [annealed.objective_ <= 1.001 * tsvm.objective_ for _, tsvm, _, annealed in text_models]
    assert np.mean(lower) >= 0.75


@both
@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_is_that_of_the_formula(kind, small, weighted, rng):
    X, _, y = small
    weight = rng.uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    callbacks = Limit() if weighted else None
    params = {"positive_ratio": 0.5, "balance": "paper", "callbacks": callbacks}
    model = kind(0.01, 0.7, **params).fit(X, y, weight)
    o, lab = model.decision_function(X), y >= 0
    known = np.maximum(0, 1 - (2 * y - 1) * o)[lab] ** 2
    free = np.maximum(0, 1 - np.abs(o))[~lab] ** 2
    size = (model.coef_**2).sum() + model.intercept_[0] ** 2
    wanted = np.average(known, weights=weight[lab]) + 0.01 * size
    wanted += 0.7 * np.average(free, weights=weight[~lab])
    assert model.objective_ == pytest.approx(0.5 * wanted, rel=1e-10)


class Limit:
    """Callback that ends a fit which does not end by itself."""

    def __init__(self, most=3000):
        self.left = most

    def __call__(self, row):
        self.left -= 1
        if self.left < 0:
            pytest.fail("the fit does not come to an end")


# the supervised case


@both
@pytest.mark.parametrize("balance", ["paper", "predictions"])
def test_unlabeled_rows_that_do_not_count_leave_the_supervised_svm(kind, small, balance):
    X, _, y = small
    params = {"class_weight": {0: 2.0}, "tol": 1e-9}
    model = kind(0.01, 0.0, balance=balance, **params).fit(X, y)
    wanted = L2SVM(0.01, **params).fit(X, y)
    assert_identical(model, wanted)
    assert np.array_equal(model.transduction_, np.where(y >= 0, y, wanted.predict(X)))


@both
def test_without_unlabeled_rows_it_warns_and_is_the_supervised_svm(kind, small):
    X, truth, _ = small
    with pytest.warns(UserWarning, match="no unlabeled row") as caught:
        model = kind(0.01).fit(X, truth)
    assert caught[0].filename == __file__
    assert_identical(model, L2SVM(0.01).fit(X, truth))
    assert np.array_equal(model.transduction_, truth)
    three = np.arange(len(truth)) % 3
    with pytest.warns(UserWarning, match="no unlabeled row"):
        model = kind(0.01).fit(X, three)
    assert_identical(model, L2SVM(0.01).fit(X, three))


@both
def test_unlabeled_rows_of_weight_zero_are_none(kind, small):
    X, _, y = small
    with pytest.warns(UserWarning, match="their weight is 0"):
        model = kind(0.01).fit(X, y, (y >= 0).astype(float))
    lab = y >= 0
    assert_same(model, L2SVM(0.01).fit(X[lab], y[lab]))


# edge cases


@each
@pytest.mark.parametrize("ratio", ["auto", 0.0, 0.4, 0.6, 1.0])
@pytest.mark.parametrize("balance", ["paper", "predictions"])
def test_one_unlabeled_row(kind, ratio, balance):
    X, truth, _ = clusters(20)
    y = truth.copy()
    y[7] = -1
    model = kind(0.1, positive_ratio=ratio, balance=balance, unlabeled=-1).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.transduction_.shape == (20,)


@each
@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_a_ratio_of_nothing_or_all(kind, small, ratio):
    X, _, y = small
    model = kind(0.01, positive_ratio=ratio).fit(X, y)
    assert np.isfinite(model.objective_)
    assert model.positive_ratio_ == ratio


@each
def test_duplicate_and_empty_rows(kind):
    X, _, y = clusters(60)
    X[40:] = X[20:40]
    X[15:20] = 0.0
    y[15:] = -1
    for rows in (X, sp.csr_array(X)):
        model = kind(0.01, positive_ratio=0.5, balance="predictions").fit(rows, y)
        assert np.isfinite(model.coef_).all()


@each
@pytest.mark.parametrize("balance", ["paper", "predictions"])
def test_outputs_that_are_all_tied(kind, balance):
    X = np.ones((50, 2))
    X[:2] = [[1.0, 2.0], [2.0, 1.0]]
    y = np.append([0, 1], np.full(48, -1))
    model = kind(0.1, positive_ratio=0.5, balance=balance).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert len(set(model.transduction_[2:])) == 1


@each
def test_all_rows_empty_but_the_labeled(kind):
    X = sp.lil_array((40, 3))
    X[0, 0], X[1, 0] = 1.0, -1.0
    y = np.append([1, 0], np.full(38, -1))
    model = kind(0.1, positive_ratio=0.5).fit(sp.csr_array(X), y)
    assert model.predict(sp.csr_array(X)[:2]).tolist() == [1, 0]


# weights


@each
def test_weights_of_labeled_rows_are_repetitions(kind, small, rng):
    X, _, y = small
    weight = np.where(y >= 0, rng.integers(1, 4, len(y)), 1)
    params = {"positive_ratio": 0.5, "tol": 1e-10}
    weighted = kind(0.01, **params).fit(X, y, weight)
    repeated = kind(0.01, **params).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-3)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)


def test_weights_of_all_rows_are_repetitions_for_annealing(small, rng):
    X, _, y = small
    weight = rng.integers(0, 4, len(y))
    weight[y >= 0] = 1
    weighted = DAS3VM(0.01, positive_ratio=0.5).fit(X, y, weight)
    repeated = DAS3VM(0.01, positive_ratio=0.5).fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-3)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)


@each
@pytest.mark.parametrize("balance", ["paper", "predictions"])
def test_unlabeled_rows_of_weight_zero_count_for_nothing(kind, balance):
    X, _, y = clusters(160)
    weight = np.ones(160)
    # all on one side: where they counted, the others would have to be negative
    out = np.flatnonzero((y < 0) & (X[:, 0] > 0.5))[:40]
    weight[out] = 0.0
    params = {"positive_ratio": 0.5, "tol": 1e-10, "balance": balance, "callbacks": Limit()}
    weighted = kind(0.01, **params).fit(X, y, weight)
    left = kind(0.01, **params).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(weighted.coef_, left.coef_, atol=1e-3)
    np.testing.assert_allclose(weighted.intercept_, left.intercept_, atol=1e-3)
    assert weighted.objective_ == pytest.approx(left.objective_, rel=1e-6)


@each
@pytest.mark.parametrize("seed", [16, 19])
def test_a_fit_with_weights_comes_to_an_end(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3))
    y = np.append([0, 1, 0, 1], np.full(26, -1))
    weight = 10 ** rng.uniform(-1.5, 1.5, 30)
    kind(0.01, positive_ratio=0.5, callbacks=Limit()).fit(X, y, weight)


@each
def test_class_weights_are_sample_weights_of_labeled_rows(kind):
    X, _, y = clusters(120, 60, gap=0.5)
    params = {"positive_ratio": 0.5, "tol": 1e-10}
    by_class = kind(0.01, class_weight={0: 3.0}, **params).fit(X, y)
    # the mean weight of labeled rows is 2: weights are relative to it
    weight = np.where(y == 0, 3.0, 1.0)
    by_row = kind(0.005, 0.5, **params).fit(X, y, weight)
    np.testing.assert_allclose(by_class.coef_, by_row.coef_, atol=1e-3)
    assert by_class.objective_ == pytest.approx(2 * by_row.objective_, rel=1e-6)
    assert not np.allclose(by_class.coef_, kind(0.01, **params).fit(X, y).coef_, atol=1e-3)


@each
def test_balanced_classes_are_the_weights_of_scikit_learn(kind, small):
    X, truth, y = small
    y = y.copy()
    y[np.flatnonzero((truth == 1) & (y < 0))[:15]] = 1
    share = {k: (y >= 0).sum() / (2 * (y == k).sum()) for k in (0, 1)}
    a = kind(0.01, class_weight="balanced", positive_ratio=0.5).fit(X, y)
    b = kind(0.01, class_weight=share, positive_ratio=0.5).fit(X, y)
    assert_same(a, b)
