"""STAR-SVM's outer loop, against a naive transcription of Algorithms 1 and 2."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from dask_s3vm.methods.base import History
from dask_s3vm.methods.star import (
    StarSettings,
    Trained,
    class_costs,
    earliest_class,
    kernel_cache,
    kernel_problem,
    self_train,
)

EXACT = StarSettings(0.7, 1e-12, 1e-12, 100_000, None)


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


def trained(K, y, settings=EXACT, costs=(1.0, 1.0), history=None):
    codes = np.where(y == 0, -1, (y + 1) // 2)
    cache = kernel_cache(lambda rows: K[rows], np.diag(K).copy())
    problem = kernel_problem(cache, codes, None, 1, costs)
    return self_train(problem, costs, settings, history or History(), 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("gamma", "ratio"), [(0.7, 0.5), (0.9, 0.2)])
def test_it_is_the_algorithm_of_the_paper(seed, gamma, ratio):
    K, y = problem_of(seed)
    costs = class_costs(1.5, ratio, "minority")
    settings = StarSettings(gamma, 1e-12, 1e-12, 100_000, None)
    found = trained(K, y, settings, costs)
    labels, stage, ranking = naive_star(K, y, gamma, costs)
    assert np.array_equal(found.labels, labels)
    assert np.array_equal(found.stages, stage)
    assert np.array_equal(found.ranking, ranking)
    assert found.n_stages == stage.max()


def test_the_first_stage_takes_the_two_extremes():
    K, y = problem_of(0)
    stages = trained(K, y).stages
    assert (stages == 1).sum() == 2


def test_the_history_tells_of_every_stage():
    K, y = problem_of(1)
    history = History()
    found = trained(K, y, history=history)
    rows = history.rows
    assert [row["stage"] for row in rows] == list(range(found.n_stages + 1))
    assert [row["n_waiting"] for row in rows] == [
        int(((found.stages > k) | (found.stages < 0)).sum()) for k in range(found.n_stages + 1)
    ]
    counts = [row["n_positive"] + row["n_negative"] for row in rows]
    assert sum(counts) == (y == 0).sum()
    assert all(row["gap"] <= 1e-11 * row["objective"] + 1e-12 for row in rows)
    assert np.allclose(
        [row["tau"] for row in rows[1:]], np.cumsum([0, *counts[1:-1]]) / (y == 0).sum()
    )


def test_a_training_is_skipped_only_where_the_gap_allows_it():
    K, y = problem_of(2)
    history = History()
    trained(K, y, StarSettings(0.5, 1e-2, 1e-2, 1000, None), history=history)
    steps = np.array([row["steps"] for row in history.rows])
    assert (steps == 0).any()
    assert all(row["gap"] <= 1e-2 * row["objective"] for row in history.rows)


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
def test_a_stage_takes_no_less_than_the_share(share):
    K, y = problem_of(3)
    settings = StarSettings(0.7, 1e-6, 1e-6, 1000, None, share)
    stages = trained(K, y, settings).stages
    counts = np.bincount(stages[y == 0])[1:]
    assert (counts[:-1] >= np.ceil(share * (y == 0).sum()) - 1).all()
    assert counts.sum() == (y == 0).sum()
    if share == 1.0:
        assert len(counts) <= 2


def test_the_last_stage_allowed_takes_all_that_are_left():
    K, y = problem_of(4)
    found = trained(K, y, StarSettings(0.7, 1e-6, 1e-6, 1000, 3))
    assert found.n_stages == 3
    assert found.termination == "max_stages"
    assert found.labels.all()


def test_weights_of_the_classes():
    assert class_costs(3.0, 0.5, "minority") == class_costs(3.0, 0.5, "none") == (3.0, 3.0)
    assert class_costs(3.0, 0.1, "minority") == pytest.approx((5.4, 0.6))
    assert class_costs(3.0, 0.1, "printed") == pytest.approx((0.6, 5.4))


def test_the_earliest_positive_stage_gives_the_class():
    def one(labels, stages, ranking):
        return Trained(*map(np.array, (labels, stages, ranking)), None, 0, "converged")

    found = earliest_class(
        [
            one([1, 1, -1, -1, 1, 0], [3, 2, 5, 2, 4, -2], [30, 40, -10, -40, 20, 0]),
            one([1, -1, -1, -1, 1, 0], [1, 1, 9, 3, 4, -2], [50, -50, -5, -30, 25, 0]),
            one([-1, 1, -1, -1, -1, 0], [9, 4, 7, 1, 1, -2], [-1, 20, -8, -50, -50, 0]),
        ]
    )
    # earliest positive; one positive; latest negative, twice; a tie by ranking; never labeled
    assert found.tolist() == [1, 0, 1, 1, 1, -1]
