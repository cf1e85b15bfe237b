"""`dask-s3vm train` with the methods that find labels first."""

import json
import os

import dask
import numpy as np
import pytest
from click.testing import CliRunner

from dask_s3vm import QPS3VM, SubmodularS3VM, load_model
from dask_s3vm.cli import main
from dask_s3vm.datasets import make_g2c


def run(*args):
    """Run the command in this process."""
    return CliRunner().invoke(main, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, y = dask.compute(*make_g2c(n_rows=400, n_features=20))
    few = np.where(np.arange(400) < 10, y.astype(int), -1)
    path = tmp_path_factory.mktemp("rows") / "rows.npz"
    np.savez(path, X=X, y=few)
    return X, y, few, path


@pytest.mark.parametrize(
    ("method", "more", "kind", "params"),
    [
        ("qp", ["--restarts", 2, "--seed", 3], QPS3VM, {"n_restarts": 2, "random_state": 3}),
        ("qp", ["--no-center"], QPS3VM, {"center": False}),
        ("sqp", ["--sharded", "yes"], SubmodularS3VM, {"sharded": True}),
    ],
)
def test_train(data, tmp_path, method, more, kind, params):
    X, y, few, path = data
    model = tmp_path / "model.npz"
    done = run(
        "train", path, "--method", method, "--C", 0.5, "--C-unlabeled", 0.01, "--positive-ratio",
        0.5, "--model", model, "--nworkers", 0, "--json", "--quiet", *more,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    wanted = kind(0.5, 0.01, positive_ratio=0.5, **params).fit(X, few)
    loaded = load_model(model)
    np.testing.assert_allclose(loaded.coef_, wanted.coef_, rtol=1e-6, atol=1e-9)
    assert np.array_equal(loaded.predict(X), wanted.predict(X))
    assert np.mean(loaded.predict(X) == y) > 0.95
    (row,) = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    assert row["objective"] == pytest.approx(wanted.objective_, rel=1e-9)
    assert 0 < row["newton_steps"] < 30


@pytest.mark.parametrize(
    ("method", "option"),
    [
        ("qp", ["--lam", 1]),
        ("qp", ["--sharded", "no"]),
        ("sqp", ["--restarts", 2]),
        ("l2svm", ["--C", 2]),
        ("tsvm", ["--no-center"]),
    ],
)
def test_options_without_effect_are_refused(data, method, option):
    done = run("train", data[3], "--method", method, *option, "--nworkers", 0)
    assert done.exit_code == 2, done.output
    assert option[0].replace("--no-", "--") in done.output
    assert not os.path.exists("model.npz")


@pytest.mark.parametrize("command", ["train", "tune"])
def test_a_word_is_none_of_labels_that_are_numbers(data, command):
    done = run(command, data[3], "--method", "l2svm", "--positive", "yes", "--nworkers", 0)
    assert done.exit_code == 65, done.output
    assert "--positive yes: the labels are numbers" in done.output
