"""The estimated memory of a fit, and when a fit is refused for it."""

import dask
import numpy as np
import pytest
import scipy.sparse as sp

from dask_s3vm.engine import estimate
from dask_s3vm.engine.blocks import make_block
from dask_s3vm.engine.estimate import DataSize, check_room, need, stays_mapped
from dask_s3vm.engine.plan import Facts, facts_of
from dask_s3vm.exceptions import MemoryShortError

GIB = 2**30
TWO = {"a": 1, "b": 1}


def size_of(n_rows, n_entries, width=47_236, value_bytes=4, in_files=False):
    nbytes = n_entries * (2 + value_bytes) + 4 * n_rows
    return DataSize(n_rows, width, n_entries, nbytes, in_files)


def test_sizes_are_those_of_the_arrays():
    X = sp.random_array((300, 50), density=0.2, format="csr", rng=np.random.default_rng(0))
    blocks = [make_block(X[:100]), make_block(X[100:])]
    size = DataSize.of(facts_of(block) for block in blocks)
    assert (size.n_rows, size.n_features, size.n_entries) == (300, 50, X.nnz)
    assert size.nbytes == sum(part.nbytes for block in blocks for part in block.rows)
    assert size.nbytes == X.nnz * (2 + 8) + 4 * 302  # 16-bit columns, float64 that is not narrow
    assert not size.in_files


def test_rows_in_files_are_counted_as_they_would_be_in_memory():
    fact = Facts(10, 1000, 100 + 40, 100 * 8 + 44, True, None, mapped=True)
    size = DataSize.of([fact, fact])
    assert size.in_files
    assert size.nbytes == 2 * (100 * 6 + 44)
    dense = Facts(10, 1000, 10 * 1004, 80_000, False, None, mapped=True)
    assert not DataSize.of([fact, dense]).in_files


def test_needs_on_known_sizes():
    # 800,000 rows of text, 60 million entries: 360 MB and 27 MB of state
    size = size_of(800_000, 60_000_000)
    found = need(size, 34, TWO)
    rows = 60_000_000 * 6 + 3_200_000
    assert found.total == rows + 34 * 800_000
    per_worker = (rows + 34 * 800_000) // 2
    vectors = 8 * 47_237 * 10
    assert found.held == estimate.PROCESS_BYTES + vectors + per_worker
    assert found.peak == found.held + rows // 4
    mapped = need(size, 34, TWO, mapped=True)
    assert mapped.held == mapped.peak
    assert mapped.held == estimate.PROCESS_BYTES + vectors + (4 + 34) * 400_000


def test_the_worker_with_most_threads_is_the_one_that_counts():
    size = size_of(10**6, 10**8)
    even, uneven = need(size, threads=TWO), need(size, threads={"a": 3, "b": 1})
    assert uneven.held - even.held > 0.24 * size.nbytes
    assert need(size).held - estimate.PROCESS_BYTES > size.nbytes


@pytest.mark.parametrize(
    ("how", "in_files", "limit", "wanted"),
    [
        ("auto", True, GIB, True),
        ("auto", True, 16 * GIB, False),
        ("auto", False, GIB, False),
        ("always", True, 16 * GIB, True),
        ("always", False, GIB, False),
        ("never", True, GIB, False),
    ],
)
def test_rows_stay_in_files_where_they_would_not_fit_comfortably(how, in_files, limit, wanted):
    size = size_of(5_000_000, 375_000_000, in_files=in_files)
    with dask.config.set({"s3vm.mapped": how}):
        assert stays_mapped(size, dict.fromkeys(TWO, limit), TWO) is wanted


def test_room_is_enough_short_or_not_there():
    size = size_of(5_000_000, 375_000_000)  # 2.3 GB
    assert check_room(size, dict.fromkeys(TWO, 4 * GIB), TWO, mapped=False) is None
    warning = check_room(size, dict.fromkeys(TWO, 2 * GIB), TWO, mapped=False)
    assert "memory will be short: about 2.0" in warning
    assert "whose limit is 2.00 GiB" in warning
    with pytest.raises(MemoryShortError) as caught:
        check_room(size, {"a": 4 * GIB, "b": GIB}, TWO, mapped=False)
    text = str(caught.value)
    assert "5,000,000 rows with 375,000,000 stored entries need 1.4" in text
    assert "in each of 2 workers, whose memory limit is 1.00 GiB" in text
    assert "more workers" in text
    assert "Arrow file" in text
    assert "float32" not in text
    assert check_room(size, dict.fromkeys(TWO, GIB), TWO, mapped=True) is None
    assert check_room(size, {}, TWO, mapped=False) is None


def test_advice_is_what_can_be_done():
    wide = size_of(5_000_000, 375_000_000, value_bytes=8)
    with pytest.raises(MemoryShortError, match="float32 values"):
        check_room(wide, dict.fromkeys(TWO, GIB), TWO, mapped=False)
    filed = size_of(5_000_000, 375_000_000, in_files=True)
    with pytest.raises(MemoryShortError, match=r"s3vm\.mapped: auto"):
        check_room(filed, dict.fromkeys(TWO, GIB), TWO, mapped=False)
