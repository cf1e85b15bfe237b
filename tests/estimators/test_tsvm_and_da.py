"""TSVM and DAS3VM from outside: what they find, what they take, and that it is the same bits."""

import os
import signal
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sparse
from distributed import Client, LocalCluster

from dask_s3vm import DAS3VM, L2SVM, TSVM
from dask_s3vm.datasets import hide_labels, make_g2c, make_text
from dask_s3vm.exceptions import ConvergenceWarning

BOTH = [TSVM, DAS3VM]
both = pytest.mark.parametrize("kind", BOTH)

#: some sets here are small and their ratio is off; the warning has a test of its own
pytestmark = pytest.mark.filterwarnings("ignore:.*may have collapsed:UserWarning")


def clusters(n=120, n_labeled=10, d=6, seed=0, gap=2.0):
    """Rows, true classes, and labels of which few are left; half of the rows in each class."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % 2)
    X = rng.normal(size=(n, d))
    X[:, 0] += gap * (truth - 0.5)
    keep = np.concatenate([np.flatnonzero(truth == k)[: n_labeled // 2] for k in (0, 1)])
    return X, truth, np.where(np.isin(np.arange(n), keep), truth, -1)


@pytest.fixture(scope="module")
def small():
    return clusters()


def assert_same(a, b, atol=1e-8):
    np.testing.assert_allclose(a.coef_, b.coef_, atol=atol)
    np.testing.assert_allclose(a.intercept_, b.intercept_, atol=atol)
    np.testing.assert_allclose(a.objective_, b.objective_, rtol=1e-8)


def assert_identical(a, b):
    assert np.array_equal(a.coef_, b.coef_)
    assert np.array_equal(a.intercept_, b.intercept_)
    assert np.array_equal(a.objective_, b.objective_)


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
        assert max(row["pairs"] for row in one.history_) <= 1
        assert max(row["pairs"] for row in many.history_) > 1


def test_annealing_finds_no_higher_objective_on_most_sets(text_models):
    lower = [annealed.objective_ <= 1.001 * tsvm.objective_ for _, tsvm, _, annealed in text_models]
    assert np.mean(lower) >= 0.75


@both
@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_is_that_of_the_formula(kind, small, weighted, rng):
    X, _, y = small
    weight = rng.uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    callbacks = Limit() if weighted else None
    model = kind(0.01, 0.7, positive_ratio=0.5, callbacks=callbacks).fit(X, y, weight)
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
@pytest.mark.parametrize("threshold", ["zero", "ratio"])
def test_unlabelled_rows_that_do_not_count_leave_the_supervised_svm(kind, small, threshold):
    X, _, y = small
    params = {"class_weight": {0: 2.0}, "tol": 1e-9}
    model = kind(0.01, 0.0, threshold=threshold, **params).fit(X, y)
    wanted = L2SVM(0.01, **params).fit(X, y)
    assert_identical(model, wanted)
    assert np.array_equal(model.transduction_, np.where(y >= 0, y, wanted.predict(X)))


@both
def test_without_unlabelled_rows_it_warns_and_is_the_supervised_svm(kind, small):
    X, truth, _ = small
    with pytest.warns(UserWarning, match="no unlabelled row") as caught:
        model = kind(0.01).fit(X, truth)
    assert caught[0].filename == __file__
    assert_identical(model, L2SVM(0.01).fit(X, truth))
    assert np.array_equal(model.transduction_, truth)
    three = np.arange(len(truth)) % 3
    with pytest.warns(UserWarning, match="no unlabelled row"):
        model = kind(0.01).fit(X, three)
    assert_identical(model, L2SVM(0.01).fit(X, three))


@both
def test_unlabelled_rows_of_weight_zero_are_none(kind, small):
    X, _, y = small
    with pytest.warns(UserWarning, match="their weight is 0"):
        model = kind(0.01).fit(X, y, (y >= 0).astype(float))
    lab = y >= 0
    assert_same(model, L2SVM(0.01).fit(X[lab], y[lab]))


# edge cases


@both
@pytest.mark.parametrize("ratio", [None, 0.0, 0.4, 0.6, 1.0])
@pytest.mark.parametrize("threshold", ["zero", "ratio"])
def test_one_unlabelled_row(kind, ratio, threshold):
    X, truth, _ = clusters(20)
    y = truth.copy()
    y[7] = -1
    model = kind(0.1, positive_ratio=ratio, threshold=threshold).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.transduction_.shape == (20,)


@both
@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_a_ratio_of_nothing_or_all(kind, small, ratio):
    X, _, y = small
    model = kind(0.01, positive_ratio=ratio).fit(X, y)
    assert np.isfinite(model.objective_)
    assert model.positive_ratio_ == ratio


@both
def test_duplicate_and_empty_rows(kind):
    X, _, y = clusters(60)
    X[40:] = X[20:40]
    X[15:20] = 0.0
    y[15:] = -1
    for rows in (X, sp.csr_array(X)):
        model = kind(0.01, positive_ratio=0.5, threshold="ratio").fit(rows, y)
        assert np.isfinite(model.coef_).all()


@both
@pytest.mark.parametrize("threshold", ["zero", "ratio"])
def test_outputs_that_are_all_tied(kind, threshold):
    X = np.ones((50, 2))
    X[:2] = [[1.0, 2.0], [2.0, 1.0]]
    y = np.append([0, 1], np.full(48, -1))
    model = kind(0.1, positive_ratio=0.5, threshold=threshold).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert len(set(model.transduction_[2:])) == 1


@both
def test_all_rows_empty_but_the_labelled(kind):
    X = sp.lil_array((40, 3))
    X[0, 0], X[1, 0] = 1.0, -1.0
    y = np.append([1, 0], np.full(38, -1))
    model = kind(0.1, positive_ratio=0.5).fit(sp.csr_array(X), y)
    assert model.predict(sp.csr_array(X)[:2]).tolist() == [1, 0]


# weights


@both
def test_weights_of_labelled_rows_are_repetitions(kind, small, rng):
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


@both
@pytest.mark.parametrize("threshold", ["zero", "ratio"])
def test_unlabelled_rows_of_weight_zero_count_for_nothing(kind, threshold):
    X, _, y = clusters(160)
    weight = np.ones(160)
    # all on one side: where they counted, the others would have to be negative
    out = np.flatnonzero((y < 0) & (X[:, 0] > 0.5))[:40]
    weight[out] = 0.0
    params = {"positive_ratio": 0.5, "tol": 1e-10, "threshold": threshold, "callbacks": Limit()}
    weighted = kind(0.01, **params).fit(X, y, weight)
    left = kind(0.01, **params).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(weighted.coef_, left.coef_, atol=1e-3)
    np.testing.assert_allclose(weighted.intercept_, left.intercept_, atol=1e-3)
    assert weighted.objective_ == pytest.approx(left.objective_, rel=1e-6)


@both
@pytest.mark.parametrize("seed", [16, 19])
def test_a_fit_with_weights_comes_to_an_end(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3))
    y = np.append([0, 1, 0, 1], np.full(26, -1))
    weight = 10 ** rng.uniform(-1.5, 1.5, 30)
    kind(0.01, positive_ratio=0.5, callbacks=Limit()).fit(X, y, weight)


@both
def test_class_weights_are_sample_weights_of_labelled_rows(kind):
    X, _, y = clusters(120, 60, gap=0.5)
    params = {"positive_ratio": 0.5, "tol": 1e-10}
    by_class = kind(0.01, class_weight={0: 3.0}, **params).fit(X, y)
    # the mean weight of labelled rows is 2: weights are relative to it
    weight = np.where(y == 0, 3.0, 1.0)
    by_row = kind(0.005, 0.5, **params).fit(X, y, weight)
    np.testing.assert_allclose(by_class.coef_, by_row.coef_, atol=1e-3)
    assert by_class.objective_ == pytest.approx(2 * by_row.objective_, rel=1e-6)
    assert not np.allclose(by_class.coef_, kind(0.01, **params).fit(X, y).coef_, atol=1e-3)


@both
def test_balanced_classes_are_the_weights_of_scikit_learn(kind, small):
    X, truth, y = small
    y = y.copy()
    y[np.flatnonzero((truth == 1) & (y < 0))[:15]] = 1
    share = {k: (y >= 0).sum() / (2 * (y == k).sum()) for k in (0, 1)}
    a = kind(0.01, class_weight="balanced", positive_ratio=0.5).fit(X, y)
    b = kind(0.01, class_weight=share, positive_ratio=0.5).fit(X, y)
    assert_same(a, b)


# labels and ratios


@pytest.fixture(scope="module")
def triple():
    rng = np.random.default_rng(3)
    truth = np.arange(180) % 3
    X = rng.normal(size=(180, 5)) + 3.0 * np.eye(5)[truth]
    return X, truth, np.where(np.arange(180) < 21, truth, -1)


@both
def test_more_classes_are_one_vs_rest(kind, triple):
    X, truth, y = triple
    model = kind(0.01, tol=1e-10).fit(X, y)
    assert model.coef_.shape == (3, 5)
    assert model.objective_.shape == (3,)
    np.testing.assert_allclose(model.positive_ratio_, [1 / 3] * 3)
    assert {row["class"] for row in model.history_} == {0, 1, 2}
    assert (model.transduction_ == truth).mean() > 0.9
    for k in range(3):
        alone = kind(0.01, tol=1e-10).fit(X, np.where(y < 0, -1, (y == k).astype(int)))
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], atol=1e-6)
        assert model.objective_[k] == pytest.approx(alone.objective_, rel=1e-8)


@both
def test_a_ratio_for_more_classes_is_refused(kind, triple):
    X, _, y = triple
    with pytest.raises(ValueError, match=r"positive_ratio=0\.5 is for two classes, y has 3"):
        kind(positive_ratio=0.5).fit(X, y)


@both
def test_the_ratio_is_that_of_the_labelled_rows(kind, small, rng):
    X, _, y = small
    y = y.copy()
    y[np.flatnonzero(y == 0)[0]] = -1
    assert kind(0.01).fit(X, y).positive_ratio_ == pytest.approx(5 / 9)
    weight = np.where(y == 1, 2.0, 1.0)
    assert kind(0.01).fit(X, y, weight).positive_ratio_ == pytest.approx(10 / 14)


@both
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


@both
@pytest.mark.parametrize("dtype", [str, object])
def test_string_labels(kind, small, dtype):
    X, _, y = small
    names = np.array(["left", "right", "?"])[y].astype(dtype)
    model = kind(0.01, positive_ratio=0.5, unlabeled="?").fit(X, names)
    assert_identical(model, kind(0.01, positive_ratio=0.5).fit(X, y))
    assert set(model.transduction_) == {"left", "right"}
    assert np.array_equal(model.transduction_[y >= 0], names[y >= 0])


@both
@pytest.mark.parametrize("bad", [-0.1, 1.5, "half"])
def test_bad_ratios_are_refused(kind, small, bad):
    with pytest.raises(ValueError, match="positive_ratio"):
        kind(positive_ratio=bad).fit(small[0], small[2])


# threshold and warnings


@both
@pytest.mark.parametrize("ratio", [0.0, 0.13, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_ratio_threshold_gives_the_wanted_number(kind, ratio, fit_intercept, seed):
    X, _, y = clusters(150, 20, seed=seed)
    model = kind(0.01, positive_ratio=ratio, threshold="ratio", fit_intercept=fit_intercept)
    model.fit(X, y)
    wanted = int(np.floor(ratio * 130 + 0.5))
    assert (model.predict(X)[y < 0] == 1).sum() == wanted
    assert (model.transduction_[y < 0] == 1).sum() == wanted


@both
def test_the_ratio_threshold_moves_nothing_but_the_bias(kind, small):
    X, _, y = small
    a, b = (kind(0.01, positive_ratio=0.4, threshold=t).fit(X, y) for t in ("zero", "ratio"))
    assert np.array_equal(a.coef_, b.coef_)
    assert a.objective_ == b.objective_
    assert not np.array_equal(a.intercept_, b.intercept_)


@both
def test_a_collapse_is_told(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    X[:, 0] += 4.0  # one cluster, wholly on one side
    X[:2] = [[-1.0, 0.0], [1.0, 0.0]]
    y = np.append([0, 1], np.full(298, -1))
    with pytest.warns(UserWarning, match="may have collapsed") as caught:
        kind(1.0, 0.01, positive_ratio=0.5).fit(X, y)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(1.0, 0.01, positive_ratio=0.5, threshold="ratio").fit(X, y)


def test_it_says_when_it_did_not_converge():
    X, _, y = clusters()
    X = X * 10.0 ** np.linspace(-1, 1, X.shape[1])
    with pytest.warns(ConvergenceWarning, match="max_iter=1") as caught:
        model = TSVM(1e-4, tol=1e-14, max_iter=1, positive_ratio=0.5).fit(X, y)
    assert caught[0].filename == __file__
    assert model.termination_ == "max_iter"


# the way there


@both
def test_callbacks_see_the_history(kind, small):
    X, _, y = small
    seen = []
    model = kind(0.01, positive_ratio=0.5, callbacks=seen.append).fit(X, y)
    assert seen == model.history_ != []
    assert all(isinstance(value, (int, float, str)) for row in seen for value in row.values())
    common = {"class", "objective", "n_active", "cg_steps", "seconds"}
    own = {"event", "level", "newton_steps", "pairs"}
    if kind is DAS3VM:
        own = {"temperature", "divergence", "entropy"}
    assert all(set(row) == common | own for row in seen)


@both
def test_verbose_writes_to_standard_error_only(kind, small, capsys):
    kind(0.01, positive_ratio=0.5, verbose=True).fit(small[0], small[2])
    out, err = capsys.readouterr()
    assert out == ""
    assert "objective" in err


@both
def test_warm_start_ends_at_the_same_model(kind, small):
    X, _, y = small
    cold = kind(0.01, positive_ratio=0.5, tol=1e-10).fit(X, y)
    warm = kind(0.03, positive_ratio=0.5, tol=1e-10, warm_start=True).fit(X, y)
    warm.set_params(lam=0.01).fit(X, y)
    np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-3)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-5)
    with pytest.raises(ValueError, match="warm_start"):
        warm.fit(X[:, :3], y)


@both
def test_a_fit_does_not_change_its_input(kind, small):
    X, y = small[0].copy(), small[2].copy()
    kind(0.01, positive_ratio=0.5).fit(X, y)
    assert np.array_equal(X, small[0])
    assert np.array_equal(y, small[2])


# input of all kinds, and transduction


@pytest.fixture(scope="module")
def thin(small):
    """Rows with zeros among them."""
    X, _, y = small
    return np.where(np.abs(X) < 0.5, 0.0, X), y


@both
def test_all_kinds_of_input_give_the_same_model(kind, thin):
    X, y = thin
    csr = sp.csr_array(X)
    rows = [
        csr, sp.csc_matrix(X), sparse.COO.from_numpy(X), sparse.GCXS.from_numpy(X),
        da.from_array(X, chunks=(50, 4)), da.from_array(X, chunks=50).map_blocks(sp.csr_array),
    ]  # fmt: skip
    params = {"positive_ratio": 0.5, "tol": 1e-9}
    wanted = kind(0.01, **params).fit(X, y)
    for one in rows:
        model = kind(0.01, **params).fit(one, y)
        np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-4)
        assert np.array_equal(np.asarray(model.transduction_), wanted.transduction_)
    lazy = da.from_array(y, chunks=33)
    assert_identical(kind(0.01, **params).fit(X, lazy), wanted)


@both
@pytest.mark.parametrize("y_chunks", [None, 40, 30, ((50, 30, 40),)])
def test_transduction_keeps_known_labels_and_is_lazy(kind, thin, y_chunks):
    X, y = thin
    computed = []

    def watch(block):
        computed.append(len(block))
        return block

    wanted = kind(0.01, positive_ratio=0.5).fit(X, y).transduction_
    assert isinstance(wanted, np.ndarray)
    assert np.array_equal(wanted[y >= 0], y[y >= 0])
    assert set(wanted) == {0, 1}
    lazy = da.from_array(X, chunks=(40, 6)).map_blocks(watch, dtype=X.dtype, meta=X[:0])
    labels = y if y_chunks is None else da.from_array(y, chunks=y_chunks)
    with dask.config.set(scheduler="synchronous"):
        model = kind(0.01, positive_ratio=0.5).fit(lazy, labels)
        assert isinstance(model.transduction_, da.Array)
        before = len(computed)
        assert before == 3
        assert np.array_equal(model.transduction_.compute(), wanted)
        assert len(computed) == before + 3
    assert model.transduction_.dtype == wanted.dtype


@both
@pytest.mark.parametrize("lazy_y", [False, True])
def test_transduction_of_unknown_chunks_keeps_known_labels(kind, thin, lazy_y, as_dask):
    X, y = thin
    y = y.copy()
    y[y >= 0] = 1 - y[y >= 0]  # labels that the model will not predict
    rows = as_dask(sp.csr_array(X), (40, 50, 30), known=False)
    labels = da.from_array(y, chunks=((40, 50, 30),)) if lazy_y else y
    model = kind(100.0, positive_ratio=0.5).fit(rows, labels)
    found = np.asarray(model.transduction_)
    assert np.array_equal(found[y >= 0], y[y >= 0])


# the same bits everywhere


@pytest.fixture(scope="module")
def many(make_rows):
    """Sparse rows in several shards, every tenth one empty."""
    X, y = make_rows(600, 30, 5)
    return X, np.where(np.random.default_rng(1).random(600) < 0.1, y, -1)


def fitted_bits(kind, X, y, callbacks=None):
    model = kind(0.1, positive_ratio=0.5, callbacks=callbacks).fit(X, y)
    found = model.coef_.tobytes(), model.intercept_.tobytes(), model.objective_
    return *found, np.asarray(model.transduction_).tolist()


@pytest.fixture(scope="module")
def reference(many):
    """Models of one thread."""
    alone = {"scheduler": "synchronous", "s3vm.shard-bytes": 4096, "s3vm.local-bytes": 0}
    with dask.config.set(alone):
        return {kind: fitted_bits(kind, *many) for kind in BOTH}


@both
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("tiny_shards")
def test_any_number_of_threads_gives_the_same_bits(kind, threads, many, reference, as_dask):
    X, y = many
    with dask.config.set({"scheduler": "threads", "s3vm.threads": threads}):
        assert fitted_bits(kind, X, y) == reference[kind]
        rows = as_dask(X, (100, 250, 250))
        assert (
            fitted_bits(kind, rows, da.from_array(y, chunks=((100, 250, 250),))) == reference[kind]
        )


@pytest.fixture(
    scope="module", params=["inproc", pytest.param("processes", marks=pytest.mark.cluster)]
)
def client(request):
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=request.param == "processes",
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        yield client


@both
@pytest.mark.usefixtures("tiny_shards")
def test_a_cluster_gives_the_same_bits(kind, client, many, reference, as_dask):
    X, y = many
    rows = as_dask(X, (100, 250, 250))
    assert fitted_bits(kind, rows, da.from_array(y, chunks=((100, 250, 250),))) == reference[kind]


class KillOneWorker:
    """Callback that ends a worker process in mid-fit."""

    def __init__(self, client, at):
        self.client, self.at = client, at
        self.seen, self.killed = 0, None

    def __call__(self, row):
        self.seen += 1
        if self.seen == self.at:
            self.killed = min(self.client.run(os.getpid).values())
            os.kill(self.killed, signal.SIGKILL)


@pytest.fixture(scope="module")
def mortal_client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        yield client


@both
@pytest.mark.cluster
@pytest.mark.usefixtures("tiny_shards")
def test_a_killed_worker_changes_no_bit(kind, mortal_client, many, reference, as_dask):
    X, y = many
    mortal_client.wait_for_workers(2, timeout=30)
    killer = KillOneWorker(mortal_client, at=30)
    rows = as_dask(X, (150, 150, 150, 150))
    found = fitted_bits(kind, rows, da.from_array(y, chunks=150), killer)
    assert killer.killed is not None
    assert found == reference[kind]


# figures of another program on the same rows


@pytest.mark.parametrize(
    ("kind", "theirs", "slack", "accuracy"),
    [(TSVM, 0.13387809, 1.01, 0.92), (DAS3VM, 0.12386709, 1.005, 0.935)],
)
def test_the_objective_is_that_of_svmlin(data_dir, kind, theirs, slack, accuracy):
    path = data_dir.parent / "reference" / "svmlin_example.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the data folder")
    with np.load(path) as held:
        X, test = (
            sp.csr_array(
                (held[f"{part}data"], held[f"{part}indices"], held[f"{part}indptr"]),
                shape=tuple(held[f"{part}shape"]),
            )
            for part in ("", "test_")
        )
        y, test_y = held["y_partial"], held["test_y"]
    model = kind(1e-3, 1.0, positive_ratio=0.5, unlabeled=0).fit(X, y)
    assert model.objective_ <= slack * theirs
    assert (model.predict(test) == test_y).mean() >= accuracy
