"""Real dask processes, rows for them, and certificates."""

import importlib.util
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from cluster_cases import SMALL, Processes
from sklearn.datasets import dump_svmlight_file

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Each test has a working directory of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    found = Processes(tmp_path_factory.mktemp("cluster"), {**os.environ, **SMALL})
    yield found
    found.stop()


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
