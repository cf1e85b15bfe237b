"""`dask-s3vm train --dry-run`: estimate memory, rounds and time of a fit without running it."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from dask.utils import format_bytes

from dask_s3vm import _config
from dask_s3vm.cli.output import show
from dask_s3vm.engine import estimate, memory
from dask_s3vm.engine.blocks import make_block, opened, row_count, slice_rows
from dask_s3vm.engine.ingest import is_dask, survey
from dask_s3vm.engine.workers import worker_limits, worker_threads
from dask_s3vm.exceptions import MemoryShortError
from dask_s3vm.kernels import passes
from dask_s3vm.kernels.rows import load_pair, new_pair
from dask_s3vm.labels import Tally, as_labels, find_classes

#: Seconds of a round without its pass, on one machine: with workers (True) and without (False).
LATENCY = {True: 0.004, False: 0.0005}

#: Number of rows for timing a pass.
_TIMED_ROWS = 20_000


def dry_run(estimator: Any, X: Any, y: Any, client: Any, as_json: bool = False) -> None:
    """Read the data once, block by block, and print what a fit would need."""
    row = estimate_fit(estimator, X, y, client)
    show(row if as_json else {name: _words(name, value) for name, value in row.items()}, as_json)


def estimate_fit(estimator: Any, X: Any, y: Any, client: Any) -> dict[str, Any]:
    """Return the estimate: name -> plain number or text."""
    method = estimator.facts
    found = survey(X, y)
    size = _with_kernel(estimate.DataSize.of(found), estimator)
    n_problems = _problem_count(found, y, estimator.unlabeled)
    here = client is None or size.nbytes <= _config.local_bytes()
    if here:
        threads = {"here": _config.local_threads()}
        limits: Mapping[str, int] = {"here": memory.limit_here()}
    else:
        threads = worker_threads(client)
        limits = worker_limits(client, threads)
    mapped = estimate.stays_mapped(size, limits, threads)
    need = estimate.need(size, method.row_bytes, threads, mapped)
    lam = getattr(estimator, "lam", None)
    rounds = method.expected_rounds(1e-3 if lam is None else lam, n_problems)
    passing = size.n_entries * _entry_seconds(X) / sum(threads.values())
    seconds = [count * (passing + LATENCY[not here]) for count in rounds]
    return {
        "rows": size.n_rows,
        "features": size.n_features,
        "nonzeros": size.n_entries,
        "method": method.name,
        "rows_in": "files" if mapped else "memory",
        "workers": 0 if here else len(threads),
        "threads": sum(threads.values()),
        "bytes_of_rows": size.nbytes,
        "bytes_per_worker": need.held,
        "bytes_per_worker_peak": need.peak,
        "bytes_per_worker_limit": min(limits.values()),
        "bytes_in_client": need.held if here else need.client,
        "rounds_expected": list(rounds),
        "seconds_per_pass": passing,
        "seconds_expected": seconds,
        "verdict": _verdict(size, limits, threads, mapped),
    }


def _with_kernel(size: estimate.DataSize, estimator: Any) -> estimate.DataSize:
    """Return the size of the kernel features of the rows."""
    if getattr(estimator, "kernel", "linear") == "linear":
        return size
    width = min(estimator.n_components or size.n_rows, size.n_rows)
    entries = size.n_rows * width
    return replace(size, n_features=width, n_entries=entries, nbytes=8 * entries, in_files=False)


def _problem_count(facts: list[Any], y: Any, mark: Any) -> int:
    """Return the number of problems: one for two classes, else one per class."""
    found = [fact.labels for fact in facts if fact.labels is not None]
    tally = Tally.joined(found or [Tally.of(as_labels(y))])
    n_classes = len(find_classes(tally, mark, supervised=True))
    return int(n_classes) if n_classes > 2 else 1


def _entry_seconds(X: Any) -> float:
    """Return the seconds per stored entry of a pass, timed on the first rows with one thread."""
    first = X.blocks[0].compute() if is_dask(X) else X
    rows = make_block(first[:_TIMED_ROWS], narrow=False).rows
    rows = opened(slice_rows(rows, 0, min(_TIMED_ROWS, row_count(rows))))
    width, n_rows = first.shape[1], row_count(rows)
    stored = rows.indices.size if hasattr(rows, "indices") else rows.size
    pair = new_pair(rows, width)
    load_pair(rows, pair, np.ones(width + 1))
    every, cost = np.arange(n_rows, dtype=np.uint32), np.zeros(n_rows)
    times = []
    for _ in range(4):  # the first one compiles
        began = time.perf_counter()
        passes.gram(rows, every, cost, pair, 1.0)
        times.append(time.perf_counter() - began)
    return min(times) / max(stored, 1)


def _verdict(
    size: estimate.DataSize, limits: Mapping[str, int], threads: Mapping[str, int], mapped: bool
) -> str:
    try:
        return estimate.check_room(size, limits, threads, mapped) or "fits"
    except MemoryShortError as error:
        return str(error)


def _words(name: str, value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(_words(name, each) for each in value)
    if name.startswith("bytes"):
        return format_bytes(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else value
