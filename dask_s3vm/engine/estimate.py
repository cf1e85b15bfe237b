"""An estimate of the memory that a fit needs, from the size of the data alone.

A worker needs memory for its share of the rows and of the row state, for a few vectors of length d
per thread, and for the process itself. While shards are built, the blocks that they are built from
are in memory too; conjugate gradients keep a copy of the active rows if these are few. The
constants below were measured as peaks of the resident set of worker processes. The estimate is
meant to be right within a quarter.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from dask.utils import format_bytes

from dask_s3vm import _config
from dask_s3vm.engine.blocks import column_type
from dask_s3vm.engine.plan import Facts
from dask_s3vm.exceptions import MemoryShortError

#: Bytes of row state per row, mostly labels and outputs: of the method with least, and as a rule.
LEAST_STATE, USUAL_STATE = 9, 38

#: Memory of a worker that has loaded compiled kernels and holds no rows.
PROCESS_BYTES = 360 * 2**20

#: Share of the rows that exists twice at the peak: blocks and shards, or copies of active rows.
EXTRA_ROWS = 0.5

#: Vectors of length d in a worker: per thread, and in addition.
_VECTORS = 4, 6

#: Vectors of length d in the client: those of the solver, and results that arrive.
_CLIENT_VECTORS = 24

#: With `s3vm.mapped: auto`, rows stay in their files if the estimated peak exceeds this share of
#: the smallest memory limit.
COMFORTABLE = 0.6

#: Shares of the memory limit. A peak beyond the first causes a warning: dask pauses a worker there.
#: A need beyond the second is refused: dask terminates a worker a little earlier.
WARNED, REFUSED = 0.8, 1.0


@dataclass(frozen=True)
class DataSize:
    """Size of the rows of a fit.

    n_rows, n_features, n_entries : shape, and number of stored entries.
    nbytes : size of the rows in memory, as shards hold them.
    in_files : whether the rows can stay in mapped files.
    """

    n_rows: int
    n_features: int
    n_entries: int
    nbytes: int
    in_files: bool

    @classmethod
    def of(cls, facts: Iterable[Facts]) -> "DataSize":
        """Sum the facts of all blocks."""
        facts = list(facts)
        n_rows = sum(fact.n_rows for fact in facts)
        width = facts[0].n_features
        same_kind = len({fact.sparse for fact in facts if fact.n_rows}) == 1
        in_files = same_kind and all(fact.mapped for fact in facts)
        n_entries = sum(fact.cost for fact in facts) - 4 * n_rows
        nbytes = sum(fact.nbytes for fact in facts)
        if in_files and facts[0].sparse:  # column numbers have 32 bits in files, maybe 16 in memory
            nbytes -= n_entries * (4 - np.dtype(column_type(width)).itemsize)
        return cls(n_rows, width, n_entries, nbytes, in_files)


@dataclass(frozen=True)
class Need:
    """Bytes that a fit needs.

    Attributes
    ----------
    held : in the worker with most rows, throughout the training; the least that a fit needs.
    peak : in the worker with most rows, at the peak.
    total : of rows and row state, over all workers.
    client : in the client: the process, vectors and labels.
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
    """Estimate the memory that a fit needs.

    Parameters
    ----------
    size : the size of the rows.
    state_bytes : bytes of row state per row.
    threads : threads of each worker; rows are divided in proportion. None for one worker with one
        thread.
    mapped : whether the rows stay in files; then only their row pointers are in memory.
    """
    most = max(threads.values()) if threads else 1
    share = most / sum(threads.values()) if threads else 1.0
    rows = 4 * size.n_rows if mapped else size.nbytes
    state = state_bytes * size.n_rows
    per_thread, extra = _VECTORS
    vectors = 8 * (size.n_features + 1) * (per_thread * most + extra)
    held = PROCESS_BYTES + vectors + share * (rows + state)
    peak = held if mapped else held + share * EXTRA_ROWS * size.nbytes
    client = PROCESS_BYTES + 8 * _CLIENT_VECTORS * (size.n_features + 1) + 2 * size.n_rows
    return Need(int(held), int(peak), int(rows + state), int(client))


def stays_mapped(size: DataSize, limits: Mapping[str, int], threads: Mapping[str, int]) -> bool:
    """Decide whether rows stay in the files that they are views of; see `s3vm.mapped`."""
    wanted = _config.mapped()
    if not size.in_files or wanted == "never":
        return False
    least = min(limits.values(), default=0)
    return wanted == "always" or need(size, threads=threads).peak > COMFORTABLE * least


def check_room(
    size: DataSize, limits: Mapping[str, int], threads: Mapping[str, int], mapped: bool
) -> str | None:
    """Refuse rows that cannot fit; return a warning if they may not fit, else None.

    Refused: even the method with least row state would, throughout the training, need more than the
    smallest memory limit of a worker (dask terminates a worker at 95 %). Warned of: the estimated
    peak is beyond 80 % of that limit, where dask pauses a worker.
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
            f"memory will be short: about {format_bytes(likely.peak)} are needed at the peak in "
            f"each of {len(limits)} workers, whose limit is {format_bytes(least)}. "
            f"{_advice(size, mapped)}"
        )
    return None


def _advice(size: DataSize, mapped: bool) -> str:
    ways = ["more workers or more memory for each"]
    if not mapped and size.in_files:
        ways.append("`s3vm.mapped: auto`, to leave the rows in their files")
    elif not mapped:
        ways.append("an Arrow file (`dask-s3vm convert`), whose rows can stay in the file")
        if size.nbytes > 8 * size.n_entries:
            ways.append("float32 values")
    return "What helps: " + "; ".join(ways)
