"""The problem of deterministic annealing against plain algebra and bisection."""

import warnings

import dask
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from scipy.special import entr, expit

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.problems.annealed import AnnealedProblem

LAM, LAM_U = 0.03, 0.7
RATIO = 0.35


class Setting:
    """Rows as dense algebra, and the problem over them."""

    def __init__(self, X, y, weights, bias, scale=1.0):
        rows = X.toarray() if sp.issparse(X) else X
        self.n, self.codes = len(y), y
        self.weights = np.ones(self.n) if weights is None else weights
        self.free = y < 0
        self.wide = np.column_stack([rows * scale, np.full(self.n, float(bias))])
        self.total = self.weights[self.free].sum()
        self.costs = np.array([0.7, 1.3]) / self.weights[~self.free].sum()
        self.cost = np.where(self.free, LAM_U / self.total, self.costs[y]) * self.weights
        with dask.config.set({"s3vm.shard-bytes": 1024, "s3vm.local-bytes": 0}):
            self.engine = ingest(X * scale, y, weights).place(np.array([0, 1]))
        self.problem = AnnealedProblem(
            self.engine, LAM, 1, self.costs, LAM_U, self.total, RATIO, bias
        )

    def look(self, w):
        """Outputs, and g of the unlabeled rows."""
        o = self.wide @ w
        g = LAM_U * (np.maximum(0, 1 - o) ** 2 - np.maximum(0, 1 + o) ** 2)
        return o, g[self.free]

    def multiplier(self, w, temperature, ratio=RATIO):
        """Nu by bisection."""
        _, g = self.look(w)
        share = self.weights[self.free] / self.total
        bounds = g.min() - 50 * temperature, g.max() + 50 * temperature
        return scipy.optimize.brentq(
            lambda x: share @ expit((x - g) / temperature) - ratio, *bounds, xtol=1e-14
        )

    def f(self, w, temperature):
        """F_T(w), p being the best ones."""
        o, g = self.look(w)
        p = (self.codes == 1).astype(float)
        p[self.free] = expit((self.multiplier(w, temperature) - g) / temperature)
        up, down = np.maximum(0, 1 - o), np.maximum(0, 1 + o)
        value = 0.5 * self.cost @ (p * up**2 + (1 - p) * down**2) + 0.5 * LAM * w @ w
        h = (entr(p) + entr(1 - p))[self.free]
        entropy = self.weights[self.free] @ h / self.total
        return value - 0.5 * temperature * entropy, entropy


@pytest.fixture(params=["csr", "dense", "weighted", "no bias"])
def setting(request, make_rows):
    X, y = make_rows(160, 11, seed=7, density=0.5)
    rng = np.random.default_rng(8)
    y = np.where(rng.random(160) < 0.7, -1, y)
    weights = rng.integers(0, 4, 160).astype(float) if request.param == "weighted" else None
    X = X.toarray() if request.param == "dense" else X
    made = Setting(X, y, weights, request.param != "no bias")
    assert made.engine.layout.n_shards > 1
    yield made
    made.engine.close()


@pytest.mark.parametrize("temperature", [7.0, 0.5, 0.05])
def test_value_and_entropy_are_those_of_the_formula(setting, rng, temperature):
    for w in (np.zeros(12), rng.normal(size=12)):
        point = setting.problem.evaluate(w, temperature, 0.0)
        value, entropy = setting.f(w, temperature)
        assert point.value == pytest.approx(value, rel=1e-9)
        assert point.entropy == pytest.approx(entropy, rel=1e-7)


@pytest.mark.parametrize("temperature", [7.0, 0.5, 0.05])
def test_gradient_is_that_of_finite_differences(setting, rng, temperature):
    """Of F_T, in which p is a function of w; its gradient has no term for that."""
    w, h = rng.normal(size=12), 1e-5
    numeric = [
        (setting.f(w + h * e, temperature)[0] - setting.f(w - h * e, temperature)[0]) / (2 * h)
        for e in np.eye(12)
    ]
    found = setting.problem.evaluate(w, temperature, 0.0).gradient
    np.testing.assert_allclose(found, numeric, rtol=1e-4, atol=1e-7)


