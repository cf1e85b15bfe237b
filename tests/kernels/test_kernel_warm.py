"""Kernels are compiled ahead for exactly the types of real shards."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm.engine.blocks import make_block
from dask_s3vm.engine.plan import facts_of, layout_of
from dask_s3vm.engine.shard import build_shard
from dask_s3vm.kernels.passes import _no_rows, warm


@pytest.mark.parametrize("values", ["float32", "float64"])
@pytest.mark.parametrize("columns", ["uint16", "uint32", ""])
def test_rows_to_warm_up_with_are_of_the_type_of_real_ones(columns, values):
    d = 2**16 + (columns == "uint32")
    X = sp.csr_array(([1.5], ([0], [3])), shape=(2, d), dtype=values)
    X = X if columns else X[:, :5].toarray()
    X = X if values == "float32" else X * 0.1  # not to be narrowed
    block = make_block(X)
    layout = layout_of([facts_of(block)], (0, 2), None)
    shard = build_shard(0, 0, layout, [(block, 0, 2)], None, None, (None, None))
    assert numba.typeof(shard.rows) == numba.typeof(_no_rows(columns, values))


@pytest.mark.parametrize("columns", ["uint16", ""])
def test_warming_up_runs_on_no_rows(columns):
    assert warm(columns, "float64") is None
    rows = _no_rows(columns, "float64")
    assert sum(np.size(part) for part in rows) <= 1
