"""What a newcomer meets first: the two commands, quick starts, and silence."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dask_s3vm.cli import main
from dask_s3vm.local_cluster import local_cluster

ROOT = Path(__file__).resolve().parents[1]


def test_ci_runs_the_commands_of_the_readme_in_their_order():
    readme = (ROOT / "README.md").read_text()
    commands = [line for line in readme.splitlines() if line.startswith("python3 -m venv")]
    assert len(commands) == 2
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert [line[1:-1] for line in script if line.startswith("(")] == commands
    assert all(line.endswith(")") for line in script if line.startswith("("))


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    X = rng.normal(size=(200, 5)) + np.outer(2 * y - 1, np.ones(5))
    path = tmp_path_factory.mktemp("first") / "rows.svm"
    path.write_text(
        "".join(
            f"{label} {' '.join(f'{j + 1}:{value:.6g}' for j, value in enumerate(row))}\n"
            for label, row in zip(y, X, strict=True)
        )
    )
    return path


PROBE = """
import sys
sys.argv = ["dask-s3vm", *sys.argv[1:]]
from dask_s3vm.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
heavy = {"numpy", "dask", "numba", "distributed", "sklearn", "pandas"}
print(*sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


def run(*args):
    """Loaded packages among the heavy ones, and all other lines of standard error."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *map(str, args)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "error::DeprecationWarning"},
    )
    assert done.returncode == 0, done.stderr
    *said, loaded = done.stderr.splitlines()
    said = [line for line in said if not line.startswith("compiling ")]
    return set(loaded.split()), said


def test_help_loads_nothing():
    assert run("--help") == (set(), [])
    assert run("--version") == (set(), [])


def test_commands_load_what_they_use_and_keep_silent(rows, tmp_path):
    model = tmp_path / "model.npz"
    loaded, said = run("train", rows, "--method", "l2svm", "--model", model, "--quiet")
    assert "distributed" not in loaded
    assert said == []
    for command in (
        ["predict", model, rows, "--output", tmp_path / "labels.txt"],
        ["evaluate", model, rows],
    ):
        loaded, said = run(*command)
        assert not loaded & {"distributed", "sklearn", "pandas"}
        assert said == []


def test_a_fit_in_this_process_needs_no_cluster_package():
    code = (
        "import sys\n"
        "from dask_s3vm import TSVM\n"
        "import numpy as np\n"
        "rng = np.random.default_rng(0)\n"
        "y = np.repeat([0, 1], 50)\n"
        "X = rng.normal(size=(100, 3)) + np.outer(2 * y - 1, np.ones(3))\n"
        "TSVM(positive_ratio=0.5).fit(X, np.where(np.arange(100) % 5, -1, y)).predict(X)\n"
        "assert 'distributed' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_options_of_processes_are_refused_where_there_are_none(rows):
    for option in (["--memory-limit", "1GB"], ["--tls-cert", str(rows)]):
        done = CliRunner().invoke(main, ["train", str(rows), *option])
        assert done.exit_code == 2
        assert f"{option[0]} {option[1]} has no effect" in done.output
        assert "--nworkers" in done.output


def logged_by_a_worker():
    """Messages that pass the filters of a worker's logger."""
    logger, seen = logging.getLogger("distributed.worker"), []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())
    logger.addHandler(handler)
    try:
        logger.error("Failed to communicate with scheduler during heartbeat.")
        logger.error("Compute Failed")
    finally:
        logger.removeHandler(handler)
    return seen


def test_workers_do_not_log_that_the_scheduler_has_ended(monkeypatch):
    # the worker is in this process
    monkeypatch.setattr(logging.getLogger("distributed.worker"), "filters", [])
    with local_cluster(1, 1, processes=False, dashboard_address=None) as client:
        (seen,) = client.run(logged_by_a_worker).values()
    assert seen == ["Compute Failed"]
