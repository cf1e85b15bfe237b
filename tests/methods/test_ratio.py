"""The share of the classes: estimates against naive transcriptions, and against the truth."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from dask_s3vm import TSVM
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.base import ClassTotals, class_totals
from dask_s3vm.methods.ratio import (
    DEPENDENCE,
    MOST_POWER,
    WRONG_ROWS,
    RatioEstimate,
    _drawn_to_equal,
    estimate_ratios,
    given_ratio,
    powered,
    shares_of_labels,
    shifted,
)
from dask_s3vm.problems import fold_scores
from dask_s3vm.problems.fold_scores import LabeledRows, train_folds
from dask_s3vm.problems.folds import assign_folds


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def two_clusters(rng, n=2000, share=0.3, distance=1.2):
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 6)) + distance * y[:, None] * np.eye(6)[0], y


def hidden(rng, y, n_labels):
    few = np.full(len(y), -1)
    kept = rng.choice(len(y), n_labels, replace=False)
    few[kept] = y[kept]
    return few


def estimated(X, few, how="auto", weights=None):
    classes = np.unique(few[few >= 0])
    source = ingest(X, few, weights)
    engine = source.place(classes)
    source.close()
    try:
        positives = [1] if len(classes) == 2 else list(range(len(classes)))
        totals = class_totals(engine, len(classes))
        return estimate_ratios(engine, totals, positives, how).estimates
    finally:
        engine.close()


# models of the folds


def naive_folds(rows, weights, targets, folds, lam, scale):
    """Coefficients of ridge regression without each fold, by a solve for each."""
    center = rows.mean(axis=0)
    z = rows - center
    if scale:
        z = z / rows.std(axis=0)
    z = np.column_stack([z / np.sqrt(np.square(z).sum() / len(z)), np.ones(len(z))])
    outputs, models = np.empty(targets.shape), []
    for fold in range(folds.max() + 1):
        kept = folds != fold
        a = z[kept] * (weights[kept] / weights.mean())[:, None]
        w = np.linalg.solve(z[kept].T @ a + lam * np.eye(z.shape[1]), a.T @ targets[kept])
        outputs[~kept] = z[~kept] @ w
        models.append(w)
    return outputs, models


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("lam", [0.01, 1.0])
@pytest.mark.parametrize("n_columns", [5, 60])
def test_outputs_are_those_of_models_that_have_not_seen_the_row(
    rng, monkeypatch, sparse, lam, n_columns
):
    monkeypatch.setattr(fold_scores, "LAMS", [lam])
    rows = rng.normal(size=(40, n_columns)) + 3.0
    rows[:, 1] *= 1000.0  # one column outweighs all others unless it is scaled
    codes = (rows[:, 0] + 0.2 * rng.normal(size=40) > 3.0).astype(int)
    weights = rng.uniform(0.5, 2.0, 40)
    targets = np.where(codes == 1, 1.0, -1.0)[:, None]
    folds = assign_folds(codes, np.arange(40))
    assert len(folds) == 4, "few rows are divided several times"
    given = sp.csr_array(rows) if sparse else rows
    found = train_folds(LabeledRows(given, codes, weights), targets, folds)
    tried = [
        np.stack([naive_folds(rows, weights, targets, own, lam, scale)[0] for own in folds])
        for scale in (False, True)
    ]
    errors = [(weights[:, None] * (np.clip(o, -1, 1) - targets) ** 2).sum() for o in tried]
    best = int(errors[1] < errors[0])
    assert best or n_columns > 5
    np.testing.assert_allclose(found.outputs, tried[best], atol=1e-6)
    for number, division in enumerate(folds):
        for fold in range(5):
            own, model = division == fold, 5 * number + fold
            outputs = rows[own] @ found.W[:, model] + found.b[model]
            np.testing.assert_allclose(outputs, found.outputs[number, own, 0], atol=1e-6)


# estimates


def test_the_formula(rng):
    z = rng.random(60) < 0.4
    g = np.clip(0.5 * z + 0.3 * rng.random(60), 0, 1)
    found = powered(z, g, np.ones(60), 0.5, 1000.0)
    cov, var = np.cov(z, g, bias=True)[0, 1], g.var()
    k = min(cov / var, MOST_POWER)
    r = np.corrcoef(z, g)[0, 1] ** 2
    k *= 1 - 2 * (1 - r) / (r * (min(z.sum(), 60 - z.sum()) - 2))
    assert found.value == pytest.approx(z.mean() + k * (0.5 - g.mean()))
    rest = (60 * (z - k * g).var() + WRONG_ROWS) / 57
    spread = np.sqrt(DEPENDENCE * rest * (1 / 60 + 1 / 1000))
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.975, 57) * spread)


def test_scores_that_are_right_about_all_labels_leave_a_doubt():
    z = np.arange(50) % 2 == 0
    found = powered(z, z.astype(float), np.ones(50), 0.52, 1000.0)
    assert found.value == pytest.approx(0.52)
    assert 0.02 < found.high - found.value < 0.05  # a row in fifty


def test_scores_that_tell_nothing_leave_the_share(rng):
    z = rng.random(50) < 0.4
    found = powered(z, np.full(50, 0.5), np.ones(50), 0.9, 1000.0)
    assert found.value == pytest.approx(z.mean())


def test_it_is_nearer_than_the_share_and_covers(rng):
    off, off_share, covered = [], [], 0
    for _ in range(60):
        X, y = two_clusters(rng, distance=3.0)
        few = hidden(rng, y, 60)
        (found,) = estimated(X, few)
        truth = y[few < 0].mean()
        off.append(abs(found.value - truth))
        off_share.append(abs(y[few >= 0].mean() - truth))
        covered += found.low <= truth <= found.high
    assert np.mean(off) < 0.7 * np.mean(off_share)
    assert covered >= 53  # 57 are expected; fewer than 53 have a chance of 2 %


def test_labels_by_class_are_seen_through(rng):
    X, y = two_clusters(rng, n=4000, share=0.2, distance=3.0)
    few = np.full(len(y), -1)
    for c in (0, 1):
        few[np.flatnonzero(y == c)[:50]] = c
    (found,) = estimated(X, few, "shift")
    truth = y[few < 0].mean()
    assert abs(found.value - truth) < 0.04
    assert found.low < truth < found.high
    assert found.source == "shift"
    (labels,) = estimated(X, few, "labels")
    assert labels.value == 0.5


@pytest.mark.parametrize(("n_classes", "usual"), [(2, 0.5), (4, 0.25)])
def test_weak_scores_draw_the_estimate_to_the_usual_share(rng, n_classes, usual):
    """And never past it; what a posterior of two normal densities says, of prior and draws."""
    z = np.arange(60) % 2 == 0
    bins = np.linspace(-2.0, 2.0, 201)
    counts = np.exp(-0.5 * (bins - 1.0) ** 2)
    strong, weak = (
        shifted(
            z, (2.0 * z - 1.0) * much + rng.normal(size=60), np.ones(60), bins, counts, n_classes
        )
        for much in (2.0, 0.05)
    )
    assert abs(weak.value - usual) < 0.1
    assert weak.high - weak.low > 2.0 * (strong.high - strong.low)
    # the deviation after is less than that of any shares beforehand
    before = np.var(rng.dirichlet(np.ones(n_classes), size=20_000)[:, 0])
    assert (weak.high - weak.low) / 3.92 < np.sqrt(before) + 0.01


def test_labels_by_class_are_covered(rng):
    covered = 0
    for _ in range(40):
        share = rng.uniform(0.1, 0.9)
        X, y = two_clusters(rng, n=1500, share=share, distance=2.0)
        few = np.full(len(y), -1)
        for c in (0, 1):
            few[np.flatnonzero(y == c)[:25]] = c
        (found,) = estimated(X, few, "shift")
        covered += found.low <= y[few < 0].mean() <= found.high
    assert covered >= 34  # 38 are expected; fewer than 34 have a chance of 2 %


def test_too_few_rows_of_a_class_leave_the_share(rng):
    X, y = two_clusters(rng)
    few = np.full(len(y), -1)
    few[np.flatnonzero(y == 0)[:20]] = 0
    few[np.flatnonzero(y == 1)[:2]] = 1
    (found,) = estimated(X, few)
    assert found.value == pytest.approx(2 / 22)
    assert found.source == "labels"


def test_shares_of_all_classes_sum_to_one(rng):
    y = rng.choice(4, 3000, p=[0.4, 0.3, 0.2, 0.1])
    X = rng.normal(size=(3000, 8)) + 4.0 * np.eye(8)[y]
    few = hidden(rng, y, 80)
    found = estimated(sp.csr_array(X), few)
    assert sum(one.value for one in found) == pytest.approx(1.0)
    truth = np.bincount(y[few < 0]) / (few < 0).sum()
    share = np.bincount(few[few >= 0]) / 80
    values = np.array([one.value for one in found])
    assert np.abs(values - truth).sum() < 0.5 * np.abs(share - truth).sum()
    assert all(one.low <= one.value <= one.high for one in found)


def test_rows_of_weight_zero_are_absent(rng):
    X, y = two_clusters(rng)
    few = hidden(rng, y, 100)
    weights = (rng.random(len(y)) < 0.7).astype(float)
    (masked,) = estimated(X, few, weights=weights)
    kept = weights > 0
    (alone,) = estimated(X[kept], few[kept])
    assert masked.value == pytest.approx(alone.value)
    assert masked.low == pytest.approx(alone.low)


@pytest.mark.parametrize("how", ["auto", "shift"])
def test_the_order_of_rows_does_not_matter(rng, how):
    X, y = two_clusters(rng)
    few = hidden(rng, y, 100)
    (found,) = estimated(X, few, how)
    for _ in range(3):
        order = rng.permutation(len(y))
        (moved,) = estimated(X[order], few[order], how)
        assert moved.value == pytest.approx(found.value, rel=1e-9)
        assert moved.interval == pytest.approx(found.interval, rel=1e-9)


def test_the_scale_of_rows_hardly_matters(rng):
    X, y = two_clusters(rng)
    few = hidden(rng, y, 100)
    (found,) = estimated(X, few)
    (scaled,) = estimated(1000.0 * X + 5.0, few)  # other keys, and so other folds
    assert abs(scaled.value - found.value) < 0.25 * (found.high - found.low)


def test_the_interval_of_a_share_is_jeffreys():
    totals = type("T", (), {})()
    totals.counts = totals.weights = np.array([70.0, 30.0])
    totals.n_unlabeled = 10**9
    (found,) = shares_of_labels(totals, [1])
    wanted = stats.beta.ppf([0.025, 0.975], 30.5, 70.5)
    assert (found.low, found.high) == pytest.approx(tuple(wanted), abs=1e-6)


def test_a_given_ratio_has_the_interval_of_a_draw():
    found = given_ratio(0.3, 1000)
    wanted = stats.norm.ppf(0.975) * np.sqrt(0.3 * 0.7 / 1000)
    assert (found.value - found.low, found.high - found.value) == pytest.approx((wanted, wanted))
    assert given_ratio(0.0, 10).interval == (0.0, 0.0)


# estimators


def test_an_estimator_keeps_what_was_found(rng):
    X, y = two_clusters(rng, distance=3.0)
    few = hidden(rng, y, 100)
    model = TSVM(0.1).fit(X, few)
    (found,) = estimated(X, few)
    assert model.positive_ratio_ == found.value
    assert tuple(model.positive_ratio_interval_) == found.interval


@pytest.mark.filterwarnings("ignore::dask_s3vm.exceptions.RatioWarning")
def test_labeled_rows_without_an_entry_tell_the_share_of_the_labels(rng):
    X, y = two_clusters(rng, n=60)
    few = np.where(np.arange(60) % 3 == 0, y, -1)
    rows = sp.csr_array(np.where(few[:, None] >= 0, 0.0, X))
    with pytest.warns(UserWarning, match="the weights of all columns are 0"):
        model = TSVM().fit(rows, few)
    np.testing.assert_allclose(model.positive_ratio_, np.mean(few[few >= 0]), atol=0.05)


def test_shares_of_booleans_can_be_given(rng):
    y = rng.choice(2, 300)
    X = rng.normal(size=(300, 4)) + y[:, None]
    labels = (y == 1).astype(object)
    labels[60:] = None
    shares, weights = {False: 0.7, True: 0.3}, {False: 1.0, True: 2.0}
    found = TSVM(positive_ratio=shares, class_weight=weights).fit(X, labels)
    assert found.positive_ratio_ == 0.3
    with pytest.raises(ValueError, match=r"wanted those of the classes \[0, 1\]"):
        TSVM(positive_ratio={"False": 0.7, "True": 0.3}).fit(X, labels)


def test_shares_of_several_classes_can_be_given(rng):
    y = rng.choice(3, 600)
    X = rng.normal(size=(600, 4)) + 4.0 * np.eye(4)[y]
    few = hidden(rng, y, 60)
    shares = {0: 0.5, 1: 0.3, 2: 0.2}
    model = TSVM(0.1, positive_ratio=shares).fit(X, few)
    assert model.positive_ratio_.tolist() == [0.5, 0.3, 0.2]
    assert model.positive_ratio_interval_.shape == (3, 2)
    with pytest.raises(ValueError, match="sum to 1, got"):
        TSVM(positive_ratio={0: 0.5, 1: 0.3, 2: 0.3}).fit(X, few)
    with pytest.raises(ValueError, match=r"wanted those of the classes \[0, 1, 2\]"):
        TSVM(positive_ratio={0: 0.5, 1: 0.5}).fit(X, few)
    for share in ("a", None, float("nan")):
        with pytest.raises(ValueError, match=r"positive_ratio must have shares from 0 to 1.*got"):
            TSVM(positive_ratio={0: 0.5, 1: 0.3, 2: share}).fit(X, few)


# Several classes ----------------------------------------------------------------------------------


def estimates_of(values, half=0.04):
    return [RatioEstimate(v, v - half, v + half, "auto") for v in values]


def test_four_classes_are_drawn_to_equal_shares_as_james_and_stein_do():
    values, deviation = np.array([0.40, 0.20, 0.22, 0.18]), 0.04 / 1.959964
    found = np.array([one.value for one in _drawn_to_equal(estimates_of(values))])
    size = np.sum((values - 0.25) ** 2) / deviation**2 * 3 / 4
    np.testing.assert_allclose(found, 0.25 + (1 - 1 / size) * (values - 0.25), rtol=1e-6)
    assert found.sum() == pytest.approx(1.0)


def test_what_chance_explains_is_no_difference():
    found = _drawn_to_equal(estimates_of([0.26, 0.25, 0.245, 0.245]))
    assert [one.value for one in found] == [0.25] * 4
    assert all(one.low <= one.value <= one.high for one in found)
    assert found[0].high - found[0].low == pytest.approx(0.08)


@pytest.mark.parametrize("shares", [[1 / 6] * 6, [0.5, 0.2, 0.1, 0.1, 0.05, 0.05]])
def test_drawn_shares_are_nearer_to_the_truth(shares):
    rng = np.random.default_rng(0)
    errors = []
    for counts in rng.multinomial(60, shares, size=300):
        totals = ClassTotals(counts, counts.astype(float), 1000, 1000.0)
        plain = shares_of_labels(totals, range(6))
        both = [[one.value for one in found] for found in (plain, _drawn_to_equal(plain))]
        errors.append(np.square(np.array(both) - shares).sum(axis=1))
    plain, drawn = np.mean(errors, axis=0)
    assert drawn < (0.4 if shares[0] < 0.2 else 1.02) * plain
