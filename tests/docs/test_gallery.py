"""Scripts of the gallery and larger examples run."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GALLERY = sorted((ROOT / "examples" / "gallery").glob("*.py"))


@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_gallery_script_runs(script, monkeypatch, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.delenv("DISPLAY", raising=False)
    title, line = ast.get_docstring(ast.parse(script.read_text())).split("\n")[:2]
    assert line == "=" * len(title)
    try:
        runpy.run_path(str(script), run_name="__main__")
        assert plt.get_fignums()
    finally:
        plt.close("all")


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
