"""What the documents say is what happens."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dask_s3vm.estimators._l2svm

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_ci_runs_the_test_command_of_the_readme():
    (command,) = [block.strip() for block in blocks("") if "pytest" in block]
    script = (ROOT / ".ci" / "run").read_text()
    assert script.rstrip().endswith(command)


def test_first_python_block_of_the_readme_runs():
    scope = {}
    exec(blocks("python")[0], scope)
    assert scope["model"].termination_ == "converged"


def test_docstring_examples():
    failed, tried = doctest.testmod(dask_s3vm.estimators._l2svm)
    assert tried > 0
    assert failed == 0


@pytest.mark.cluster
@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_example_runs_at_a_small_size(script, tmp_path):
    done = subprocess.run(
        [sys.executable, str(script), "--rows", "3000"],
        cwd=tmp_path,
        env=os.environ | {"DASK_S3VM__LOCAL_BYTES": "0"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "error" in done.stdout
