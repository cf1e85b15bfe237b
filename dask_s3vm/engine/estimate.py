"""What a fit needs: an estimate of memory, made from the size of the data alone.

A worker holds its share of the rows and of the rows' state, a few vectors of length d per thread,
and itself. While shards are built, the blocks that they are made of are there as well, and
conjugate gradients keep a copy of the active rows where these are few. The constants below were
measured as peaks of the resident set of worker processes; the estimate is meant to be right
within a quarter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from dask.utils import format_bytes

from dask_s3vm import _config
from dask_s3vm.engine.blocks import column_type
from dask_s3vm.engine.plan import Facts
from dask_s3vm.exceptions import MemoryShortError

#: Bytes per row that methods keep beside the row, labels and outputs above all: least and usual.
LEAST_STATE, USUAL_STATE = 9, 38

#: A worker that has compiled kernels in memory and no rows.
PROCESS_BYTES = 360 * 2**20

#: Rows that are there once more at the worst time: blocks beside shards, packed active rows.
EXTRA_ROWS = 0.5

#: Vectors of length d at a time in a worker: per thread, and beside.
_VECTORS = 4, 6

#: Vectors of length d in the client: those of the solver, and answers on their way.
_CLIENT_VECTORS = 24

#: Mapped rows are left in their file if the estimate is above this share of the workers' limits.
COMFORTABLE = 0.6

#: Warn beyond this share of the limit, where dask pauses a worker; refuse beyond that one, a bit
#: more than where dask ends it.
WARNED, REFUSED = 0.8, 1.0


@dataclass(frozen=True)
class DataSize:
    """Size of the rows of a fit.

    nbytes : of the rows in memory, as shards hold them.
    in_files : whether they can stay in mapped files.
    """

    n_rows: int
    n_features: int
    n_entries: int
    nbytes: int
    in_files: bool

    @classmethod
    def of(cls, facts: Iterable[Facts]) -> "DataSize":
        """Add up the facts of all blocks."""
        facts = list(facts)
        n_rows = sum(fact.n_rows for fact in facts)
        width = facts[0].n_features
        same_kind = len({fact.sparse for fact in facts if fact.n_rows}) == 1
        in_files = same_kind and all(fact.mapped for fact in facts)
        n_entries = sum(fact.cost for fact in facts) - 4 * n_rows
        nbytes = sum(fact.nbytes for fact in facts)
        if in_files and facts[0].sparse:  # files have 32-bit column numbers
            nbytes -= n_entries * (4 - np.dtype(column_type(width)).itemsize)
        return cls(n_rows, width, n_entries, nbytes, in_files)


@dataclass(frozen=True)
class Need:
    """Bytes that a fit needs.

    Attributes
    ----------
    held : in the worker with most rows, while it trains: with less, the fit is not possible.
    peak : likewise, at the worst time.
    total : rows and their state over all workers.
    client : vectors and labels in the client.
    """

    held: int
    peak: int
    total: int
    client: int


def need(
    size: DataSize,
    state_bytes: int = USUAL_STATE,
    threads: Mapping[str, int] | None = None,
    mapped: bool = False,
) -> Need:
    """Estimate what a fit needs.

    Parameters
    ----------
    size : the data.
    state_bytes : what the method keeps per row, beside the row.
    threads : threads of each worker, by which rows are shared out; None for one of one thread.
    mapped : whether the rows stay in files: then only where each begins is held.
    """
    most = max(threads.values()) if threads else 1
    share = most / sum(threads.values()) if threads else 1.0
    rows = 4 * size.n_rows if mapped else size.nbytes
    state = state_bytes * size.n_rows
    per_thread, beside = _VECTORS
    vectors = 8 * (size.n_features + 1) * (per_thread * most + beside)
    held = PROCESS_BYTES + vectors + share * (rows + state)
    peak = held if mapped else held + share * EXTRA_ROWS * size.nbytes
    client = PROCESS_BYTES + 8 * _CLIENT_VECTORS * (size.n_features + 1) + 2 * size.n_rows
    return Need(int(held), int(peak), int(rows + state), int(client))


def stays_mapped(size: DataSize, limits: Mapping[str, int], threads: Mapping[str, int]) -> bool:
    """Whether rows should be left in the files that they are views of; see `s3vm.mapped`."""
    wanted = _config.mapped()
    if not size.in_files or wanted == "never":
        return False
    least = min(limits.values(), default=0)
    return wanted == "always" or need(size, threads=threads).peak > COMFORTABLE * least


def check_room(
    size: DataSize, limits: Mapping[str, int], threads: Mapping[str, int], mapped: bool
) -> str | None:
    """Refuse data that would surely end a worker; returns a warning where it may.

    Sure is what a fit holds all the time, by the method that holds least beside the rows, in the
    worker with the least memory, beyond its limit: dask ends it at 95 %. To be warned of is an
    estimated peak beyond 80 %, where dask pauses it.
    """
    if not limits:
        return None
    least = min(limits.values())
    sure = need(size, LEAST_STATE, threads, mapped)
    if sure.held > REFUSED * least:
        raise MemoryShortError(
            f"the rows do not fit: {size.n_rows:,} rows with {size.n_entries:,} stored entries "
            f"need {format_bytes(sure.held)} in each of {len(limits)} workers, whose memory limit "
            f"is {format_bytes(least)}. {_advice(size, mapped)}"
        )
    likely = need(size, USUAL_STATE, threads, mapped)
    if likely.peak > WARNED * least:
        return (
            f"memory will be short: about {format_bytes(likely.peak)} are needed in each of "
            f"{len(limits)} workers at times, whose limit is {format_bytes(least)}. "
            f"{_advice(size, mapped)}"
        )
    return None


def _advice(size: DataSize, mapped: bool) -> str:
    ways = ["more workers or more memory for each"]
    if not mapped and size.in_files:
        ways.append("`s3vm.mapped: auto`, to leave the rows in their files")
    elif not mapped:
        ways.append("an Arrow file (`dask-s3vm convert`), whose rows need not be in memory")
        if size.nbytes > 8 * size.n_entries:
            ways.append("float32 values")
    return "What helps: " + "; ".join(ways)
