"""Real dask processes, with their output kept, and rows for them."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from dask_s3vm import load_model

ROOT = Path(__file__).resolve().parents[2]

#: Small data on the workers, in several shards.
SMALL = {
    "DASK_S3VM__LOCAL_BYTES": "0",
    "DASK_S3VM__SHARD_BYTES": "8192",
    "DASK_S3VM__CONNECT_TIMEOUT": "5s",
}


class Processes:
    """Processes of one test, started with their output in files, and stopped in the end."""

    def __init__(self, folder, env):
        self.folder, self.env, self.started = folder, env, []

    def dask(self, name, *words):
        """Start `dask WORDS` in the background."""
        log = (self.folder / f"{name}.log").open("w")
        command = [sys.executable, "-m", "dask", *map(str, words)]
        self.started.append(
            subprocess.Popen(command, stdout=log, stderr=log, env=self.env, cwd=self.folder)
        )
        log.close()

    def run(self, *words, timeout=120):
        """Run `dask-s3vm WORDS` to its end."""
        command = [sys.executable, "-c", "from dask_s3vm.cli import main; main()"]
        return subprocess.run(
            [*command, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=self.env,
            cwd=self.folder,
        )

    def stop(self):
        """Stop the workers first: they say goodbye to the scheduler."""
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=15)
            process.kill()
            process.wait(timeout=15)


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    found = Processes(tmp_path_factory.mktemp("cluster"), {**os.environ, **SMALL})
    yield found
    found.stop()


def wait_for(path, seconds=60):
    """Wait until a file is there and is whole JSON."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, ValueError):
            return json.loads(path.read_text())
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    rng = np.random.default_rng(3)
    X = sp.random_array((600, 40), density=0.2, rng=rng, format="csr")
    y = np.where(X @ rng.standard_normal(40) > 0, 1, -1)
    path = tmp_path_factory.mktemp("rows") / "rows.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


@pytest.fixture(scope="session")
def make_certificates():
    """The main function of cluster/tls/make_certificates.py."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is not there")
    file = ROOT / "cluster" / "tls" / "make_certificates.py"
    spec = importlib.util.spec_from_file_location("make_certificates", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def make(*args):
        before = os.umask(0o022)  # the script sets its own; this process keeps what it had
        try:
            return module.main([str(arg) for arg in args])
        finally:
            os.umask(before)

    return make


def same_model(one, other):
    """Whether two model files hold the same bits."""
    a, b = load_model(one), load_model(other)
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)
