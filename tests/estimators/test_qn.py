"""QNS3VM from outside: its objective, offsets, stages and the supervised case."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from transductive_cases import assert_identical, assert_same, clusters, quiet

from dask_s3vm import DAS3VM, L2SVM, QNS3VM, TSVM, load_model, save_model
from dask_s3vm.exceptions import RatioWarning

pytestmark = quiet

OFFSETS = {
    "balanced": {"balance": "paper"},
    "free": {"offset": "free", "balance": "paper"},
    "none": {"fit_intercept": False, "balance": "paper"},
}
offsets = pytest.mark.parametrize("offset", OFFSETS)


def paper_value(f, y, square, lam, lam_u, weight=None):
    """Objective (4) from the outputs; y in {0, 1}, -1 where unlabeled."""
    weight = np.ones(len(y)) if weight is None else weight
    lab = y >= 0
    known = np.logaddexp(0, 20 * (1 - (2 * y - 1) * f)) / 20
    value = np.average(known[lab], weights=weight[lab]) + lam * square
    if lam_u:
        value += lam_u * np.average(np.exp(-3 * f**2)[~lab], weights=weight[~lab])
    return value


# the objective


@offsets
@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_is_that_of_the_paper(small, offset, weighted, rng):
    X, _, y = small
    weight = rng.uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    model = QNS3VM(0.01, 0.7, positive_ratio=0.45, **OFFSETS[offset]).fit(X, y, weight)
    f = model.decision_function(X)
    wanted = paper_value(f, y, (model.coef_**2).sum(), 0.01, 0.7, weight)
    assert model.objective_ == pytest.approx(wanted, rel=1e-10)
    mean = np.average(f[y < 0], weights=weight[y < 0])
    if offset == "balanced":
        assert mean == pytest.approx(2 * 0.45 - 1)
    elif offset == "none":
        assert model.intercept_ == [0.0]
    else:
        assert abs(mean - (2 * 0.45 - 1)) > 1e-4


@offsets
def test_what_is_found_is_a_local_minimum(small, offset):
    """scipy, from there, finds nothing better and stays."""
    X, _, y = small
    model = QNS3VM(0.01, 0.7, positive_ratio=0.5, tol=1e-12, **OFFSETS[offset]).fit(X, y)
    centered = X - (0.0 if offset == "none" else X[y < 0].mean(axis=0))

    def value(v):
        return paper_value(centered @ v[:-1] + v[-1], y, v[:-1] @ v[:-1], 0.01, 0.7)

    level = model.intercept_[0] + (X - centered)[0] @ model.coef_[0]
    start = np.append(model.coef_[0], level)
    if offset == "free":
        found = minimize(value, start, options={"gtol": 1e-7})
        best, moved = found.fun, found.x - start
    else:
        found = minimize(lambda w: value(np.append(w, level)), start[:-1], options={"gtol": 1e-7})
        best, moved = found.fun, found.x - start[:-1]
    assert model.objective_ == pytest.approx(best, rel=1e-9)
    np.testing.assert_allclose(moved, 0, atol=1e-4)


def test_centering_of_sparse_rows_is_that_of_dense_rows(small):
    X, _, y = small
    thin = np.where(np.abs(X) < 0.7, 0.0, X + 1.0)
    centered = thin - thin[y < 0].mean(axis=0)
    params = {"positive_ratio": 0.4, "tol": 1e-11, "balance": "paper"}
    model = QNS3VM(0.01, **params).fit(sp.csr_array(thin), y)
    wanted = QNS3VM(0.01, **params).fit(centered, y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=1e-9)
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-4)
    np.testing.assert_allclose(
        model.decision_function(thin), wanted.decision_function(centered), atol=1e-4
    )


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_columns_of_any_size(small, scale):
    X, _, y = small
    rows = X * np.append(scale, np.ones(X.shape[1] - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*(may have collapsed|did not converge)")
        for kind in OFFSETS.values():
            model = QNS3VM(0.01, positive_ratio=0.5, **kind).fit(rows, y)
            assert np.isfinite(model.objective_)
            assert np.isfinite(model.decision_function(rows)).all()


# the supervised case


def supervised_minimum(X, y, lam, level=None):
    """Minimize over w, and over b where no level is given."""
    signs = 2.0 * y - 1.0

    def value(v):
        f = X @ v[:-1] + (v[-1] if level is None else level)
        return np.logaddexp(0, 20 * (1 - signs * f)).mean() / 20 + lam * v[:-1] @ v[:-1]

    return minimize(value, np.zeros(X.shape[1] + 1), options={"gtol": 1e-8}).fun


def test_without_unlabeled_rows_it_warns_and_the_offset_is_free(small):
    X, truth, _ = small
    with pytest.warns(UserWarning, match="no unlabeled row") as caught:
        model = QNS3VM(0.01, tol=1e-12).fit(X, truth)
    assert caught[0].filename == __file__
    assert model.objective_ == pytest.approx(supervised_minimum(X, truth, 0.01), rel=1e-6)
    assert np.array_equal(model.transduction_, truth)


def test_weight_zero_of_unlabeled_rows_leaves_the_labeled_ones(small):
    X, _, y = small
    lab = y >= 0
    model = QNS3VM(0.01, 0.0, tol=1e-12, positive_ratio=0.4).fit(X, y)
    centered = X - X[~lab].mean(axis=0)
    wanted = supervised_minimum(centered[lab], y[lab], 0.01, level=-0.2)
    assert model.objective_ == pytest.approx(wanted, rel=1e-6)
    stage = QNS3VM(0.01, tol=1e-12, positive_ratio=0.4).fit(X, y).history_
    assert min(r["objective"] for r in stage if r["stage"] == 0) == pytest.approx(wanted, rel=1e-4)


# stages


def test_history_has_a_row_per_evaluation(small):
    X, _, y = small
    seen = []
    params = {"positive_ratio": 0.5, "balance": "paper"}
    model = QNS3VM(0.01, 0.5, callbacks=seen.append, **params).fit(X, y)
    assert seen == model.history_
    names = {
        "class", "stage", "lam_unlabeled", "evaluation", "objective", "gradient_norm", "seconds",
    }  # fmt: skip
    assert all(set(row) == names for row in seen)
    assert [row["evaluation"] for row in seen] == list(range(1, len(seen) + 1))
    weights = sorted({(row["stage"], row["lam_unlabeled"]) for row in seen})
    parts = [0, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 1]
    assert weights == [(k, 0.5 * part) for k, part in enumerate(parts)]
    assert model.n_iter_ == 7
    assert model.objective_ == min(r["objective"] for r in seen if r["stage"] == 6)
    # one round per evaluation; the others set up the rows and count labels and predictions
    assert model.n_rounds_ == len(seen) + 5


def test_each_stage_begins_where_the_last_one_ended(small):
    X, _, y = small
    model = QNS3VM(0.01, 0.5, positive_ratio=0.5, balance="paper").fit(X, y)
    rows = [[r for r in model.history_ if r["stage"] == k] for k in range(7)]
    for before, after in itertools.pairwise(rows):
        # the new weight adds at most its rise times a loss of at most 1
        rise = after[0]["lam_unlabeled"] - before[0]["lam_unlabeled"]
        end = min(row["objective"] for row in before)
        assert end <= after[0]["objective"] <= end + rise + 1e-12


def test_own_stages(small):
    X, _, y = small
    model = QNS3VM(0.01, 2.0, positive_ratio=0.5, annealing=[0.25, 1.0]).fit(X, y)
    assert {row["lam_unlabeled"] for row in model.history_} == {0.5, 2.0}
    again = QNS3VM(0.01, 2.0, positive_ratio=0.5, annealing=np.array([0.25, 1.0])).fit(X, y)
    assert_identical(model, again)


@pytest.mark.parametrize("first", [1e-14, 1e-9, 1e-2])
def test_a_long_way_between_stages_costs_no_accuracy(small, first):
    X, _, y = small
    params = {"positive_ratio": 0.5, "max_iter": 1000, "supervised_part": 0.0}
    model = QNS3VM(0.01, 0.7, annealing=(0, first, 1), **params).fit(X, y)
    last = [row for row in model.history_ if row["stage"] == 2]
    end = [row for row in model.history_ if row["stage"] == 1][-1]
    assert end["objective"] < last[0]["objective"] <= end["objective"] + 0.7
    wanted = paper_value(model.decision_function(X), y, (model.coef_**2).sum(), 0.01, 0.7)
    assert model.objective_ == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("bad", [(), (0.0,), (0.5, 0.1, 1.0), (-1.0, 1.0), (0.0, 2.0), (np.nan, 1)])
def test_stages_that_do_not_rise_to_one_are_refused(small, bad):
    with pytest.raises(ValueError, match="annealing must be numbers that rise"):
        QNS3VM(annealing=bad).fit(small[0], small[2])


def test_a_free_offset_without_intercept_is_refused(small):
    with pytest.raises(ValueError, match="offset='free' has no effect with fit_intercept=False"):
        QNS3VM(offset="free", fit_intercept=False).fit(small[0], small[2])
    with pytest.raises(ValueError, match="offset"):
        QNS3VM(offset="none").fit(small[0], small[2])


def test_a_fit_can_go_on_from_the_last(small):
    X, _, y = small
    params = {"positive_ratio": 0.5, "tol": 1e-9, "offset": "free", "balance": "paper"}
    model = QNS3VM(0.01, warm_start=True, **params).fit(X, y)
    first = model.objective_
    model.set_params(annealing=(1.0,)).fit(X, y)
    assert model.objective_ == pytest.approx(first, rel=1e-8)
    assert model.history_[-1]["evaluation"] <= 5
    assert model.n_iter_ == 1


def test_it_says_when_it_did_not_converge(small):
    X, _, y = small
    with pytest.warns(ConvergenceWarning, match="max_iter=3 evaluations") as caught:
        model = QNS3VM(0.001, positive_ratio=0.5, max_iter=3).fit(X, y)
    assert caught[0].filename == __file__
    assert model.termination_ == "max_iter"


def test_a_model_file_gives_the_same_model(small, tmp_path):
    X, _, y = small
    model = QNS3VM(0.01, positive_ratio=0.5, offset="free").fit(X, y)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.history_ == model.history_


def test_empty_columns_change_nothing():
    X, _, y = clusters(80)
    wide = sp.csr_array(np.column_stack([X, np.zeros((80, 5000))]))
    params = {"positive_ratio": 0.5, "tol": 1e-10}
    model, wanted = QNS3VM(0.01, **params).fit(wide, y), QNS3VM(0.01, **params).fit(X, y)
    assert model.objective_ == pytest.approx(wanted.objective_, rel=1e-8)
    np.testing.assert_allclose(model.coef_[:, :6], wanted.coef_, atol=1e-4)
    assert not model.coef_[:, 6:].any()


def test_a_share_of_labels_that_is_off_is_made_up_for_by_a_given_ratio():
    X, truth, _ = clusters(300, gap=4.0, seed=2)
    keep = np.append(np.flatnonzero(truth == 0)[:16], np.flatnonzero(truth == 1)[:4])
    y = np.where(np.isin(np.arange(300), keep), truth, -1)
    by_labels = QNS3VM(0.1, positive_ratio="labels").fit(X, y)
    given = QNS3VM(0.1, positive_ratio=0.5).fit(X, y)
    assert by_labels.positive_ratio_ == pytest.approx(0.2)
    error = [(model.predict(X) != truth).mean() for model in (by_labels, given)]
    assert error[1] < 0.05
    assert error[1] <= error[0]
    assert_same(given, QNS3VM(0.1, positive_ratio=0.5).fit(X[::1], y))


def test_the_ratio_is_warned_of_once():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.full(60, -1)
    y[:6] = [0, 1, 1, 1, 0, 1]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        QNS3VM(lam_unlabeled=0.0).fit(X, y)
    assert [one.category for one in caught].count(RatioWarning) == 1


@pytest.mark.parametrize("scale", [1e15, 1e18, 1e30])
def test_rows_so_long_that_no_step_is_possible_are_refused(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = np.where(np.arange(400) < 120, X @ [1.0, -2.0, 0.5, 1.0] > 0, -1)
    with pytest.raises(ValueError, match=r"QNS3VM: X has rows so long.*UnitScaler"):
        QNS3VM(positive_ratio=0.5, supervised_part=0.0).fit(scale * X, y)


@pytest.mark.parametrize("make", [L2SVM, TSVM, DAS3VM, QNS3VM])
def test_rows_without_entries_have_weights_of_zero(make):
    y = np.where(np.arange(60) < 20, np.arange(60) % 2, -1)
    with pytest.warns(UserWarning, match="the weights of all columns are 0"):
        model = make(unlabeled=-1).fit(np.zeros((60, 3)), y)
    assert not model.coef_.any()
