"""STAR-SVM's outer loop, against a naive transcription of Algorithms 1 and 2."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from dask_s3vm.methods.run import Record
from dask_s3vm.methods.star import SelfTraining, StarSolution, class_costs, earliest_class
from dask_s3vm.parameters.methods import STARParameters
from dask_s3vm.problems.dual import KernelCache, KernelDual


def parameters_of(confidence=0.7, tol=1e-6, max_iter=1000, **more):
    return STARParameters(
        confidence=confidence, tol=tol, max_iter=max_iter, **({"min_share": 0.0} | more)
    )


EXACT = parameters_of(tol=1e-12, max_iter=100_000)


def naive_dual(Q, cost):
    """Cyclic ascent until nothing moves."""
    alpha = np.zeros(len(cost))
    for _ in range(20_000):
        before = alpha.copy()
        for i in range(len(cost)):
            alpha[i] = np.clip(alpha[i] + (1 - Q[i] @ alpha) / Q[i, i], 0, cost[i])
        if np.abs(alpha - before).max() < 1e-13:
            break
    return alpha


def naive_star(K, y, gamma, costs):
    """Labels, stage and ranking of each row, one line for each line of the algorithms."""
    labels, labeled = y.copy(), np.flatnonzero(y)
    C = np.where(y > 0, costs[0], costs[1])
    waiting = np.flatnonzero(y == 0)
    u0, k = len(waiting), 1
    stage, ranking = np.where(y == 0, -1, 0), y * (u0 + 1)
    while len(waiting):
        signs = labels[labeled]
        Q = K[np.ix_(labeled, labeled)] * np.outer(signs, signs)
        g = K[np.ix_(waiting, labeled)] @ (signs * naive_dual(Q, C[labeled]))
        tau = (u0 - len(waiting)) / u0
        taken = (g >= (1 - tau) * g.max()) | (-g >= (1 - tau) * (-g).max())
        rows = waiting[taken]
        labels[rows] = np.where(g[taken] > 0, 1, -1)
        C[rows] = gamma**k * np.where(g[taken] > 0, *costs)
        stage[rows], ranking[rows] = k, labels[rows] * len(waiting)
        labeled, waiting = np.append(labeled, rows), waiting[~taken]
        k += 1
    return labels, stage, ranking


def problem_of(seed, n=70, n_given=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    truth = np.where(X[:, 0] > 0.5, 1, -1)
    y = np.where(np.arange(n) < n_given, truth, 0)
    y[:2] = 1, -1
    return rbf_kernel(X, gamma=0.4), y


def trained(K, y, parameters=EXACT, costs=(1.0, 1.0), record=None):
    cache = KernelCache(lambda rows: K[rows], np.diag(K).copy())
    problem = KernelDual(cache, y, np.where(y > 0, *costs), None)
    assert not problem.takes_rounds  # all stages are trained to `tol`
    training = SelfTraining(problem, costs, parameters)
    return (record or Record()).run("stages", training, {"class": 1})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("gamma", "ratio"), [(0.7, 0.5), (0.9, 0.2)])
def test_it_is_the_algorithm_of_the_paper(seed, gamma, ratio):
    K, y = problem_of(seed)
    costs = class_costs(1.5, ratio, "minority")
    found = trained(K, y, parameters_of(gamma, tol=1e-12, max_iter=100_000), costs)
    labels, stage, ranking = naive_star(K, y, gamma, costs)
    assert np.array_equal(found.labels, labels)
    assert np.array_equal(found.stages, stage)
    assert np.array_equal(found.ranking, ranking)
    assert found.n_iter == stage.max()


def test_the_first_stage_takes_the_two_extremes():
    K, y = problem_of(0)
    stages = trained(K, y).stages
    assert (stages == 1).sum() == 2


def test_the_history_tells_of_every_stage():
    K, y = problem_of(1)
    record = Record()
    found = trained(K, y, record=record)
    rows = record.history
    assert all(row["class"] == 1 for row in rows)
    assert [row["stage"] for row in rows] == list(range(found.n_iter + 1))
    assert [row["n_waiting"] for row in rows] == [
        int(((found.stages > k) | (found.stages < 0)).sum()) for k in range(found.n_iter + 1)
    ]
    counts = [row["n_positive"] + row["n_negative"] for row in rows]
    assert sum(counts) == (y == 0).sum()
    assert all(row["gap"] <= 1e-11 * row["objective"] + 1e-12 for row in rows)
    assert np.allclose(
        [row["tau"] for row in rows[1:]], np.cumsum([0, *counts[1:-1]]) / (y == 0).sum()
    )


def test_a_training_is_skipped_only_where_the_gap_allows_it():
    K, y = problem_of(2)
    record = Record()
    trained(K, y, parameters_of(0.5, tol=1e-2), record=record)
    steps = np.array([row["steps"] for row in record.history])
    assert (steps == 0).any()
    assert all(row["gap"] <= 1e-2 * row["objective"] for row in record.history)


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
def test_a_stage_takes_no_less_than_the_share(share):
    K, y = problem_of(3)
    stages = trained(K, y, parameters_of(min_share=share)).stages
    counts = np.bincount(stages[y == 0])[1:]
    assert (counts[:-1] >= np.ceil(share * (y == 0).sum()) - 1).all()
    assert counts.sum() == (y == 0).sum()
    if share == 1.0:
        assert len(counts) <= 2


def test_the_last_stage_allowed_takes_all_that_are_left():
    K, y = problem_of(4)
    found = trained(K, y, parameters_of(max_stages=3))
    assert found.n_iter == 3
    assert found.termination == "max_stages"
    assert found.labels.all()


def test_weights_of_the_classes():
    assert class_costs(3.0, 0.5, "minority") == class_costs(3.0, 0.5, "none") == (3.0, 3.0)
    assert class_costs(3.0, 0.1, "minority") == pytest.approx((5.4, 0.6))
    assert class_costs(3.0, 0.1, "printed") == pytest.approx((0.6, 5.4))


def test_the_earliest_positive_stage_gives_the_class():
    def one(labels, stages, ranking):
        arrays = map(np.array, (labels, stages, ranking))
        return StarSolution(np.zeros(0), 0.0, "converged", *arrays, 0.0)

    found = earliest_class(
        [
            one([1, 1, -1, -1, 1, 0], [3, 2, 5, 2, 4, -2], [30, 40, -10, -40, 20, 0]),
            one([1, -1, -1, -1, 1, 0], [1, 1, 9, 3, 4, -2], [50, -50, -5, -30, 25, 0]),
            one([-1, 1, -1, -1, -1, 0], [9, 4, 7, 1, 1, -2], [-1, 20, -8, -50, -50, 0]),
        ]
    )
    # earliest positive; one positive; latest negative, twice; a tie by ranking; never labeled
    assert found.tolist() == [1, 0, 1, 1, 1, -1]
