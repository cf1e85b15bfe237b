"""The problem of deterministic annealing against plain algebra and the doubled rows."""

import warnings

import dask
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from scipy.special import entr, expit, rel_entr

from dask_s3vm import L2SVM
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.annealing import DASettings, _Run
from dask_s3vm.methods.base import History, TransductiveTask
from dask_s3vm.problems import annealed
from dask_s3vm.problems.annealed import AnnealedProblem
from dask_s3vm.solvers.newton import finite_newton

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

    def set_beliefs(self, p):
        self.engine.each(write_beliefs, p)
        self.p = np.where(self.free, p, self.codes == 1)

    def f(self, w):
        o = self.wide @ w
        up, down = np.maximum(0, 1 - o), np.maximum(0, 1 + o)
        return 0.5 * self.cost @ (self.p * up**2 + (1 - self.p) * down**2) + 0.5 * LAM * w @ w

    def beliefs(self):
        return np.concatenate(self.engine.each(lambda shard: shard.state["belief"].copy()))


def write_beliefs(shard, p):
    shard.state["belief"][:] = p[shard.start : shard.start + shard.n_rows]


@pytest.fixture(params=["csr", "dense", "weighted", "no bias"])
def setting(request, make_rows):
    X, y = make_rows(160, 11, seed=7, density=0.5)
    rng = np.random.default_rng(8)
    y = np.where(rng.random(160) < 0.7, -1, y)
    weights = rng.integers(0, 4, 160).astype(float) if request.param == "weighted" else None
    X = X.toarray() if request.param == "dense" else X
    made = Setting(X, y, weights, request.param != "no bias")
    assert made.engine.layout.n_shards > 1
    made.set_beliefs(rng.choice([0.0, 1.0, 1e-6, 0.5, 0.2, 0.9], 160))
    yield made
    made.engine.close()


def test_value_is_the_formula(setting, rng):
    for w in (np.zeros(12), rng.normal(size=12)):
        assert setting.problem.evaluate(w).value == pytest.approx(setting.f(w), rel=1e-12)


def test_gradient_is_that_of_finite_differences(setting, rng):
    w, h = rng.normal(size=12), 1e-6
    numeric = [(setting.f(w + h * e) - setting.f(w - h * e)) / (2 * h) for e in np.eye(12)]
    found = setting.problem.evaluate(w).gradient
    np.testing.assert_allclose(found, numeric, rtol=1e-5, atol=1e-8)


def hessian(setting, w):
    o = setting.wide @ w
    second = setting.cost * (setting.p * (o < 1) + (1 - setting.p) * (o > -1))
    return LAM * np.eye(12) + setting.wide.T @ (second[:, None] * setting.wide)


def test_hessian_products_are_those_of_dense_algebra(setting, rng, monkeypatch):
    monkeypatch.setattr(annealed, "NEGLIGIBLE", 0.0)
    w, p = rng.normal(size=(2, 12))
    H = hessian(setting, w)
    point = setting.problem.evaluate(w)
    product, curvature = setting.problem.hessian_product(point, p)
    np.testing.assert_allclose(product, H @ p, rtol=1e-11, atol=1e-13)
    assert curvature == pytest.approx(p @ H @ p, rel=1e-12)
    diagonal = setting.problem.hessian_diagonal(point)
    np.testing.assert_allclose(diagonal, np.diag(H), rtol=1e-12)


def test_what_is_left_out_of_the_hessian_is_negligible(setting, rng):
    w, p = 2 * rng.normal(size=(2, 12))
    exact = hessian(setting, w)
    point = setting.problem.evaluate(w)
    product, _ = setting.problem.hessian_product(point, p)
    bound = annealed.NEGLIGIBLE * np.abs(setting.wide.T * setting.cost) @ np.abs(setting.wide @ p)
    assert np.all(np.abs(product - exact @ p) <= bound + 1e-12)


@pytest.mark.parametrize("step", [0.0, 0.3, 1.0, 1.7])
def test_slope_is_the_derivative_along_the_line(setting, step, rng):
    a, b = rng.normal(size=(2, 12))
    here = setting.problem.evaluate(a)
    there = setting.problem.evaluate(b, beside=here)
    slope, curvature = setting.problem.slope(here, there, step)
    h = 1e-6
    along = [setting.f(a + (step + k * h) * (b - a)) for k in (-1, 1)]
    assert slope == pytest.approx((along[1] - along[0]) / (2 * h), rel=1e-5, abs=1e-7)
    ahead, behind = (setting.problem.slope(here, there, step + k * h)[0] for k in (1, -1))
    assert curvature == pytest.approx((ahead - behind) / (2 * h), rel=1e-3)


def test_the_minimum_is_that_of_the_doubled_rows(setting):
    """Eq. 1.8: an unlabelled row appears as +1 of weight p and as -1 of weight 1 - p."""
    problem = setting.problem
    found = finite_newton(problem, problem.evaluate(np.zeros(12)), 1e-14, 200).point
    X = np.concatenate([setting.wide[:, :-1]] * 2)
    y = np.repeat([1, 0], setting.n)
    weight = np.concatenate([setting.cost * setting.p, setting.cost * (1 - setting.p)])
    # an L2SVM divides by the total weight: multiply f by it
    bias = bool(setting.wide[0, -1])
    other = L2SVM(LAM / weight.sum(), tol=1e-14, max_iter=200, fit_intercept=bias)
    other.fit(X, y, weight)
    np.testing.assert_allclose(found.w[:-1], other.coef_[0], atol=1e-5)
    assert found.w[-1] == pytest.approx(other.intercept_[0], abs=1e-5)
    assert found.value == pytest.approx(other.objective_ * weight.sum(), rel=1e-9)


