"""A user-defined method: one class with facts is found everywhere, without another line."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from click.testing import CliRunner

from dask_s3vm import load_model
from dask_s3vm.cli import main
from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.methods.base import BinarySolution
from dask_s3vm.methods.run import Method
from dask_s3vm.model_selection import S3VMGridSearchCV
from dask_s3vm.parameters.fields import COUNT, parameter, parametrized
from dask_s3vm.parameters.methods import METHODS, MethodFacts
from dask_s3vm.parameters.shared import LabelParameters, RegularizationParameters, RunParameters
from dask_s3vm.plotting import plot_objective
from dask_s3vm.problems.hinge import L2SVMProblem


def define():
    """The whole method: a state, its loop, an estimator with facts."""

    @dataclass(frozen=True)
    class Walk:
        w: np.ndarray
        value: float
        steps_left: int

        @property
        def done(self):
            return self.steps_left == 0

    class GradientDescent(Method):
        State, Result = Walk, BinarySolution

        def __init__(self, problem, w, n_steps):
            self.problem, self.first = problem, Walk(w, np.inf, n_steps)

        def start(self):
            return self.first

        def advance(self, state):
            point = self.problem.evaluate(state.w)
            self.report(objective=point.value)
            return Walk(point.w - 0.1 * point.gradient, point.value, state.steps_left - 1)

        def finish(self, state):
            return BinarySolution(state.w, state.value, "converged")

    @parametrized
    class GradientSVM(RegularizationParameters, LabelParameters, RunParameters, LinearS3VM):
        """Gradient descent."""

        facts = MethodFacts(
            name="toy",
            title="Gradient descent",
            history="One row per step",
            columns=("class", "objective", "seconds"),
            iteration="steps",
            supervised=True,
        )
        n_steps: int = parameter("int", "Number of steps.", [COUNT], default=30)

        def _solve(self, rows, job):
            problem = L2SVMProblem(job.engine, self.lam, job.task.positive, job.task.costs)
            return job.run(GradientDescent(problem, job.start.w, self.n_steps))

    return GradientSVM


@pytest.fixture(scope="module")
def toy():
    yield define()
    del METHODS["toy"]


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 120)
    X = rng.normal(size=(120, 5)) + np.outer(2 * y - 1, np.ones(5))
    few = y.copy()
    few[40:] = -1
    return X, y, few


def test_it_fits(toy, data):
    X, y, few = data
    seen = []
    model = toy(callbacks=seen.append).fit(X, few)
    assert (model.predict(X) == y).mean() > 0.8
    assert model.n_iter_ == 30
    assert model.history_ == seen
    assert list(model.history_[0]) == list(toy.facts.columns)
    values = [row["objective"] for row in model.history_]
    assert values[-1] < values[0]


def test_it_is_one_vs_rest(toy, data):
    X, y, _ = data
    three = np.where(X[:, 0] > 0.7, 2, y)
    model = toy().fit(X, three)
    assert model.coef_.shape == (3, 5)
    assert sorted({row["class"] for row in model.history_}) == [0, 1, 2]


def test_it_resumes(toy, data, tmp_path):
    X, _, few = data
    whole = toy().fit(X, few)

    def stop(row, rows=[]):  # noqa: B006
        rows.append(row)
        if len(rows) == 11:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toy(checkpoint=tmp_path, callbacks=stop).fit(X, few)
    seen = []
    model = toy(checkpoint=tmp_path, callbacks=seen.append).fit(X, few)
    assert 0 < len(seen) < 30
    assert np.array_equal(model.coef_, whole.coef_)
    assert len(model.history_) == 30
    assert model.n_iter_ == 30


def test_it_is_searched(toy, data):
    X, _, few = data
    search = S3VMGridSearchCV(toy(), {"lam": [1e-3, 100.0], "n_steps": [3, 20]}, cv=3)
    search.fit(X, few)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_params_["lam"] == 1e-3  # a large lam leaves next to nothing of the weights
    assert search.best_score_ > 0.8


@pytest.mark.filterwarnings("ignore:.*Matplotlib is building the font cache")
def test_the_command_line_trains_it(toy, data, tmp_path):
    X, _, few = data
    np.savez(tmp_path / "rows.npz", X=X, y=few)
    report, model = tmp_path / "report", tmp_path / "model.npz"
    args = [
        "train",
        str(tmp_path / "rows.npz"),
        "--method",
        "toy",
        "--n-steps",
        "7",
        "--lam",
        "0.5",
    ]
    done = CliRunner().invoke(main, [*args, "--model", str(model), "--report", str(report)])
    assert done.exit_code == 0, done.output
    loaded = load_model(model)
    assert (type(loaded), loaded.n_steps, loaded.lam) == (toy, 7, 0.5)
    facts = json.loads((report / "run.json").read_text())
    assert (facts["method"], facts["history_rows"]) == ("toy", 7)
    assert (report / "plots" / "objective.svg").stat().st_size > 0
    assert "toy" in CliRunner().invoke(main, ["train", "--help"]).output


def test_it_is_drawn(toy, data):
    X, _, few = data
    ax = plot_objective(toy().fit(X, few))
    assert len(ax.lines[0].get_xdata()) == 30


def test_states_cannot_be_changed(toy):
    solution = BinarySolution(np.zeros(2), 1.0, "converged")
    with pytest.raises(AttributeError):
        solution.objective = 2.0
    assert replace(solution, n_iter=3).n_iter == 3
