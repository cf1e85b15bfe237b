"""TSVM and DAS3VM: labels, ratios, thresholds, and the way there."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from transductive_cases import assert_identical, both, clusters, each, quiet

from dask_s3vm import DAS3VM, QNS3VM, TSVM
from dask_s3vm.exceptions import RatioWarning
from dask_s3vm.methods import tsvm

pytestmark = quiet


# labels and ratios


@pytest.fixture(scope="module")
def triple():
    rng = np.random.default_rng(3)
    truth = np.arange(180) % 3
    X = rng.normal(size=(180, 5)) + 3.0 * np.eye(5)[truth]
    return X, truth, np.where(np.arange(180) < 21, truth, -1)


@each
def test_more_classes_are_one_vs_rest(kind, triple):
    X, truth, y = triple
    params = {"tol": 1e-10, "positive_ratio": "labels", "supervised_part": 0.0}
    model = kind(0.01, **params).fit(X, y)
    assert model.coef_.shape == (3, 5)
    assert model.objective_.shape == (3,)
    np.testing.assert_allclose(model.positive_ratio_, [1 / 3] * 3)
    assert {row["class"] for row in model.history_} == {0, 1, 2}
    assert (model.transduction_ == truth).mean() > 0.9
    for k in range(3):
        alone = kind(0.01, **params).fit(X, np.where(y < 0, -1, (y == k).astype(int)))
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], atol=1e-6)
        assert model.objective_[k] == pytest.approx(alone.objective_, rel=1e-8)


@each
def test_a_ratio_for_more_classes_is_refused(kind, triple):
    X, _, y = triple
    with pytest.raises(ValueError, match=r"positive_ratio=0\.5 is for two classes, y has 3"):
        kind(positive_ratio=0.5).fit(X, y)


@each
def test_the_ratio_is_that_of_the_labeled_rows(kind, small, rng):
    X, _, y = small
    y = y.copy()
    y[np.flatnonzero(y == 0)[0]] = -1
    model = kind(0.01, positive_ratio="labels")
    assert model.fit(X, y).positive_ratio_ == pytest.approx(5 / 9)
    weight = np.where(y == 1, 2.0, 1.0)
    assert model.fit(X, y, weight).positive_ratio_ == pytest.approx(10 / 14)


@each
@pytest.mark.parametrize("dtype", [np.int8, np.float64])
def test_minus_one_and_one_are_refused_with_a_way_out(kind, small, dtype):
    X, truth, y = small
    with pytest.raises(ValueError, match=r"classes 0 and 1, or another mark, .*unlabeled=0"):
        kind().fit(X, (2 * truth - 1).astype(dtype))
    signs = np.where(y < 0, 0, 2 * y - 1)
    model = kind(0.01, positive_ratio=0.5, unlabeled=0).fit(X, signs)
    assert model.classes_.tolist() == [-1, 1]
    assert_identical(model, kind(0.01, positive_ratio=0.5).fit(X, y))
    assert set(model.transduction_) == {-1, 1}


@each
@pytest.mark.parametrize("dtype", [str, object])
def test_string_labels(kind, small, dtype):
    X, _, y = small
    names = np.array(["left", "right", "?"])[y].astype(dtype)
    model = kind(0.01, positive_ratio=0.5, unlabeled="?").fit(X, names)
    assert_identical(model, kind(0.01, positive_ratio=0.5).fit(X, y))
    assert set(model.transduction_) == {"left", "right"}
    assert np.array_equal(model.transduction_[y >= 0], names[y >= 0])


@each
@pytest.mark.parametrize("bad", [-0.1, 1.5, "half"])
def test_bad_ratios_are_refused(kind, small, bad):
    with pytest.raises(ValueError, match="positive_ratio"):
        kind(positive_ratio=bad).fit(small[0], small[2])


# threshold and warnings


@each
@pytest.mark.parametrize("ratio", [0.0, 0.13, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_predictions_agree_with_the_ratio(kind, ratio, seed):
    X, _, y = clusters(150, 20, seed=seed)
    model = kind(0.01, positive_ratio=ratio).fit(X, y)
    low, high = model.positive_ratio_interval_
    for labels in (model.predict(X), model.transduction_):
        n = (labels[y < 0] == 1).sum()
        assert min(np.ceil(low * 130), ratio * 130 - 0.5) <= n <= max(high, ratio) * 130 + 0.5


@each
def test_without_a_bias_none_is_moved(kind):
    X, _, y = clusters(150, 20)
    params = {"positive_ratio": 0.8, "fit_intercept": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = kind(0.01, **params).fit(X, y)
    assert model.intercept_.tolist() == [0.0]


@each
def test_old_names_are_refused_with_the_new_one(kind):
    with pytest.raises(TypeError, match="it is called 'balance' now, with 'predictions' for"):
        kind(threshold="ratio")


@both
def test_a_collapse_is_told(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    X[:, 0] += 4.0  # one cluster, wholly on one side
    X[:2] = [[-1.0, 0.0], [1.0, 0.0]]
    y = np.append([0, 1], np.full(298, -1))
    with pytest.warns(UserWarning, match="may have collapsed") as caught:
        kind(1.0, 0.01, positive_ratio=0.5, balance="paper").fit(X, y)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kind(1.0, 0.01, positive_ratio=0.5).fit(X, y)
    low, high = model.positive_ratio_interval_
    assert low <= (model.predict(X)[2:] == 1).mean() <= high


def test_it_says_when_it_did_not_converge(monkeypatch):
    monkeypatch.setattr(tsvm, "TIGHTER", 0.0)  # else one step per solve is enough here
    X, _, y = clusters()
    X = X * 10.0 ** np.linspace(-1, 1, X.shape[1])
    with pytest.warns(ConvergenceWarning, match="max_iter=1") as caught:
        model = TSVM(1e-4, tol=1e-14, max_iter=1, positive_ratio=0.5).fit(X, y)
    assert caught[0].filename == __file__
    assert model.termination_ == "max_iter"


@each
def test_a_ratio_from_few_labels_is_warned_of(kind, small):
    X, _, y = small
    with warnings.catch_warnings():
        warnings.simplefilter("error", RatioWarning)
        kind(0.1, positive_ratio=0.5).fit(X, y)
        with pytest.raises(RatioWarning, match=r"positive_ratio=.* is estimated from 4 labeled"):
            kind(0.1).fit(X, only_labels(y, 4))


def only_labels(y, n):
    """Keep the first labels of each of two classes."""
    kept = np.concatenate([np.flatnonzero(y == c)[: n // 2] for c in np.unique(y[y >= 0])])
    return np.where(np.isin(np.arange(len(y)), kept), y, -1)


# the way there


@both
def test_callbacks_see_the_history(kind, small):
    X, _, y = small
    seen = []
    model = kind(0.01, positive_ratio=0.5, callbacks=seen.append).fit(X, y)
    assert seen == model.history_ != []
    assert all(isinstance(value, (int, float, str)) for row in seen for value in row.values())
    common = {"class", "event", "objective", "cg_steps", "seconds"}
    own = {"level", "n_active", "newton_steps", "switches"}
    if kind is DAS3VM:
        own = {"temperature", "entropy", "evaluations", "switches"}
    assert all(set(row) == common | own for row in seen)


@each
def test_verbose_writes_to_standard_error_only(kind, small, capsys):
    kind(0.01, positive_ratio=0.5, verbose=True).fit(small[0], small[2])
    out, err = capsys.readouterr()
    assert out == ""
    assert "objective" in err


@pytest.mark.parametrize("kind", [TSVM, QNS3VM])
def test_warm_start_ends_at_the_same_model(kind, small):
    X, _, y = small
    cold = kind(0.01, positive_ratio=0.5, tol=1e-10).fit(X, y)
    warm = kind(0.03, positive_ratio=0.5, tol=1e-10, warm_start=True).fit(X, y)
    warm.set_params(lam=0.01).fit(X, y)
    np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-3)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-5)


def test_annealing_from_a_warm_start_never_ends_above_it(small):
    """The start is a point of the path, and the best one is descended from."""
    X, _, y = small
    model = DAS3VM(0.03, positive_ratio=0.5, tol=1e-10, warm_start=True).fit(X, y)
    model.set_params(lam=0.01).fit(X, y)
    first = model.objective_
    for _ in range(3):
        model.fit(X, y)
        assert model.objective_ <= first * (1 + 1e-9)


@both
def test_warm_start_wants_the_same_columns(kind, small):
    X, _, y = small
    warm = kind(0.03, positive_ratio=0.5, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="warm_start"):
        warm.fit(X[:, :3], y)


@each
def test_a_fit_does_not_change_its_input(kind, small):
    X, y = small[0].copy(), small[2].copy()
    kind(0.01, positive_ratio=0.5).fit(X, y)
    assert np.array_equal(X, small[0])
    assert np.array_equal(y, small[2])
