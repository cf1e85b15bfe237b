"""Examples run at a small size; those that read files, on files of the formats they are for."""

import gzip
import importlib.util
import os
import runpy
import subprocess
import sys
from pathlib import Path

import dask
import numpy as np
import pytest
from distributed import LocalCluster, SpecCluster

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def scheduler():
    """Address of a cluster in this process: starting one for each example would take longer."""
    with LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        protocol="tcp",
        dashboard_address=":0",
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example as a program, in this process; returns what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # they add their folder

    def run(script, *options):
        path = EXAMPLES / f"{script}.py"
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, options)])
        before = set(SpecCluster._instances)
        try:
            runpy.run_path(str(path), run_name="__main__")
        finally:  # some leave theirs to the end of the process
            for cluster in set(SpecCluster._instances) - before:
                cluster.close()
        return capsys.readouterr().out

    return run


def errors_of(text):
    """Percentages behind the word `error`."""
    words = text.split()
    return [float(words[i + 1]) for i, word in enumerate(words) if word == "error"]


@pytest.mark.parametrize("script", sorted(path.stem for path in EXAMPLES.glob("train_*.py")))
def test_training_runs_at_a_small_size(run, scheduler, script):
    with dask.config.set({"s3vm.local-bytes": 0}):
        told = run(script, "--rows", 1000, "--scheduler", scheduler)
    assert "1,000 rows" in told
    assert len(errors_of(told)) == 4


def test_a_program_starts_a_cluster_of_its_own(tmp_path):
    script, options = str(EXAMPLES / "train_dense.py"), ["--kernel", "linear", "--methods", "l2svm"]
    done = subprocess.run(
        [sys.executable, script, "--rows", "300", *options],
        cwd=tmp_path,
        env=os.environ | {"DASK_S3VM__LOCAL_BYTES": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(errors_of(done.stdout)) == 1


def test_click_logs_run_at_a_tiny_size(run, tmp_path):
    options = ["--rows", 2000, "--columns", 500, "--labels", 500, "--keep", tmp_path / "rows"]
    told = run("click_logs", *options)
    assert "2,000 rows x 500 columns" in told
    assert len(errors_of(told)) == 3
    again = run("click_logs", *options, "--methods", "l2svm")
    assert errors_of(again) == errors_of(told)[:1]


def test_out_of_core_runs_at_a_tiny_size(run):
    told = run("out_of_core", "--rows", 1000)
    assert "workers lost: none" in told


def test_kdd99_from_raw_files(run, tmp_path, scheduler):
    from dask_s3vm.datasets._kdd99 import COLUMNS

    rng = np.random.default_rng(0)
    for name in ("a.gz", "b.gz"):
        lines = []
        for i in range(300):
            fields = [str(rng.integers(0, 9) * (1 + 5 * (i % 2))) for _ in COLUMNS[:-1]]
            fields[1:4] = "icmp" if i % 2 else "tcp", "http", "SF"
            lines.append(",".join([*fields, "smurf." if i % 2 else "normal."]) + "\n")
        (tmp_path / name).write_bytes(gzip.compress("".join(lines).encode()))
    told = run("kdd99", tmp_path / "a.gz", tmp_path / "b.gz", "--labels", 50, "--scheduler",
               scheduler, "--methods", "l2svm", "tsvm", "da")  # fmt: skip
    assert "600 rows x 123 features" in told
    assert len(errors_of(told)) == 3
    assert max(errors_of(told)) < 5


def test_rcv1_from_files(run, tmp_path, scheduler):
    rng = np.random.default_rng(0)
    vectors, topics = [], []
    for document in range(1, 401):
        topic = document % 2
        columns = np.sort(rng.choice(500, 12, replace=False) + 1 + 300 * topic)
        words = " ".join(f"{column}:{rng.random():.6f}" for column in columns)
        vectors.append(f"{document}  {words}\n")
        topics.append(f"{'CCAT' if topic else 'GCAT'} {document} 1\n")
    (tmp_path / "lyrl2004_vectors_train.dat").write_text("".join(vectors))
    (tmp_path / "rcv1-v2.topics.qrels").write_text("".join(topics))
    told = run("rcv1", tmp_path / "lyrl2004_vectors_train.dat", "--topics",
               tmp_path / "rcv1-v2.topics.qrels", "--topic", "gcat", "--labels", 60,
               "--scheduler", scheduler, "--methods", "l2svm", "tsvm")  # fmt: skip
    assert "400 rows x 47,236 features" in told
    assert len(errors_of(told)) == 2
    assert max(errors_of(told)) < 40


@pytest.mark.parametrize("script", ["kdd99", "rcv1"])
def test_without_files_rows_are_made(run, scheduler, script):
    told = run(script, "--rows", 2000, "--labels", 200, "--methods", "l2svm", "--scheduler",
               scheduler)  # fmt: skip
    assert "2,000 rows" in told
    assert len(errors_of(told)) == 1


def test_the_study_of_safety(run, tmp_path):
    told = run("safety", "--quick", "--out", tmp_path / "out")
    assert "generated text: 4 draws" in told
    assert "| S3VM | 12 |" in told
    assert (tmp_path / "out" / "gains.png").stat().st_size > 0
    before = (tmp_path / "out" / "G2C.csv").read_text()
    run("safety", "--quick", "--out", tmp_path / "out")
    assert (tmp_path / "out" / "G2C.csv").read_text() == before, "what is done is not done again"


def test_the_study_of_ratios(run):
    told = run("ratios", "--quick", "--labels", 100)
    shift, auto = (line.split(" | ") for line in told.splitlines() if "held out" in line)
    assert auto[:4] == ["| held out, 3", "auto", "100", "6"]
    assert float(auto[4]) < 0.1
    assert float(shift[4]) < 0.1


def test_the_study_of_probabilities(run):
    told = run("calibration", "--quick")
    (mean,) = [line for line in told.splitlines() if line.startswith("| mean")]
    theirs, _, _, ours = (float(cell.split(",")[0]) for cell in mean.split("|")[3:-1])
    assert ours < theirs


def test_my_csv(run):
    told = run("my_csv", "--rows", 600)
    assert "600 rows, 20 of them labeled" in told
    supervised, tsvm = errors_of(told)
    assert tsvm < 20  # 40 % buy
    assert tsvm < supervised + 2
    assert "'country': 'de', 'device': 'laptop'} -> yes" in told
    assert "'country': 'pl', 'device': 'phone'} -> not yes" in told


def test_the_walkthrough_draws_its_pictures(run, tmp_path, scheduler):
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    told = run("walkthrough", "--rows", 500, "--draws", 1, "--output", "out", "--scheduler",
               scheduler)  # fmt: skip
    for name in ("moons", "outputs", "labels"):
        path = tmp_path / "out" / f"{name}.png"
        assert path.read_bytes().startswith(b"\x89PNG")
        assert f"picture: {Path('out') / path.name}" in told
    assert "text, 200 labels" in told
