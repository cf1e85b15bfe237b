"""The graph of neighbors, and the l2-SVM with outputs smooth along it, by plain algebra."""

import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.problems import manifold
from dask_s3vm.problems.manifold import ManifoldProblem, Roughness, Smoothness, neighbor_edges

pytestmark = pytest.mark.usefixtures("tiny_shards")

LAM, LAM_MANIFOLD = 0.03, 0.4


def edges_by_sorting(X, k):
    """Join rows to their nearest ones, by distances that are written out."""
    found = set()
    for i, row in enumerate(X):
        far = np.square(X - row).sum(axis=1)
        far[i] = np.inf
        found |= {(min(i, j), max(i, j)) for j in np.argsort(far)[:k].tolist()}
    return sorted(found)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_edges_are_those_of_the_nearest_rows(kind, rng, monkeypatch):
    monkeypatch.setattr(manifold, "BLOCK", 17)
    X = rng.normal(size=(60, 4)) * (rng.random((60, 4)) < 0.8)
    blocks = []
    edges = neighbor_edges(kind(X), 3, lambda: blocks.append(1))
    assert [tuple(pair) for pair in edges.tolist()] == edges_by_sorting(X, 3)
    assert len(blocks) == 4


def test_few_rows_are_joined_to_all_others(rng):
    assert neighbor_edges(rng.normal(size=(3, 2)), 6, int).tolist() == [[0, 1], [0, 2], [1, 2]]
    assert neighbor_edges(np.ones((1, 2)), 6, int).shape == (0, 2)


@pytest.mark.parametrize("kind", ["matrix", "rows", "sparse"])
def test_roughness_is_the_mean_over_the_edges(kind, rng, monkeypatch):
    X = rng.normal(size=(40, 5))
    edges = neighbor_edges(X, 4, int)
    if kind == "rows":
        monkeypatch.setattr(manifold, "MOST_COLUMNS", 4)
    found = Roughness(sp.csr_array(X) if kind == "sparse" else X, edges)
    for w in rng.normal(size=(3, 6)):
        outputs = X @ w[:-1] + w[-1]
        mean = np.mean([(outputs[i] - outputs[j]) ** 2 for i, j in edges])
        assert w @ found.product(w) == pytest.approx(mean, rel=1e-12)
    columns = [found.product(unit) for unit in np.eye(6)]
    np.testing.assert_allclose(found.diagonal, np.diag(columns), rtol=1e-12, atol=1e-15)


def test_a_roughness_of_rows_has_no_matrix(setting):
    problem, _ = setting
    point = problem.evaluate(np.zeros(9))
    problem._smoothness.roughness.matrix = None
    assert problem.patience(point) is None


@pytest.fixture
def setting(make_rows):
    """A problem on several shards, and its value written down from the formula."""
    rows, y = make_rows(120, 8, seed=1, density=0.5)
    X = rows.toarray()
    y = np.where(np.arange(120) % 3 == 0, y, -1)
    engine = ingest(X, y).place(np.array([0, 1]))
    assert engine.layout.n_shards > 3
    costs, edges = np.array([0.02, 0.03]), neighbor_edges(X, 3, int)
    ordered = X[:, engine.layout.to_internal(np.arange(9.0)[None])[0, :-1].astype(int)]
    smoothness = Smoothness(LAM_MANIFOLD, Roughness(ordered, edges))
    problem = ManifoldProblem(engine, LAM, 1, costs, True, smoothness)
    labeled = y >= 0
    target, wide = np.where(y == 1, 1.0, -1.0), np.column_stack([ordered, np.ones(120)])

    def f(w):
        outputs = wide @ w
        slack = np.maximum(0.0, 1.0 - target * outputs)[labeled]
        rough = np.square(outputs[edges[:, 0]] - outputs[edges[:, 1]]).mean()
        return 0.5 * (costs[y[labeled]] @ slack**2 + LAM * w @ w + LAM_MANIFOLD * rough)

    yield problem, f
    engine.close()


def test_value_gradient_and_curvature(setting, rng):
    problem, f = setting
    w, p = rng.normal(size=(2, 9))
    point = problem.evaluate(w)
    assert point.value == pytest.approx(f(w), rel=1e-12)
    step = 1e-6
    for unit, slope in zip(np.eye(9), point.gradient, strict=True):
        assert (f(w + step * unit) - f(w - step * unit)) / (2 * step) == pytest.approx(slope, 1e-5)
    product, curvature = problem.hessian_product(point, p)
    ahead, behind = (problem.evaluate(w + sign * 1e-7 * p).gradient for sign in (1, -1))
    np.testing.assert_allclose(product, (ahead - behind) / 2e-7, rtol=1e-5, atol=1e-7)
    assert curvature == pytest.approx(p @ product)
    units = [problem.hessian_product(problem.evaluate(w), unit)[0] for unit in np.eye(9)]
    np.testing.assert_allclose(problem.hessian_diagonal(point), np.diag(units), rtol=1e-12)
    np.testing.assert_allclose(problem.hessian(point), units, rtol=1e-9, atol=1e-12)
    assert problem.patience(point) > 0


def test_slope_along_a_line(setting, rng):
    problem, f = setting
    here, there, other = (rng.normal(size=9) for _ in range(3))
    for end in (there, other):  # the second line is not the first one's
        point = problem.evaluate(here)
        trial = problem.evaluate(end, beside=point)
        for step in (0.0, 0.3, 1.0):
            slope, _ = problem.slope(point, trial)(step)
            places = [here + (step + change) * (end - here) for change in (1e-6, -1e-6)]
            assert (f(places[0]) - f(places[1])) / 2e-6 == pytest.approx(slope, rel=1e-5, abs=1e-7)