def test_the_transductive_value_has_every_row_on_its_own_side(setting, rng):
    w = rng.normal(size=12)
    point = setting.problem.evaluate(w)
    o = setting.wide @ w
    margin = np.where(setting.free, np.abs(o), np.where(setting.codes == 1, o, -o))
    wanted = 0.5 * setting.cost @ np.maximum(0, 1 - margin) ** 2 + 0.5 * LAM * w @ w
    assert setting.problem.transductive_value(point) == pytest.approx(wanted, rel=1e-12)


# p-step


def preferences(setting, w):
    o = setting.wide @ w
    return LAM_U * (np.maximum(0, 1 - o) ** 2 - np.maximum(0, 1 + o) ** 2)


def run_of(setting, ratio):
    """The run of a method with a given ratio, on the rows of a setting."""
    task = TransductiveTask(1, setting.costs, int(setting.free.sum()), setting.total, ratio)
    bias = bool(setting.wide[0, -1])
    return _Run(setting.engine, task, DASettings(LAM, LAM_U, bias, 1e-6, 100), History())


@pytest.mark.parametrize("temperature", [7.0, 0.1, 1e-3])
@pytest.mark.parametrize("ratio", [0.02, 0.35, 0.5, 0.97])
def test_the_multiplier_is_the_root_of_brentq(setting, temperature, ratio, rng):
    w = rng.normal(size=12)
    run = run_of(setting, ratio)
    point = run.problem.evaluate(w)
    nu = run._find_multiplier(point, temperature)
    share = (setting.weights / setting.total)[setting.free]
    g = preferences(setting, w)[setting.free]
    bounds = g.min() - 50 * temperature, g.max() + 50 * temperature

    def mean(x):
        return share @ expit((x - g) / temperature)

    theirs = scipy.optimize.brentq(lambda x: mean(x) - ratio, *bounds, xtol=1e-14)
    assert mean(nu) == pytest.approx(ratio, abs=1e-8 * min(ratio, 1 - ratio))
    assert mean(nu) == pytest.approx(mean(theirs), abs=1e-8)
    # where the mean is flat, any nu will do
    if run.problem.mean_belief(point, temperature, nu)[1] > 1e-3:
        assert nu == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("ratio", [0.0, 0.35, 1.0])
def test_beliefs_have_the_mean_divergence_and_entropy_of_numpy(setting, ratio, rng):
    run = run_of(setting, ratio)
    start = np.full(setting.n, ratio)
    share = (setting.weights / setting.total)[setting.free]
    run._point = run.problem.evaluate(rng.normal(size=12))
    last = start[setting.free]
    for temperature in (2.0, 0.1):
        divergence, entropy = run._update_beliefs(temperature)
        p = setting.beliefs()[setting.free]
        g = preferences(setting, run._point.w)[setting.free]
        counted = share > 0
        wanted = expit((run._nu - g) / temperature)
        np.testing.assert_allclose(p[counted], wanted[counted], rtol=1e-9, atol=1e-16)
        assert share @ p == pytest.approx(ratio, rel=1e-8)
        kl = share @ (rel_entr(p, last) + rel_entr(1 - p, 1 - last))
        assert divergence == pytest.approx(kl, rel=1e-8, abs=1e-12)
        assert entropy == pytest.approx(share @ (entr(p) + entr(1 - p)), rel=1e-8, abs=1e-12)
        last = p
        run._point = run.problem.evaluate(rng.normal(size=12))


@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("temperature", [10.0, 1e-5])
def test_huge_outputs_do_no_harm(make_rows, ratio, temperature, rng):
    X, y = make_rows(60, 4, seed=9, density=0.9)
    y[10:] = -1
    y[:2] = 0, 1
    made = Setting(X, y, None, True, scale=1e6)
    run = run_of(made, ratio)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        run._point = run.problem.evaluate(rng.normal(size=5))
        sums = run._update_beliefs(temperature)
    assert np.isfinite(sums).all()
    p = made.beliefs()[made.free]
    assert np.all((p >= 0) & (p <= 1))
    assert p.mean() == pytest.approx(ratio, abs=1e-8)
    made.engine.close()


def test_beliefs_are_put_back_bit_for_bit(setting, rng):
    run, engine = run_of(setting, 0.4), setting.engine
    kept = {}
    engine.remember = lambda name, op, *args: kept.update({name: (op, args)})
    w = 3 * rng.normal(size=12)
    for temperature in (1.0, 0.1, 0.03, 0.01, 0.003):
        run._point = run.problem.evaluate(w)
        run._update_beliefs(temperature)
        counted = setting.cost > 0
        wanted = setting.beliefs()[counted & setting.free]
        state = engine.each(lambda shard: dict(shard.state))
        op, args = kept["beliefs"]
        engine.each(forget_beliefs)
        engine.each(op, *args)
        found = setting.beliefs()[counted & setting.free]
        assert found.tobytes() == wanted.tobytes()
        engine.each(lambda shard, state=state: shard.state.update(state[shard.number]))
        w = w + 0.1 * rng.normal(size=12)


def forget_beliefs(shard):
    """Leave what other operations set up."""
    for name in list(shard.state):
        if name not in ("target", "cost", "share"):
            del shard.state[name]
