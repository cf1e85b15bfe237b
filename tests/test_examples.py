"""Examples that read files run at a small size, on files made in the formats they are for."""

import gzip
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def scheduler():
    """Address of a cluster in this process: starting one for each example would take longer."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        protocol="tcp",
        dashboard_address=":0",
    ) as cluster:
        yield cluster.scheduler_address


def run(script, *options, cwd):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{script}.py"), *map(str, options)],
        cwd=cwd,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def errors_of(text):
    """Percentages behind the word `error`."""
    words = text.split()
    return [float(words[i + 1]) for i, word in enumerate(words) if word == "error"]


def test_kdd99_from_raw_files(tmp_path, scheduler):
    from dask_s3vm.io.kdd99 import COLUMNS

    rng = np.random.default_rng(0)
    for name in ("a.gz", "b.gz"):
        lines = []
        for i in range(300):
            fields = [str(rng.integers(0, 9) * (1 + 5 * (i % 2))) for _ in COLUMNS[:-1]]
            fields[1:4] = "icmp" if i % 2 else "tcp", "http", "SF"
            lines.append(",".join([*fields, "smurf." if i % 2 else "normal."]) + "\n")
        (tmp_path / name).write_bytes(gzip.compress("".join(lines).encode()))
    told = run("kdd99", tmp_path / "a.gz", tmp_path / "b.gz", "--labels", 50, "--scheduler",
               scheduler, "--methods", "l2svm", "tsvm", "da",
               cwd=tmp_path)  # fmt: skip
    assert "600 rows x 123 features" in told
    assert len(errors_of(told)) == 3
    assert max(errors_of(told)) < 5


def test_rcv1_from_files(tmp_path, scheduler):
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
               "--scheduler", scheduler, "--methods", "l2svm", "tsvm", cwd=tmp_path)  # fmt: skip
    assert "400 rows x 47,236 features" in told
    assert len(errors_of(told)) == 2
    assert max(errors_of(told)) < 40


@pytest.mark.parametrize("script", ["kdd99", "rcv1"])
def test_without_files_rows_are_made(tmp_path, scheduler, script):
    told = run(script, "--rows", 2000, "--labels", 200, "--methods", "l2svm", "--scheduler",
               scheduler, cwd=tmp_path)  # fmt: skip
    assert "2,000 rows" in told
    assert len(errors_of(told)) == 1


def test_my_csv(tmp_path):
    told = run("my_csv", "--rows", 600, cwd=tmp_path)
    assert "600 rows, 20 of them labelled" in told
    supervised, tsvm = errors_of(told)
    assert tsvm < 20  # 40 % buy
    assert tsvm < supervised + 2
    assert "'country': 'de', 'device': 'laptop'} -> yes" in told
    assert "'country': 'pl', 'device': 'phone'} -> not yes" in told


def test_the_walkthrough_draws_its_pictures(tmp_path, scheduler):
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    told = run("walkthrough", "--rows", 500, "--draws", 1, "--output", "out", "--scheduler",
               scheduler, cwd=tmp_path)  # fmt: skip
    for name in ("moons", "outputs", "labels"):
        path = tmp_path / "out" / f"{name}.png"
        assert path.read_bytes().startswith(b"\x89PNG")
        assert f"picture: {Path('out') / path.name}" in told
    assert "text, 200 labels" in told
