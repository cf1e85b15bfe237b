"""Copied and stacked rows, with at most as many entries as 32 bits can count."""

import numpy as np
import pytest

from dask_s3vm.engine import blocks
from dask_s3vm.kernels.rows import CSR


@pytest.fixture
def rows():
    indptr = np.arange(0, 9, 2, dtype=np.uint32)
    return CSR(indptr, np.tile(np.array([0, 1], dtype=np.uint32), 4), np.arange(8.0))


def test_copies_and_stacks_are_the_rows(rows):
    chosen = blocks.copy_rows(rows, np.array([3, 1], dtype=np.uint32))
    assert chosen.values.tolist() == [6.0, 7.0, 2.0, 3.0]
    stacked = blocks.stack_rows([rows, chosen])
    assert stacked.indptr.tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert stacked.values.tolist() == [*range(8), 6.0, 7.0, 2.0, 3.0]


def test_more_entries_than_can_be_counted_are_refused(rows, monkeypatch):
    monkeypatch.setattr(blocks, "MAX_ENTRIES", 8)
    with pytest.raises(ValueError, match="16 stored entries are too many"):
        blocks.stack_rows([rows, rows])
    with pytest.raises(ValueError, match="8 stored entries are too many"):
        blocks.copy_rows(rows, np.arange(4, dtype=np.uint32))
