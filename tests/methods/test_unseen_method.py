"""Mistakes on labels that the supervised SVM has not seen, and what follows from them."""

import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm import L2SVM
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.base import BinaryTask
from dask_s3vm.methods.blend import BINS, Evidence, all_evidence, evidence, supervised_part
from dask_s3vm.methods.unseen import Mistakes, unseen_mistakes
from dask_s3vm.problems.folds import assign_folds, content_keys


def labeled_rows(n=60, seed=0):
    """Rows of two classes that overlap, weights of some of them, a third without a label."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 8)) * (rng.random((n, 8)) < 0.6) + 0.3 * y[:, None]
    codes = np.where(rng.random(n) < 0.34, -1, y)
    return X, codes, rng.choice([0.5, 1.0, 2.0], n)


def counted(X, codes, weights, costs, lam):
    """Mistakes out of fold, of models that see nothing but the other folds."""
    known = codes >= 0
    X, y, weights = X[known], codes[known], weights[known]
    divisions = assign_folds(y, content_keys(X, None, weights))
    assert len(divisions) > 1
    wrong = 0.0
    for folds, fold in product(divisions, range(5)):
        held = folds == fold
        total = weights.sum()  # the estimator divides by that of the rows it sees
        model = L2SVM(lam, class_weight=dict(enumerate(total * costs)))
        model.fit(X[~held], y[~held], sample_weight=weights[~held])
        missed = model.predict(X[held]) != y[held]
        wrong += np.sum((weights * costs[y])[held][missed]) / len(divisions)
    return wrong


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("costs", [(1.0, 1.0), (1.0, 3.0)])
def test_mistakes_are_those_of_models_without_the_fold(form, costs):
    X, codes, weights = labeled_rows()
    costs = np.array(costs) / weights[codes >= 0].sum()
    task = BinaryTask(1, costs)
    rows = ingest(form(X), codes, weights).place(np.arange(2))
    found = unseen_mistakes(rows, task, lam=0.1, fit_intercept=True)
    assert found.wrong == pytest.approx(counted(X, codes, weights, costs, 0.1))
    assert found.wrong > 0.0
    assert found.n_rows == np.sum(codes >= 0)
    assert found.positive == pytest.approx(costs[1] * weights[codes == 1].sum())
    assert found.negative == pytest.approx(costs[0] * weights[codes == 0].sum())


def test_a_row_beside_which_others_weigh_nothing():
    """Its fold is trained on the others all the same, which count among themselves."""
    X, codes, weights = labeled_rows()
    weights[np.flatnonzero(codes == 1)[0]] = 1e19
    costs = np.ones(2) / weights[codes >= 0].sum()
    rows = ingest(X, codes, weights).place(np.arange(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = unseen_mistakes(rows, BinaryTask(1, costs), lam=0.1, fit_intercept=True)
    assert found.wrong == pytest.approx(counted(X, codes, weights, costs, 0.1))


@pytest.mark.parametrize(
    ("wrong", "positive", "negative", "interval", "wanted"),
    [
        (6, 4, 26, (0.02, 0.30), True),
        (5.5 * (1 - 1e-12), 4, 26, (0.02, 0.30), True),
        (5, 4, 26, (0.02, 0.30), False),  # one row more may be chance
        (4, 4, 26, (0.02, 0.30), False),
        (6, 4, 26, (0.02, 0.50), False),  # which class is rare is not known
        (6, 26, 4, (0.70, 0.98), True),
        (5, 26, 4, (0.70, 0.98), False),
        (6, 26, 4, (0.02, 0.30), False),  # costs make the rare class the dearer one
        (28, 26, 4, (0.02, 0.30), False),
    ],
)
@pytest.mark.parametrize("unit", [1.0, 1 / 30])
def test_when_mistakes_speak_for_one_class(wrong, positive, negative, interval, wanted, unit):
    found = Mistakes(unit * wrong, unit * positive, unit * negative, 30)
    assert found.speaks_for_one_class(interval) is wanted


@pytest.mark.parametrize(
    ("interval", "wanted"),
    [
        ((0.1, 0.3), {0: 20, 15: 20, 30: 20, 200: 20}),
        ((0.0, 0.3), {0: 0, 15: 15, 30: 20, 200: 20}),  # none is too few to ask for
    ],
)
def test_modest_predictions(interval, wanted):
    for n, count in wanted.items():
        task = BinaryTask(1, np.ones(2), 200, 200.0, 0.2, interval, modest=True)
        assert task.nearest_count(n) == count
        low, high = interval
        task = BinaryTask(1, np.ones(2), 200, 200.0, 0.8, (1 - high, 1 - low), modest=True)
        assert task.nearest_count(200 - n) == 200 - count
        assert task.rare_is_known


def test_a_method_that_fails_on_labels_it_has_seen_is_not_believed():
    rng = np.random.default_rng(2)
    own = np.where(rng.random(200) < 0.5, 1.0, -1.0) + 0.1 * rng.normal(size=200)
    supervised = rng.normal(size=200)
    targets = np.where(np.arange(200) < 160, 0, np.where(own > 0, 1, -1))
    targets[160:166] *= -1  # the method has six labels wrong
    supervised[160:] = 5.0 * targets[160:]
    found = evidence(np.stack([own, supervised]), targets, None)
    assert found.wrong.tolist() == [6.0, 0.0]
    asked = []

    def unseen(wrong):
        def find():
            asked.append(wrong)
            return Mistakes(wrong, 20.0, 20.0, 40)

        return find

    believed = supervised_part(found, False)
    assert believed < 0.5
    assert supervised_part(found, False, unseen(6.0)) == believed
    assert supervised_part(found, False, unseen(5.0)) == 1.0
    assert asked == [6.0, 5.0]
    # nobody is asked where the supervised SVM has as many wrong itself
    assert supervised_part(found._replace(wrong=np.array([6.0, 6.0])), False, unseen(0.0)) < 0.5
    assert asked == [6.0, 5.0]


def naive_part(own, supervised):
    """The larger of two ratios: distances of all rows, and of both sides alike."""
    ratios = []
    for by_side in (False, True):
        spread = []
        for o in (own, supervised):
            weights = np.ones(len(o))
            if by_side:
                weights = np.where(o > 0, 1 / max(np.sum(o > 0), 1), 1 / max(np.sum(o <= 0), 1))
            mean, square = (np.average(np.abs(o) ** k, weights=weights) for k in (1, 2))
            one_sided = np.all(o > 0) or np.all(o <= 0)
            spread.append(1.0 if by_side and one_sided else 1.0 - mean**2 / square)
        ratios.append(min(1.0, spread[0] / spread[1]))
    return max(ratios)


@pytest.mark.parametrize("shift", [0.0, 0.4, 1.4])
def test_a_boundary_beside_the_rows_is_not_empty(shift):
    rng = np.random.default_rng(3)
    own = np.where(np.arange(300) % 3 == 0, 1.0, -1.0) + 0.1 * rng.normal(size=300) - shift
    supervised = rng.normal(size=300)
    targets = np.zeros(300, dtype=int)
    both = np.stack([own, supervised])
    parts = [slice(0, 90), slice(90, 300)]
    found = all_evidence([evidence(both[:, part], targets[part], None) for part in parts])
    assert supervised_part(found, False) == pytest.approx(naive_part(own, supervised))
    assert found.n_positive.tolist() == [np.sum(own > 0), np.sum(supervised > 0)]
    assert (supervised_part(found, False) == 1.0) == (shift > 1.0)
    assert isinstance(found, Evidence)


def test_how_many_predictions_a_part_would_change():
    rng = np.random.default_rng(4)
    both = rng.normal(size=(2, 500)) * [[1.0], [0.3]]
    targets, weights = np.where(np.arange(500) < 50, 1, 0), rng.integers(0, 3, 500).astype(float)
    pieces = [slice(0, 90), slice(90, 500)]
    found = all_evidence([evidence(both[:, at], targets[at], weights[at]) for at in pieces])
    own, supervised = both[:, targets == 0]
    for part in (0.0, 0.2, 0.5, 0.77, 0.99, 1.0):
        parts = part - np.array([0.0, 1.0]) / BINS  # bins are counted as a whole
        most, least = (
            np.average(differ, weights=weights[targets == 0])
            for differ in (
                (a * supervised + (1.0 - a) * own > 0) != (supervised > 0)
                for a in (max(parts[1], 0.0), parts[0])
            )
        )
        assert least <= found.changed(part) <= most
    assert found.changed(1.0) == 0.0
    assert found.changed(0.0) == pytest.approx(
        np.average((own > 0) != (supervised > 0), weights=weights[targets == 0])
    )
    nothing = evidence(np.zeros((2, 3)), np.zeros(3, dtype=int), None)
    assert nothing.changed(0.0) == 0.0


def test_the_least_part_that_changes_no_more():
    both = np.random.default_rng(5).normal(size=(2, 400))
    found = evidence(both, np.zeros(400, dtype=int), None)
    assert found.part_that_changes(1.0, 0.3) == 0.3
    assert found.part_that_changes(0.0, 0.3) > 0.9
    for most in (0.02, 0.1, 0.2):
        part = found.part_that_changes(most, 0.123)
        assert found.changed(part) <= most < found.changed(part - 1.0 / BINS)
