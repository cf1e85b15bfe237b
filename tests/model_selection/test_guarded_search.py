"""Searches of guarded models: two fits on each fold in place of folds within folds."""

import dask.array as da
import numpy as np
import pytest

from dask_s3vm import QPS3VM, S3VM, TSVM
from dask_s3vm.datasets import hide_labels, make_g2c
from dask_s3vm.model_selection import S3VMGridSearchCV, _trials
from dask_s3vm.model_selection._results import Score
from dask_s3vm.model_selection._trials import Trials

LAMS = {"lam": [1e-3, 1e-1]}


@pytest.fixture(scope="module")
def rows():
    X, y = make_g2c(n_rows=300, n_features=20)
    return np.asarray(X.compute()), np.asarray(hide_labels(y, 40))


def score(model, X, few, **params):
    search = S3VMGridSearchCV(model, LAMS, cv=3, refit=False, **params).fit(X, few)
    return search.cv_results_["mean_test_score"]


def test_a_candidate_is_the_model_that_its_guard_would_keep(rows):
    """The supervised one, unless the other puts a row and a half more right."""
    found = score(S3VM(positive_ratio=0.5), *rows)
    plain = {"positive_ratio": 0.5, "supervised_part": 0.0, "tol": 1e-3}
    own = score(TSVM(**plain), *rows)
    alone = score(TSVM(lam_unlabeled=0.0, **plain), *rows)
    wanted = np.where(own >= alone + 1.5 / 40 - 1e-12, own, alone)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(score(TSVM(safe=True, **plain), *rows), wanted)


@pytest.mark.parametrize(("gain", "kept"), [(0.0, 0.8), (0.1, 0.8), (0.15, 0.95), (0.2, 1.0)])
def test_it_takes_a_row_and_a_half_of_ten_to_be_kept(gain, kept):
    trials = Trials({0: None, 1: None}, [0, 0])
    scores = [Score(0, fold, {"score": 0.8 + gain}, {}, 1.0, 0.0) for fold in range(2)]
    scores += [Score(1, fold, {"score": 0.8}, {}, 2.0, 0.0) for fold in range(2)]
    found = trials.settled(scores, "score", 10)
    assert [(one.candidate, one.fold, one.fit_time) for one in found] == [(0, 0, 3.0), (0, 1, 3.0)]
    assert {round(one.test["score"], 9) for one in found} == {kept}


def test_two_fits_for_each_candidate_and_fold(rows):
    told = []
    search = S3VMGridSearchCV(S3VM(), LAMS, cv=3, callbacks=told.append).fit(*rows)
    assert [one["total"] for one in told] == [12] * 12
    assert sorted(one["candidate"] for one in told) == [0] * 6 + [1] * 6
    assert all(one["params"] == {"lam": LAMS["lam"][one["candidate"]]} for one in told)
    assert len(search.best_estimator_.candidates_) == 2  # the final fit asks its guard


def test_where_the_labels_cannot_be_asked_the_guard_is(rows):
    """With a test set there are no folds; QP has no weight that makes it supervised."""
    X, few = rows
    truth = np.where(few == -1, 0, few)
    told = []
    S3VMGridSearchCV(S3VM(), LAMS, test_set=truth, callbacks=told.append, refit=False).fit(X, few)
    assert len(told) == 2
    grid = {"C": [1.0]}
    S3VMGridSearchCV(QPS3VM(safe=True), grid, cv=2, callbacks=told.append, refit=False).fit(X, few)
    assert len(told) == 4


def test_a_sample_of_the_unlabeled_rows_is_enough(rows, monkeypatch):
    X, few = rows
    monkeypatch.setattr(_trials, "MOST_UNLABELED", 100)
    seen = []
    place = _trials.with_few_unlabeled

    def note(job):
        seen.append(place(job))
        return seen[-1]

    monkeypatch.setattr("dask_s3vm.model_selection._search.with_few_unlabeled", note)
    found = score(S3VM(), X, few)
    lazy = score(S3VM(), da.from_array(X, chunks=(70, -1)), da.from_array(few, chunks=70))
    np.testing.assert_array_equal(found, lazy)
    job = seen[0]
    assert job.X.shape == (140, 20)
    assert job.labeled.n_rows == 140
    np.testing.assert_array_equal(job.y[job.labeled.numbers], job.labeled.y)
    np.testing.assert_array_equal(job.X[job.labeled.numbers], job.labeled.X)
    for fold in job.folds:
        np.testing.assert_array_equal(fold.held_out, job.labeled.numbers[fold.test])
    score(TSVM(), X, few)
    assert len(seen) == 2


def test_a_guarded_search_resumes(rows, tmp_path):
    wanted = score(S3VM(), *rows)

    def stop(row):
        if row["done"] == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(S3VM(), *rows, checkpoint=tmp_path, callbacks=stop)
    told = []
    found = score(S3VM(), *rows, checkpoint=tmp_path, callbacks=told.append)
    assert 0 < len(told) < 12
    np.testing.assert_array_equal(found, wanted)
