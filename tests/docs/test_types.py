"""What type checkers see is what is there, and a user's program passes the strictest check."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = '''
import numpy as np

from dask_s3vm import L2SVM, S3VM, TableEncoder, l2svm_path, load_model, save_model
from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.io import read_data, read_table, write_data
from dask_s3vm.model_selection import LabeledKFold, S3VMGridSearchCV
from dask_s3vm.plotting import plot_objective


def train(path: str) -> np.ndarray:
    """Train a model on a file, and look at it."""
    X, y = read_data(path)
    model = S3VM(lam=1e-3, positive_ratio=0.4).fit(X, y)
    save_model(model, "model.npz")
    steps: int = model.n_iter_
    why: str = model.decision_reason_
    print(steps, why, model.history_[0]["objective"], model.predict(X))
    plot_objective(model)
    return model.coef_


def choose() -> dict[str, float]:
    """Search on generated rows."""
    X, y = make_text(n_rows=100)
    write_data(X, y, "rows.npz")
    few = hide_labels(y, 20)
    search = S3VMGridSearchCV(L2SVM(), {"lam": [1e-3, 1e-2]}, cv=LabeledKFold(5)).fit(X, few)
    print([one.objective_ for one in l2svm_path(X, few, [1.0, 0.1])])
    best: dict[str, float] = search.best_params_
    return best


def predict(path: str, encoder: TableEncoder) -> np.ndarray:
    """Predict the rows of a table."""
    rows, _, _ = read_table(path, encoder=encoder, label=False)
    return np.asarray(load_model("model.npz").predict(rows))
'''


@pytest.mark.parametrize("name", ["dask_s3vm", "dask_s3vm.io"])
def test_names_for_type_checkers_are_the_public_ones(name):
    module = importlib.import_module(name)
    tree = ast.parse(Path(module.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    homes = {alias.name: line.module for line in block.body for alias in line.names}
    assert homes == module._PUBLIC
    assert all(alias.name == alias.asname for line in block.body for alias in line.names)


@pytest.mark.slow
def test_a_program_passes_the_strict_check(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "program.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "no issues" in done.stdout
