"""Shared fixtures: a dask configuration in which even tiny data makes several shards."""

import itertools
import os
from pathlib import Path

import cached_sparse
import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from clients import two_workers
from distributed.utils import get_mp_context
from hypothesis import HealthCheck, settings
from lossy_cluster import losses  # noqa: F401 (a fixture)

from dask_s3vm._config import available_cores

# Worker processes are forked from one that has imported everything: they are there in a moment.
# Processes that tests start with a command line of their own spawn theirs as dask does by default.
_WORKERS = {
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.worker.preload": [cached_sparse.__file__],
}
dask.config.set(_WORKERS | {"multiprocessing.context": "forkserver"})
get_mp_context()  # dask's own choice of modules to import beforehand: ours is made after it
get_mp_context().set_forkserver_preload(["distributed", "dask_s3vm.estimators"])

# Examples are the same in every run, and a slow machine is no failure. To look for others:
# pytest --hypothesis-profile=default
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


def pytest_xdist_auto_num_workers(config):
    """Processes that share the tests: one for each core, and none where something is measured."""
    if config.option.markexpr.strip() == "bench":
        return 0
    return min(available_cores(), 8)


@pytest.fixture
def tiny_shards():
    """Shards of a few hundred entries, and no retreat to this process for small data."""
    with dask.config.set({"s3vm.shard-bytes": 4096, "s3vm.local-bytes": 0}):
        yield


@pytest.fixture(scope="module")
def client():
    """A client of two workers in threads of this process."""
    with two_workers() as client:
        yield client


@pytest.fixture(scope="module")
def mortal_client():
    """A client of two worker processes."""
    with two_workers(processes=True) as client:
        yield client


@pytest.fixture
def array_api(monkeypatch):
    """Lets scikit-learn check numpy rows with its array API switched on."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # it looks for this; to scipy it comes too late


@pytest.fixture
def rng():
    return np.random.default_rng(20261116)


@pytest.fixture(scope="session")
def data_dir():
    """Folder of real data sets; tests that need a file of it skip where it is absent."""
    root = Path(__file__).resolve().parents[1]
    return Path(os.environ.get("DASK_S3VM_DATA", root.parent / "shared" / "data"))


def _sparse_rows(n_rows, n_features, seed, density=0.2):
    """Random CSR rows of uneven lengths, every tenth one empty, and noisy labels 0 and 1."""
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n_rows, n_features))
    dense[rng.random(dense.shape) > density * rng.uniform(0.2, 1.8, (n_rows, 1))] = 0.0
    dense[::10] = 0.0
    y = (dense @ rng.normal(size=n_features) + rng.normal(size=n_rows) > 0).astype(np.int64)
    return sp.csr_array(dense), y


@pytest.fixture(scope="session")
def make_rows():
    """Maker of (csr_array, y); see `_sparse_rows`."""
    return _sparse_rows


@pytest.fixture(scope="session")
def sparse_data():
    """600 sparse rows of 30 columns and their labels; 18 shards where `tiny_shards` is set."""
    return _sparse_rows(600, 30, seed=5)


@pytest.fixture(scope="session")
def as_dask():
    """Maker of dask arrays with csr blocks, or what `convert` makes of them.

    Chunks may be empty, and their sizes known to dask or not.
    """

    def make(X, chunks, known=True, convert=None):
        edges = np.cumsum([0, *chunks])
        pieces = [X[low:high] for low, high in itertools.pairwise(edges)]
        sizes = tuple(chunks) if known else (np.nan,) * len(chunks)

        def block(numbers):
            piece = pieces[int(numbers[0])]
            return piece if convert is None else convert(piece)

        return da.arange(len(chunks), chunks=1).map_blocks(
            block,
            new_axis=1,
            chunks=(sizes, (X.shape[1],)),
            meta=X[:0] if convert is None else np.empty((0, 0), dtype=X.dtype),
        )

    return make
