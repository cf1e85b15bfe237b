"""Shared fixtures: a dask configuration in which even tiny data makes several shards."""

import os
from pathlib import Path

import dask
import numpy as np
import pytest


@pytest.fixture
def tiny_shards():
    """Shards of a few hundred entries, and no retreat to this process for small data."""
    with dask.config.set({"s3vm.shard-bytes": 4096, "s3vm.local-bytes": 0}):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(20261116)


@pytest.fixture(scope="session")
def data_dir():
    """Folder of real data sets; tests that need a file of it skip where it is absent."""
    root = Path(__file__).resolve().parents[1]
    return Path(os.environ.get("DASK_S3VM_DATA", root.parent / "shared" / "data"))
