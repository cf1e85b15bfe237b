"""One more look at the training rows after a fit: block by block, with bounded memory.

What is wanted of them - the labels found, a histogram of outputs, how many rows have which label -
comes from one pass, in which a block is read once for all.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

import dask
import numpy as np

from dask_s3vm import _config
from dask_s3vm.cli.found import Sink
from dask_s3vm.plotting import plot_decision_boundary
from dask_s3vm.reports.record import RunRecord

#: Rows at a time where all of them are in memory.
SLICE = 65_536

#: Rows in a picture of the plane, at most.
MOST_DRAWN = 5000

#: Edges of the histogram of outputs, in units of the margin; what is beyond is counted apart.
EDGES = np.linspace(-20.0, 20.0, 1601)


@dataclass(frozen=True)
class Block:
    """Some rows: their given labels, the labels found, and the outputs (n,) or (n, k)."""

    given: np.ndarray
    found: np.ndarray
    outputs: np.ndarray
    stored: int


@dataclass
class Facts:
    """What was seen of the rows.

    labels : rows of each label. n_unlabeled : rows without one. stored : entries that are stored.
    labeled, unlabeled : histograms of outputs over `EDGES`; with several rows of weights, a row
        counts once for each. beyond : outputs outside of them.
    """

    rows: int = 0
    n_unlabeled: int = 0
    stored: int = 0
    labels: Counter[Any] = field(default_factory=Counter)
    labeled: np.ndarray = field(default_factory=lambda: np.zeros(len(EDGES) - 1, np.int64))
    unlabeled: np.ndarray = field(default_factory=lambda: np.zeros(len(EDGES) - 1, np.int64))
    beyond: int = 0


def look_at_rows(estimator: Any, X: Any, y: Any, sink: Sink | None) -> Facts:
    """Go through the rows in their order.

    Parameters
    ----------
    estimator : fitted on X and y.
    X, y : the training data.
    sink : takes the unlabeled rows of each block, if there is one.

    Costs: one pass over the data, which are read again; outputs of a few blocks at a time are here.
    """
    facts = Facts()
    for block in _blocks(estimator, X, y):
        open_rows = ~np.isin(block.given, estimator.classes_)
        numbers = facts.rows + np.arange(len(block.given))
        _count(facts, block, open_rows)
        if sink is not None:
            sink.write(numbers[open_rows], block.found[open_rows], block.outputs[open_rows])
    return facts


def note_rows(record: RunRecord, estimator: Any, X: Any, y: Any, facts: Facts) -> None:
    """Keep what was seen of the rows in the record of a run."""
    record.facts["data"] |= {
        "rows": facts.rows,
        "stored_entries": facts.stored,
        "unlabeled_rows": facts.n_unlabeled,
        "labeled_rows": {str(label): count for label, count in sorted(facts.labels.items())},
    }
    used = np.flatnonzero(facts.labeled + facts.unlabeled)
    low, high = (used[0], used[-1] + 1) if len(used) else (0, 0)
    record.facts["outputs"] = {
        "edges": EDGES[low : high + 1],
        "labeled": facts.labeled[low:high],
        "unlabeled": facts.unlabeled[low:high],
        "beyond": facts.beyond,
    }
    if X.shape[1] == 2:
        rows, labels = dask.compute(X[:MOST_DRAWN], y[:MOST_DRAWN])
        mark = estimator.unlabeled
        record.pictures["boundary"] = lambda ax: plot_decision_boundary(
            estimator, rows, labels, unlabeled=mark, ax=ax
        )


def _count(facts: Facts, block: Block, open_rows: np.ndarray) -> None:
    facts.rows += len(block.given)
    facts.n_unlabeled += int(open_rows.sum())
    facts.stored += block.stored
    values, counts = np.unique(block.given[~open_rows], return_counts=True)
    facts.labels.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    for counts, part in ((facts.labeled, ~open_rows), (facts.unlabeled, open_rows)):
        outputs = block.outputs[part]
        inside = np.histogram(outputs, EDGES)[0]
        counts += inside
        facts.beyond += outputs.size - int(inside.sum())


def _blocks(estimator: Any, X: Any, y: Any) -> Iterator[Block]:
    if hasattr(X, "dask"):
        return _lazy_blocks(estimator, X, y)
    return _slices(estimator, X, y)


def _slices(estimator: Any, X: Any, y: Any) -> Iterator[Block]:
    y, found = np.asarray(y), getattr(estimator, "transduction_", None)
    for start in range(0, X.shape[0], SLICE):
        part = slice(start, start + SLICE)
        rows = X[part]
        labels = estimator.predict(rows) if found is None else np.asarray(found[part])
        outputs = np.asarray(estimator.decision_function(rows))
        yield Block(y[part], labels, outputs, _stored(rows))


def _lazy_blocks(estimator: Any, X: Any, y: Any) -> Iterator[Block]:
    """Blocks of dask arrays, a few at a time."""
    found = getattr(estimator, "transduction_", None)
    found = estimator.predict(X) if found is None else found
    # not optimized one by one: the tasks that read a block must stay common to all three
    parts = [
        array.to_delayed(optimize_graph=False).reshape(-1)
        for array in (X, found, estimator.decision_function(X))
    ]
    tasks = zip(_given_blocks(X, y), *parts, strict=True)
    at_a_time = _at_a_time()
    while group := [_see(*task) for task in islice(tasks, at_a_time)]:
        yield from dask.compute(*group)


def _given_blocks(X: Any, y: Any) -> Iterator[Any]:
    """Given labels of each block of X, lazy or not."""
    if not hasattr(y, "dask"):
        edges = np.cumsum([0, *X.chunks[0]])
        return (y[low:high] for low, high in pairwise(edges))
    if not np.isnan(y.shape[0]) and not np.isnan(X.shape[0]):
        y = y.rechunk((X.chunks[0],))
    return iter(y.to_delayed(optimize_graph=False))


@dask.delayed(pure=False)
def _see(given: np.ndarray, rows: Any, found: np.ndarray, outputs: np.ndarray) -> Block:
    return Block(np.asarray(given), np.asarray(found), np.asarray(outputs), _stored(rows))


def _stored(rows: Any) -> int:
    """Entries of a block that are stored."""
    return int(rows.nnz if hasattr(rows, "nnz") else rows.size)


def _at_a_time() -> int:
    """Blocks under way at a time: enough to keep everyone busy."""
    try:
        from distributed import get_client

        return 2 * max(1, sum(get_client().nthreads().values()))
    except ValueError:  # no client: threads of this process
        return 2 * _config.local_threads()
