"""Arrow files of rows whose values are all 1: no values are stored."""

import dask
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from dask_s3vm import L2SVM
from dask_s3vm.engine.ingest import ingest
from dask_s3vm.io import read_data, write_data
from dask_s3vm.numerics.ones import is_ones


def indicators(n=300, d=40):
    rng = np.random.default_rng(1)
    X = sp.csr_array((rng.random((n, d)) < 0.2).astype(np.float32))
    return X, (X @ rng.normal(size=d) > 0).astype(int)


def columns_of(path):
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).schema.names


def same(block, wanted):
    found = block if sp.issparse(block) else block.to_scipy_sparse()
    return found.shape == wanted.shape and (found != wanted).nnz == 0


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
@pytest.mark.parametrize("block", ["gcxs", "scipy"])
@pytest.mark.parametrize("dtype", [None, "float64"])
def test_they_come_back_as_they_were(tmp_path, ending, block, dtype):
    X, y = indicators()
    path = tmp_path / f"rows.{ending}"
    write_data(X, y, str(path))
    found, labels = read_data(str(path), block=block, dtype=dtype)
    assert found.dtype == np.dtype(dtype or "float32")
    assert same(found.compute(scheduler="synchronous"), X)
    assert np.array_equal(labels.compute(scheduler="synchronous"), y)


@pytest.mark.parametrize("ones_first", [True, False])
def test_a_file_has_values_only_if_a_block_needs_them(tmp_path, ones_first):
    X, y = indicators()
    ones, both = tmp_path / "ones.arrow", tmp_path / "both.arrow"
    write_data(X, y, str(ones))
    other = X.copy()
    other.data[:] = 0.5
    parts = [X, other] if ones_first else [other, X]
    lazy = dask.array.concatenate(
        [dask.array.from_array(part, chunks=(100, 40), asarray=False) for part in parts]
    )
    write_data(lazy, np.append(y, y), str(both))
    assert columns_of(ones) == ["label", "indices"]
    assert columns_of(both) == ["label", "indices", "values"]
    assert ones.stat().st_size < 0.4 * both.stat().st_size
    found, _ = read_data(str(both), block="scipy")
    assert same(sp.vstack(parts), sp.csr_array(found.compute(scheduler="synchronous")))


@pytest.mark.parametrize("mapped", ["always", "never"])
def test_models_have_the_bits_of_rows_in_memory(tmp_path, mapped):
    X, y = indicators()
    path = tmp_path / "rows.arrow"
    write_data(X, y, str(path))
    lazy, labels = read_data(str(path))
    # rows in files keep the order of their columns, which the order of addition follows
    with dask.config.set({"s3vm.mapped": mapped, "scheduler": "synchronous"}):
        engine = ingest(lazy, labels).place(np.array([0, 1]))
        shards = engine._group.shards
        assert all(is_ones(shard.rows.values) for shard in shards)
        assert all((shard.in_file is not None) == (mapped == "always") for shard in shards)
        engine.close()
        found = L2SVM(lam=1e-2).fit(lazy, labels)
    wanted = L2SVM(lam=1e-2).fit(X, y)
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-9, atol=1e-12)
    if mapped == "never":
        assert np.array_equal(found.coef_, wanted.coef_)
