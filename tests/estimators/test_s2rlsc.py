"""S2RLSC from outside: brute force, balance, grids, classes, places for the factor."""

import itertools

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from transductive_cases import clusters

from dask_s3vm import RLSC, S2RLSC, load_model, s2rlsc_path, save_model
from dask_s3vm.datasets import hide_labels, make_g2c, make_moons


def objective(X, y, known, lam, lam_u, K=None):
    """Eq. 10 at its minimum over c, literally, with a column of ones."""
    K = np.column_stack([X, np.ones(len(X))]) if K is None else K
    K = K @ K.T if K.shape[0] != K.shape[1] else K
    square = np.where(known, 1.0 / known.sum(), lam_u / (~known).sum())
    D = np.diag(np.sqrt(square))
    c = D @ np.linalg.inv(D @ K @ D + lam * np.eye(len(K))) @ D @ y
    r = D @ (y - K @ c)
    return r @ r + lam * c @ K @ c


@pytest.mark.parametrize("population", [(5, 25), (1, 1)])
@pytest.mark.parametrize("sharded", [False, True])
def test_restarts_find_the_best_of_all_balanced_labels(population, sharded):
    X, truth, part = clusters(n=15, n_labeled=4, d=3, gap=1.0)
    free = np.flatnonzero(part == -1)
    model = S2RLSC(
        lam=0.1, lam_unlabeled=0.7, positive_ratio=0.5, balance_tol=0.2, population=population,
        sharded=sharded, random_state=0,
    ).fit(X, part)  # fmt: skip
    best, labels = np.inf, None
    y = np.where(truth == 1, 1.0, -1.0)
    for guess in itertools.product((-1.0, 1.0), repeat=len(free)):
        if abs(np.mean(np.array(guess) > 0) - 0.5) < 0.2:
            y[free] = guess
            value = objective(X, y, part >= 0, 0.1, 0.7)
            if value < best - 1e-12:
                best, labels = value, y.copy()
    assert model.objective_ == pytest.approx(best)
    assert np.array_equal(model.transduction_, (labels > 0).astype(int))
    assert min(row["objective"] for row in model.history_) == pytest.approx(best)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sharded", [False, True])
def test_objective_and_model_are_those_of_the_labels_found(dtype, sharded, tiny_shards):
    X, _, part = clusters(gap=3.0)
    params = {"n_restarts": 5, "random_state": 0, "supervised_part": 0.0}
    model = S2RLSC(lam=0.2, dtype=dtype, sharded=sharded, **params).fit(X, part)
    y, known = np.where(model.transduction_ == 1, 1.0, -1.0), part >= 0
    assert model.objective_ == pytest.approx(objective(X, y, known, 0.2, 1.0), abs=1e-10)
    square = np.where(known, 1.0 / known.sum(), 1.0 / (~known).sum())
    A = np.column_stack([X, np.ones(len(X))])
    w = np.linalg.solve(A.T @ (square[:, None] * A) + 0.2 * np.eye(7), A.T @ (square * y))
    assert np.allclose(np.append(model.coef_[0], model.intercept_), w, atol=1e-10)
    assert np.array_equal(model.transduction_[known], part[known])
    tolerance = 1e-10 if dtype == "float64" else 1e-5
    assert min(r["objective"] for r in model.history_) == pytest.approx(
        model.objective_, abs=tolerance
    )


def test_an_exact_kernel_is_the_formula_of_the_paper_and_landmarks_come_near():
    X, y = make_moons(80)
    X, y = X.compute(), y.compute()
    part = hide_labels(y, 10)
    params = {"lam": 1e-2, "kernel": "rbf", "sigma": 0.6, "fit_intercept": False, "n_restarts": 10}
    exact = S2RLSC(n_components=None, **params, random_state=0).fit(X, part)
    K = np.exp(-np.square(X[:, None] - X[None]).sum(axis=2) / (2 * 0.6**2))
    labels = np.where(exact.transduction_ == 1, 1.0, -1.0)
    assert exact.objective_ == pytest.approx(
        objective(X, labels, part >= 0, 1e-2, 1.0, K), abs=1e-7
    )
    near = S2RLSC(n_components=60, **params, random_state=0).fit(X, part)
    assert near.objective_ == pytest.approx(exact.objective_, rel=0.05)


