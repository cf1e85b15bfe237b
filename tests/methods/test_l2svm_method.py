"""The outer loop of the l2-SVM, and counts of labels."""

import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm import L2SVM
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.base import BinaryJob, BinaryTask, Start, class_totals
from dask_s3vm.methods.l2svm import train_l2svm
from dask_s3vm.methods.run import Record

pytestmark = pytest.mark.usefixtures("tiny_shards")


def train(engine, costs, lam, record=None, positive=1, w=None, seed=None, tol=1e-10):
    """One binary problem, from weights or a seed."""
    record = Record() if record is None else record
    start = Start(np.zeros(engine.layout.n_features + 1) if w is None else w, seed)
    name, tags = f"class {positive}, lam {lam}", {"class": positive, "lam": lam}
    job = BinaryJob(engine, record, BinaryTask(positive, costs), start, name, tags)
    return train_l2svm(job, lam=lam, fit_intercept=True, tol=tol, max_iter=100)


def train_path(engine, costs, lams, record=None):
    """One solution after the other, each from what the one before left."""
    record, found, seed = Record() if record is None else record, [], None
    for lam in lams:
        found.append(train(engine, costs, lam, record, seed=seed))
        seed = found[-1].seed
    return found


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
    path = train_path(engine, COSTS, lams)
    for lam, solution in zip(lams, path, strict=True):
        alone = train(engine, COSTS, lam)
        np.testing.assert_allclose(solution.w, alone.w, atol=1e-5)
        assert solution.objective == pytest.approx(alone.objective, rel=1e-9)
        assert solution.termination == "converged"


def test_a_start_at_the_solution_takes_no_step(engine):
    first = train(engine, COSTS, 1e-2)
    for where in ({"w": first.w}, {"seed": first.seed}):
        record = Record()
        again = train(engine, COSTS, 1e-2, record, **where)
        assert again.n_iter == 0
        assert record.history == []
        assert np.array_equal(again.w, first.w)


def test_more_classes_are_one_problem_each(make_rows, rng):
    X, _ = make_rows(300, 8, seed=4, density=0.8)
    y = rng.integers(0, 3, 300)
    engine = ingest(X, y).place(np.arange(3))
    record = Record()
    costs = np.full(3, 1 / 300)
    solved = [train(engine, costs, 1e-2, record, positive) for positive in range(3)]
    engine.close()
    assert np.shape([one.w for one in solved]) == (3, 9)
    assert {row["class"] for row in record.history} == {0, 1, 2}
    for k in range(3):
        engine = ingest(X, (y == k).astype(int)).place(np.array([0, 1]))
        alone = train(engine, costs[:2], 1e-2)
        engine.close()
        np.testing.assert_allclose(solved[k].w, alone.w, atol=1e-6)
    model = L2SVM(1e-2, tol=1e-10).fit(X, y)
    assert model.coef_.shape == (3, 8)
    for k in range(3):
        np.testing.assert_allclose(model.coef_[k], solved[k].w[:-1], atol=1e-6)
    assert {row["class"] for row in model.history_} == {0, 1, 2}


def test_callbacks_see_every_row_of_the_history(engine):
    seen = []
    record = Record([seen.append])
    train_path(engine, COSTS, [1e-2, 1e-3], record)
    assert seen == record.history
    assert {row["lam"] for row in seen} == {1e-2, 1e-3}


@pytest.mark.parametrize("tol", [1e-10, 0.0])
def test_every_step_is_an_outer_iteration(engine, tol):
    """Also where the end is a step that rounding did not allow."""
    record = Record()
    solution = train(engine, COSTS, 1e-3, record, tol=tol)
    assert solution.termination == ("converged" if tol else "precision")
    assert solution.n_iter == len(record.history) > 1
    assert [row["iteration"] for row in record.history] == list(range(1, solution.n_iter + 1))


def test_weights_are_in_the_users_column_order(rng):
    # wide enough for columns to be renumbered, most frequent first
    d = 5000
    X = np.zeros((200, d))
    y = rng.integers(0, 2, 200)
    X[:, 4321] = 2.0 * y - 1
    X[:50, 17] = rng.normal(size=50)
    engine = ingest(sp.csr_array(X), y).place(np.array([0, 1]))
    assert engine.layout.order[0] == 4321
    solution = train(engine, np.full(2, 1 / 200), 1e-3)
    engine.close()
    model = L2SVM(1e-3, tol=1e-10).fit(sp.csr_array(X), y)
    for w in (engine.layout.to_external(solution.w)[:-1], model.coef_[0]):
        assert np.argmax(np.abs(w)) == 4321
        assert set(np.flatnonzero(w)) == {17, 4321}