def test_the_guess_of_the_multiplier_does_not_matter(setting, rng):
    w = rng.normal(size=12)
    points = [setting.problem.evaluate(w, 0.1, nu) for nu in (0.0, 5.0, -300.0, 1e4)]
    for point in points[1:]:
        assert point.value == pytest.approx(points[0].value, rel=1e-9)
        np.testing.assert_allclose(point.gradient, points[0].gradient, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("temperature", [7.0, 0.5, 0.05])
@pytest.mark.parametrize("length", [1e-3, 3e-2, 3.0])
def test_a_point_nearby_has_the_value_and_gradient_of_one_from_afar(
    setting, rng, temperature, length
):
    """Near ones take one round; from those that are not near, nu is searched for."""
    problem, engine = setting.problem, setting.engine
    here = problem.evaluate(rng.normal(size=12), temperature, 0.0)
    w = here.w + length * rng.normal(size=12)
    before = engine.rounds
    near = problem.evaluate_near(w, temperature, here)
    if length * LAM_U <= 1e-3 * temperature:
        assert engine.rounds == before + 1
    assert near.nu != here.nu
    exact = problem.evaluate(w, temperature, 0.0)
    assert near.nu == pytest.approx(exact.nu, abs=1e-3 * temperature)
    assert near.value == pytest.approx(exact.value, rel=1e-7)
    assert near.objective == pytest.approx(exact.objective, rel=1e-12)
    np.testing.assert_allclose(near.gradient, exact.gradient, rtol=1e-2, atol=3e-4)


@pytest.mark.parametrize("temperature", [7.0, 0.5])
def test_the_multiplier_is_followed_along_its_derivative(setting, rng, temperature):
    w, h = rng.normal(size=12), 1e-5
    numeric = [
        (setting.multiplier(w + h * e, temperature) - setting.multiplier(w - h * e, temperature))
        / (2 * h)
        for e in np.eye(12)
    ]
    found = setting.problem.evaluate(w, temperature, 0.0).follow
    np.testing.assert_allclose(found, numeric, rtol=1e-4, atol=1e-7)


def test_the_objective_has_every_row_on_its_own_side(setting, rng):
    w = rng.normal(size=12)
    o = setting.wide @ w
    margin = np.where(setting.free, np.abs(o), np.where(setting.codes == 1, o, -o))
    wanted = 0.5 * setting.cost @ np.maximum(0, 1 - margin) ** 2 + 0.5 * LAM * w @ w
    assert setting.problem.evaluate(w, 1.0, 0.0).objective == pytest.approx(wanted, rel=1e-12)


def test_the_diagonal_is_that_of_dense_algebra(setting):
    wanted = LAM + setting.cost @ setting.wide**2
    np.testing.assert_allclose(setting.problem.diagonal(), wanted, rtol=1e-12)


@pytest.mark.parametrize("temperature", [7.0, 0.1, 1e-3])
@pytest.mark.parametrize("ratio", [0.02, 0.35, 0.5, 0.97])
def test_the_multiplier_is_the_root_of_brentq(setting, temperature, ratio, rng):
    w = rng.normal(size=12)
    bias = bool(setting.wide[0, -1])
    problem = AnnealedProblem(
        setting.engine, LAM, 1, setting.costs, LAM_U, setting.total, ratio, bias
    )
    nu = problem.evaluate(w, temperature, 0.0).nu
    _, g = setting.look(w)
    share = (setting.weights / setting.total)[setting.free]
    p = expit((nu - g) / temperature)
    assert share @ p == pytest.approx(ratio, abs=1e-8 * min(ratio, 1 - ratio))
    if share @ (p * (1 - p)) / temperature > 1e-3:  # where the mean is flat, any nu will do
        assert nu == pytest.approx(setting.multiplier(w, temperature, ratio), abs=1e-4)


@pytest.mark.parametrize("ratio", [0.01, 0.5])
@pytest.mark.parametrize("temperature", [10.0, 1e-5])
def test_huge_outputs_do_no_harm(make_rows, ratio, temperature, rng):
    X, y = make_rows(60, 4, seed=9, density=0.9)
    y[10:] = -1
    y[:2] = 0, 1
    made = Setting(X, y, None, True, scale=1e6)
    problem = AnnealedProblem(made.engine, LAM, 1, made.costs, LAM_U, made.total, ratio)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        point = problem.evaluate(rng.normal(size=5), temperature, 0.0)
    assert np.isfinite(point.gradient).all()
    assert np.isfinite([point.value, point.nu, point.entropy, point.objective]).all()
    made.engine.close()
