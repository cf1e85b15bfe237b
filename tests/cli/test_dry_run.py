"""`dask-s3vm train --dry-run`."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from dask_s3vm import L2SVM, TSVM
from dask_s3vm.cli import main
from dask_s3vm.cli.dry_run import estimate_fit
from dask_s3vm.engine import memory


@pytest.fixture
def rows_file(tmp_path, sparse_data):
    X, y = sparse_data
    path = tmp_path / "rows.npz"
    np.savez(
        path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y.astype(np.int64)
    )
    return str(path), X


def run(*args):
    result = CliRunner().invoke(main, ["train", *args, "--nworkers", "0", "--quiet"])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_what_a_fit_needs_is_printed_and_no_model_written(rows_file, tmp_path):
    path, X = rows_file
    model = tmp_path / "model.npz"
    text = run(path, "--dry-run", "--model", str(model))
    assert not model.exists()
    found = dict(line.split("  ", 1) for line in text.splitlines())
    found = {name: value.strip() for name, value in found.items()}
    assert found["rows"] == "600"
    assert found["features"] == "30"
    assert found["nonzeros"] == f"{X.nnz:,}"
    assert "MiB" in found["bytes per worker"]
    assert " to " in found["rounds expected"]
    assert found["verdict"] == "fits"


def test_scripts_get_plain_numbers(rows_file):
    path, X = rows_file
    found = json.loads(run(path, "--dry-run", "--json", "--method", "tsvm", "--lam", "1e-2"))
    assert found["nonzeros"] == X.nnz
    assert found["method"] == "tsvm"
    assert found["rounds_expected"] == [52, 511]
    assert found["bytes_per_worker"] < found["bytes_per_worker_limit"]
    assert found["seconds_expected"][0] < found["seconds_expected"][1]


def test_a_kernel_makes_rows_of_landmarks(sparse_data):
    X, y = sparse_data
    linear = estimate_fit(L2SVM(), X, y, None)
    rbf = estimate_fit(L2SVM(kernel="rbf", n_components=100), X, y, None)
    assert rbf["bytes_of_rows"] == 600 * 100 * 8
    assert rbf["features"] == 100
    assert linear["features"] == 30


def test_more_than_two_classes_are_as_many_problems(sparse_data):
    X, y = sparse_data
    two = estimate_fit(TSVM(), X, np.where(np.arange(600) < 30, y, -1), None)
    three = estimate_fit(TSVM(), X, np.arange(600) % 3, None)
    assert three["rounds_expected"] == [3 * count for count in two["rounds_expected"]]


def test_what_does_not_fit_is_said(monkeypatch):
    monkeypatch.setattr(memory, "limit_here", lambda: 100 * 2**20)
    X = sp.random_array((100, 20), density=0.5, format="csr", rng=np.random.default_rng(0))
    found = estimate_fit(L2SVM(), X, np.arange(100) % 2, None)
    assert found["verdict"].startswith("the rows do not fit")
