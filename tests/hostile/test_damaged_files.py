"""Damaged files: no crash, no hang, no silent acceptance of garbage, no memory taken on trust.

Each reader is fed some hundred files, or files for `DASK_S3VM_FUZZ_SECONDS`.
"""

import multiprocessing
import os
import sys
from pathlib import Path

import pytest
from waiting import LIMIT, receive

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from fuzz import tell  # noqa: E402
from targets import TARGETS  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")

#: Files for each reader: what takes about a second.
FILES = {
    "svmlight": 250,
    "svmlight-gz": 400,
    "npz": 1000,
    "npy": 500,
    "arrow": 250,
    "parquet": 250,
    "csv": 150,
    "csv-gz": 150,
    "parquet-tables": 150,
    "feather-tables": 150,
    "models": 800,
    "states": 1000,
    "configs": 200,
    "certificates": 100,
    "searches": 500,
}


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_refused_or_read_right(name):
    seconds = os.environ.get("DASK_S3VM_FUZZ_SECONDS")
    amount = (FILES[name], 0.0) if seconds is None else (None, float(seconds))
    context = multiprocessing.get_context("forkserver")  # what it imports: tests/conftest.py
    ours, theirs = context.Pipe()
    process = context.Process(target=tell, args=(theirs, name, 1, *amount), daemon=True)
    process.start()
    try:
        counts = receive(ours, process, LIMIT + amount[1])
    finally:
        process.kill()
        process.join()
    assert isinstance(counts, dict), counts
    print(counts)
    assert "refused without a word" not in counts
    assert counts["refused"] > 0, "no file was damaged enough: the harness is at fault"