def test_unlabeled_rows_help_on_gaussian_clusters():
    errors = []
    for seed in range(3):
        X, y = make_g2c(400, 50, random_state=seed)
        X, y = X.compute(), y.compute()
        part = hide_labels(y, 10, random_state=seed)
        models = [
            RLSC().fit(X, part),
            S2RLSC(positive_ratio=0.5, n_restarts=10, random_state=0, supervised_part=0.0).fit(
                X, part
            ),
        ]
        errors.append([(model.predict(X) != y)[part == -1].mean() for model in models])
    supervised, ours = np.mean(errors, axis=0)
    assert ours < 0.03
    assert ours < 0.5 * supervised


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.5, 1.0])
def test_the_balance_is_kept(sharded, ratio, tiny_shards):
    X, _, part = clusters(n=400, d=5, gap=3.0)
    model = S2RLSC(
        positive_ratio=ratio, balance_tol=0.03, n_restarts=3, sharded=sharded, random_state=0
    ).fit(X, part)
    share = model.transduction_[part == -1].mean()
    assert abs(share - ratio) < 0.03
    assert model.positive_ratio_ == ratio


def test_a_balance_that_no_number_of_rows_has_is_kept_as_near_as_can_be():
    X, _, part = clusters(n=13, n_labeled=4, d=3)
    model = S2RLSC(positive_ratio=0.5, balance_tol=0.0, n_restarts=3, random_state=0).fit(X, part)
    assert model.transduction_[part == -1].sum() in (4, 5)


def test_a_path_is_the_models_one_by_one():
    X, _, part = clusters(gap=2.0)
    lams = [0.01, 1.0, 10.0]
    path = s2rlsc_path(X, part, lams, n_restarts=4, random_state=3)
    for model, lam in zip(path, lams, strict=True):
        alone = S2RLSC(lam=lam, n_restarts=4, random_state=3).fit(X, part)
        assert np.array_equal(model.coef_, alone.coef_)
        assert np.array_equal(model.transduction_, alone.transduction_)
        assert [r["objective"] for r in model.history_] == [r["objective"] for r in alone.history_]
        assert model.lam == lam


def test_patience_is_judged_in_the_order_of_the_restarts():
    X, _, part = clusters(n=200, gap=0.5, seed=2)
    params = {"lam": 0.05, "population": (1, 1), "random_state": 5}
    every = S2RLSC(n_restarts=40, **params).fit(X, part)
    values = [row["objective"] for row in every.history_]
    assert [row["restart"] for row in every.history_] == list(range(40))
    for patience in (1, 3, 7):
        best, since, stop = np.inf, 0, 0
        while stop < len(values) and since < patience:
            since = 0 if values[stop] < best else since + 1
            best = min(best, values[stop])
            stop += 1
        model = S2RLSC(n_restarts=40, patience=patience, **params).fit(X, part)
        assert [row["objective"] for row in model.history_] == values[:stop]
        assert model.n_iter_ == stop
        assert model.objective_ == pytest.approx(best)


def test_more_restarts_keep_the_first_ones():
    X, _, part = clusters(n=100, gap=0.5)
    few, many = (S2RLSC(n_restarts=n, random_state=1).fit(X, part) for n in (3, 6))
    values = [[row["objective"] for row in model.history_] for model in (few, many)]
    assert values[1][:3] == values[0]
    other = S2RLSC(n_restarts=3, random_state=2).fit(X, part)
    assert [row["start_objective"] for row in other.history_] != [
        row["start_objective"] for row in few.history_
    ]


def test_callbacks_hear_of_every_restart():
    X, _, part = clusters()
    rows = []
    model = S2RLSC(n_restarts=6, callbacks=rows.append, random_state=0).fit(X, part)
    assert sorted(row["restart"] for row in rows) == list(range(6))
    assert {row["restart"]: row for row in rows} == {r["restart"]: r for r in model.history_}


def test_no_weight_on_unlabeled_rows_is_rlsc():
    X, _, part = clusters()
    model, plain = S2RLSC(0.3, lam_unlabeled=0, random_state=0).fit(X, part), RLSC(0.3).fit(X, part)
    assert np.array_equal(model.coef_, plain.coef_)
    with pytest.warns(UserWarning, match="no unlabeled row"):
        S2RLSC(random_state=0).fit(X[part >= 0], part[part >= 0])


