"""Small data for commands."""

import dask
import numpy as np
import pytest

from dask_s3vm.datasets import make_g2c


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Give each test its own working directory: some check which files are in it."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def g2c():
    """300 rows of two clusters, and their labels 0 and 1, of which 12 are given."""
    X, y = dask.compute(*make_g2c(n_rows=300, n_features=5))
    y = y.astype(int)
    return X, y, np.where(np.arange(300) < 12, y, -1)


@pytest.fixture(scope="session")
def g2c_file(g2c, tmp_path_factory):
    """An .npz file of the rows and given labels of `g2c`."""
    path = tmp_path_factory.mktemp("g2c") / "rows.npz"
    np.savez(path, X=g2c[0], y=g2c[2])
    return path
