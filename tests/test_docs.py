"""What the documents say is what happens."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dask_s3vm.datasets import hide_labels, make_g2c

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_first_python_blocks_of_the_readme_run():
    scope = {}
    for block in blocks("python")[:5]:
        exec(block, scope)
        assert scope["model"].termination_ == "converged"


def test_the_readme_chooses_parameters():
    (block,) = [block for block in blocks("python") if "S3VMGridSearchCV" in block]
    X, y = make_g2c(n_rows=150, n_features=10)
    scope = {"X": X, "few": hide_labels(y, 30)}
    exec(block, scope)
    assert scope["search"].best_score_ > 0.8


def test_the_readme_has_probabilities():
    (block,) = [block for block in blocks("python") if "predict_proba" in block]
    X, y = make_g2c(n_rows=150, n_features=10)
    scope = {"X": X, "few": hide_labels(y, 30)}
    exec(block, scope)
    assert scope["model"].predict_proba(X).compute().shape == (150, 2)


DOCUMENTED = ["_clustering", "_l2svm", "_labeling", "_least_squares", "_star", "_transductive"]
DOCUMENTED = [f"estimators.{name}" for name in DOCUMENTED]
DOCUMENTED += ["model_selection._splits", "model_selection._searches", "baselines"]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstring_examples(name):
    module = importlib.import_module(f"dask_s3vm.{name}")
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_rows_of_three_times_the_memory_train_to_the_same_objective(tmp_path):
    options = ["--times", "3", "--workers", "1", "--compare"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "out_of_core.py"), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("workers lost: none") == 2
    difference = float(done.stdout.split("relative difference of the objectives:")[1])
    assert difference < 1e-6
    peak = re.search(r"limit 1 GiB: .* at most ([0-9.]+) MiB in a worker", done.stdout)
    assert float(peak[1]) < 0.8 * 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "options", "word"),
    [
        ("flip_cost", ["--most", "100", "--restarts", "2", "--rows", "200"], "flips/s"),
        ("restart_pool", ["--rows", "500", "--restarts", "3", "--workers", "2"], "2 worker"),
    ],
)
def test_search_example_runs_at_a_small_size(script, options, word, tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "papers" / f"{script}.py"), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert word in done.stdout
