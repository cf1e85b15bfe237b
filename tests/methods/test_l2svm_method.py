"""The outer loop of the l2-SVM, and counts of labels."""

import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.base import History, class_totals
from dask_s3vm.methods.l2svm import L2SVMSettings, train_l2svm

pytestmark = pytest.mark.usefixtures("tiny_shards")

SETTINGS = L2SVMSettings(fit_intercept=True, tol=1e-10, max_iter=100)


@pytest.mark.parametrize("n_classes", [2, 3, 126, 127, 128, 300])
def test_labels_are_counted_with_and_without_weights(n_classes, rng):
    labels = np.append(np.arange(n_classes), rng.integers(-1, n_classes, 500))
    weights = rng.random(len(labels))
    X = rng.normal(size=(len(labels), 3))
    wanted = np.bincount(labels + 1, minlength=n_classes + 1)
    for given, total in ((None, wanted), (weights, np.bincount(labels + 1, weights=weights))):
        engine = ingest(X, labels, given).place(np.arange(n_classes))
        totals = class_totals(engine, n_classes)
        engine.close()
        assert totals.counts.tolist() == wanted[1:].tolist()
        assert totals.n_unlabeled == wanted[0]
        np.testing.assert_allclose(totals.weights, total[1:], rtol=1e-12)


@pytest.fixture
def engine(sparse_data):
    engine = ingest(*sparse_data).place(np.array([0, 1]))
    yield engine
    engine.close()


COSTS = np.full(2, 1 / 600)


def test_a_path_ends_where_separate_solves_end(engine):
    lams = [1e-1, 1e-2, 1e-3]
    path = train_l2svm(engine, COSTS, lams, SETTINGS, None, History())
    for lam, solution in zip(lams, path, strict=True):
        (alone,) = train_l2svm(engine, COSTS, [lam], SETTINGS, None, History())
        np.testing.assert_allclose(solution.w, alone.w, atol=1e-5)
        assert solution.objective[0] == pytest.approx(alone.objective[0], rel=1e-9)
        assert solution.termination == ["converged"]


def test_a_start_at_the_solution_takes_no_step(engine):
    (first,) = train_l2svm(engine, COSTS, [1e-2], SETTINGS, None, History())
    history = History()
    (again,) = train_l2svm(engine, COSTS, [1e-2], SETTINGS, first.w, history)
    assert again.n_iter.tolist() == [0]
    assert history.rows == []
    assert np.array_equal(again.w, first.w)


def test_more_classes_are_one_problem_each(make_rows, rng):
    X, _ = make_rows(300, 8, seed=4, density=0.8)
    y = rng.integers(0, 3, 300)
    engine = ingest(X, y).place(np.arange(3))
    history = History()
    costs = np.full(3, 1 / 300)
    (solution,) = train_l2svm(engine, costs, [1e-2], SETTINGS, None, history)
    engine.close()
    assert solution.w.shape == (3, 9)
    assert {row["class"] for row in history.rows} == {0, 1, 2}
    for k in range(3):
        engine = ingest(X, (y == k).astype(int)).place(np.array([0, 1]))
        (alone,) = train_l2svm(engine, costs[:2], [1e-2], SETTINGS, None, History())
        engine.close()
        np.testing.assert_allclose(solution.w[k], alone.w[0], atol=1e-6)


def test_callbacks_see_every_row_of_the_history(engine):
    seen = []
    history = History([seen.append])
    train_l2svm(engine, COSTS, [1e-2, 1e-3], SETTINGS, None, history)
    assert seen == history.rows
    assert {row["lam"] for row in seen} == {1e-2, 1e-3}


def test_weights_are_in_the_users_column_order(rng):
    # wide enough for columns to be renumbered, most frequent first
    d = 5000
    X = np.zeros((200, d))
    y = rng.integers(0, 2, 200)
    X[:, 4321] = 2.0 * y - 1
    X[:50, 17] = rng.normal(size=50)
    engine = ingest(sp.csr_array(X), y).place(np.array([0, 1]))
    assert engine.layout.order[0] == 4321
    (solution,) = train_l2svm(engine, np.full(2, 1 / 200), [1e-3], SETTINGS, None, History())
    engine.close()
    assert np.argmax(np.abs(solution.w[0])) == 4321
    assert set(np.flatnonzero(solution.w[0, :-1])) == {17, 4321}
