"""QP-S3VM: descent, where it ends, and other solvers from the same start."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.base import BinaryJob, BinaryTask, Start
from dask_s3vm.methods.labeling import classes_of_rows, train_on_found
from dask_s3vm.methods.qp import LabelProgramSearch
from dask_s3vm.methods.run import Record
from dask_s3vm.methods.submodular import GreedySearch
from dask_s3vm.parameters.methods import QPParameters, SQPParameters

pytestmark = pytest.mark.usefixtures("tiny_shards")


class Instance:
    """Rows, labels, and F as a function of P by the formula of the paper."""

    def __init__(self, seed, n_unlabeled=None, center=True):
        rng = np.random.default_rng(seed)
        u = int(rng.integers(6, 40)) if n_unlabeled is None else n_unlabeled
        d = int(rng.integers(2, 8))
        self.y = np.append([0, 1, 0, 1, 0], np.full(u, -1))
        self.X = rng.normal(size=(u + 5, d)) if seed % 2 else rng.random((u + 5, d))
        self.C, self.cost = 1.0, float(rng.choice([0.1, 0.5, 1.0]))
        self.ratio = float(rng.choice([0.3, 0.44, 0.5]))
        self.u, self.center = u, center
        known, rest = (X - X.mean(axis=0) * center for X in np.split(self.X, [5]))
        self.K = rest @ rest.T
        self.pull = np.array([-1.0, 1, -1, 1, -1]) @ known @ rest.T

    def value(self, P):
        rest = 1.0 - P
        return 0.5 * self.cost**2 * rest @ self.K @ P + self.C * self.cost * self.pull @ rest

    def gradient(self, P):
        linear = 0.5 * self.cost**2 * self.K.sum(axis=0) - self.C * self.cost * self.pull
        return linear - self.cost**2 * self.K @ P

    def task(self):
        return BinaryTask(1, np.full(2, self.C), self.u, float(self.u), self.ratio)

    def solve(self, n_restarts=0):
        engine = ingest(self.X, self.y).place(np.array([0, 1]))
        record = Record()
        seeds = np.random.SeedSequence(0).spawn(n_restarts)
        search = LabelProgramSearch(engine, self.task(), self.cost, self.center, seeds)
        found = record.run("labels", search)
        assert found.n_iter == len(record.history)
        bits = [
            np.unpackbits(bits, count=high - low)
            for bits, (low, high) in zip(
                found.bits, itertools.pairwise(engine.layout.starts), strict=True
            )
        ]
        return found, np.concatenate(bits)[5:], record.history

    def by_scipy(self):
        """SLSQP from P = r, with the gradient."""
        P = np.full(self.u, self.ratio)
        scale = 1.0 / np.abs(self.gradient(P)).max()
        return minimize(
            lambda P: scale * self.value(P),
            P,
            jac=lambda P: scale * self.gradient(P),
            bounds=[(0, 1)] * self.u,
            constraints={
                "type": "eq",
                "fun": lambda P: P.sum() - self.ratio * self.u,
                "jac": lambda P: np.ones(self.u),
            },
            method="SLSQP",
            options={"maxiter": 1000, "ftol": 1e-14},
        ).x


def test_it_is_not_worse_than_a_general_solver_from_the_same_start():
    worse = 0
    for seed in range(50):
        case = Instance(seed)
        reached, other = case.solve()[0].objective, case.value(case.by_scipy())
        worse += reached > other + 1e-9 * abs(other)
    assert worse <= 2


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_it_never_goes_up_and_ends_at_a_vertex_that_no_swap_improves(seed, center):
    case = Instance(seed, n_unlabeled=20, center=center)  # r u is whole for .3 and .5
    case.ratio = 0.4
    found, labels, rows = case.solve()
    values = [row["objective"] for row in rows]
    assert values[0] <= case.value(np.full(20, 0.4)) + 1e-12
    assert all(b <= a for a, b in itertools.pairwise(values))
    assert rows[-1]["event"] == "rest"
    assert labels.sum() == 8
    assert found.objective == pytest.approx(case.value(labels.astype(float)), rel=1e-9)
    for i, j in itertools.product(np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)):
        swapped = labels.astype(float)
        swapped[[i, j]] = swapped[[j, i]]
        assert case.value(swapped) >= found.objective - 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_not_below_the_best_of_all_vertices(seed):
    case = Instance(seed, n_unlabeled=10)
    case.ratio = 0.5
    best = min(
        case.value(np.isin(np.arange(10), chosen).astype(float))
        for chosen in itertools.combinations(range(10), 5)
    )
    reached = case.solve(n_restarts=20)[0].objective
    assert reached == pytest.approx(best, rel=1e-9)


def test_restarts_find_what_one_start_does_not():
    better = 0
    for seed in range(12):
        case = Instance(seed, n_unlabeled=150)
        case.cost = 1.0  # many unlabeled rows that weigh much: many local minima
        (one, _, _), (many, _, rows) = case.solve(), case.solve(n_restarts=6)
        assert many.objective <= one.objective
        assert {row["restart"] for row in rows} == set(range(7))
        better += many.objective < one.objective - 1e-9
    assert better > 0


@pytest.mark.parametrize(("ratio", "wanted"), [(0.0, 0), (1.0, 13), (0.35, 5), (0.34, 4)])
def test_a_fraction_is_rounded_to_a_label(ratio, wanted):
    case = Instance(2, n_unlabeled=13)
    case.ratio = ratio  # 4.55 rows, 4.42 rows
    assert case.solve()[1].sum() == wanted


def found_bits(engine, y, n_classes):
    """All that the methods give, on an engine."""
    record, u = Record(), int((y < 0).sum())
    positives = [1] if n_classes == 2 else list(range(n_classes))
    tasks = [BinaryTask(k, np.ones(n_classes), u, float(u), 0.4) for k in positives]
    numbers = []
    for kind in ("qp", "exact", "greedi"):
        found = []
        for task in tasks:
            stops = {"tol": 1e-3, "max_iter": 100}
            if kind == "qp":
                parameters = QPParameters(**stops)
                seeds = np.random.SeedSequence(0).spawn(2)
                search = LabelProgramSearch(engine, task, 0.3, True, seeds)
            else:
                parameters = SQPParameters(pick="fewer", sharded=kind == "greedi", **stops)
                search = GreedySearch(engine, task, 0.3, parameters, 1 << 30)
            name, tags = f"{kind}, class {task.positive}", {"class": task.positive}
            zero = Start(np.zeros(engine.layout.n_features + 1))
            job = BinaryJob(engine, record, task, zero, name, tags)
            one = job.run(search, "labels")
            found.append(one)
            trained = train_on_found(job, parameters, one, 0.3)
            bits = b"".join(part.tobytes() for part in one.bits)
            numbers += [bits, one.objective, one.direction.tobytes(), trained.w.tobytes()]
        numbers.append(classes_of_rows(engine, tasks, found).tolist())
    return numbers, [{**row, "seconds": 0} for row in record.history]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_loss_at_any_moment_changes_no_bit(losses, n_classes):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 8))
    y = np.where(np.arange(200) % 10 == 3, rng.integers(0, n_classes, 200), -1)
    losses(X, y).bits_of(lambda engine: found_bits(engine, y, n_classes))