def test_three_classes():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 4)) + 4 * np.eye(3, 4)[y]
    part = np.where(np.arange(300) < 15, y, -1)
    model = S2RLSC(n_restarts=5, random_state=0).fit(X, part)
    assert (model.predict(X) == y).mean() > 0.95
    assert np.array_equal(model.transduction_[15:], model.predict(X)[15:])
    assert model.objective_.shape == (3,)
    assert {row["class"] for row in model.history_} == {0, 1, 2}
    with pytest.raises(ValueError, match=r"positive_ratio=0\.3 is for two classes"):
        S2RLSC(positive_ratio=0.3, random_state=0).fit(X, part)


def test_weights_are_repetitions_where_the_search_is_exhaustive():
    X, _, part = clusters(n=10, n_labeled=4, d=2)
    # labeled rows only: repetitions of unlabeled ones could get different labels
    weights = np.where(part >= 0, np.arange(10) % 3 + 1, 1)
    repeated = np.repeat(np.arange(10), weights)
    a = S2RLSC(0.2, positive_ratio=0.5, random_state=0).fit(X, part, weights.astype(float))
    b = S2RLSC(0.2, positive_ratio=0.5, random_state=0).fit(X[repeated], part[repeated])
    assert a.objective_ == pytest.approx(b.objective_)
    assert np.allclose(a.coef_, b.coef_)


def test_unlabeled_rows_of_weight_0_are_predicted():
    X, _, part = clusters(gap=3.0)
    weights = np.ones(len(X))
    out = np.flatnonzero(part == -1)[:40]
    weights[out] = 0.0
    model = S2RLSC(n_restarts=5, positive_ratio=0.5, random_state=0).fit(X, part, weights)
    inside = np.setdiff1d(np.arange(len(X)), out)
    alone = S2RLSC(n_restarts=5, positive_ratio=0.5, random_state=0).fit(X[inside], part[inside])
    assert model.objective_ == pytest.approx(alone.objective_)
    assert np.array_equal(model.transduction_[out], model.predict(X)[out])


@pytest.mark.filterwarnings("ignore:.*may have collapsed")  # there is no bias to be moved
def test_centred_rows_are_the_rows_without_their_mean():
    X, _, part = clusters(gap=3.0)
    known = part >= 0
    square = np.where(known, 1.0 / known.sum(), 1.0 / (~known).sum())
    moved = X + 5.0
    params = {"lam": 1.0, "n_restarts": 5, "fit_intercept": False, "supervised_part": 0.0}
    a = S2RLSC(center=True, **params, random_state=0).fit(moved, part)
    b = S2RLSC(**params, random_state=0).fit(moved - square @ moved / square.sum(), part)
    assert a.objective_ == pytest.approx(b.objective_)
    assert np.allclose(a.coef_, b.coef_, atol=1e-8)
    assert np.array_equal(a.transduction_, b.transduction_)


@pytest.mark.parametrize("make", [sp.csr_array, lambda X: da.from_array(X, chunks=(50, 3))])
def test_any_kind_of_rows(make, tiny_shards):
    X, _, part = clusters(gap=3.0)
    wanted, found = (S2RLSC(n_restarts=5, random_state=0).fit(rows, part) for rows in (X, make(X)))
    assert np.allclose(found.coef_, wanted.coef_, atol=1e-9)
    assert np.array_equal(np.asarray(found.transduction_), wanted.transduction_)
    assert isinstance(found.transduction_, da.Array) == isinstance(make(X), da.Array)


def test_string_labels_and_model_files(tmp_path):
    X, truth, part = clusters(gap=4.0)
    names = np.array(["no", "yes", "?"])
    model = S2RLSC(n_restarts=3, unlabeled="?", random_state=0).fit(X, names[part])
    assert (model.transduction_ == names[truth]).mean() > 0.9
    save_model(model, tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.history_ == model.history_


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"population": (0, 3)}, "population must be two numbers"),
        ({"population": (1, 2, 3)}, "population must be two numbers"),
        ({"n_restarts": 0}, "n_restarts"),
        ({"sharded": "here"}, "sharded"),
        ({"dtype": "float16"}, "dtype"),
        ({"patience": 0}, "patience"),
        ({"lam": 0.0}, "lam"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, _, part = clusters()
    with pytest.raises(ValueError, match=message):
        S2RLSC(**params).fit(X, part)
