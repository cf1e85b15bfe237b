"""A pass over the training rows after a fit, block by block, with bounded memory.

The pass writes the labels found for the unlabeled rows, and gathers what a report tells about the
rows: the number of rows of each label and a histogram of the outputs. Each block is read once.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

import dask
import numpy as np

from dask_s3vm import _config
from dask_s3vm.cli.predict import Sink
from dask_s3vm.plotting import plot_decision_boundary
from dask_s3vm.reports.record import RunRecord

#: Rows per block if X is in memory.
SLICE = 65_536

#: Rows in a picture of the decision boundary, at most.
MOST_DRAWN = 5000

#: Edges of the histogram of outputs; the margin is from -1 to 1.
EDGES = np.linspace(-20.0, 20.0, 1601)


@dataclass(frozen=True)
class Block:
    """Facts about the rows of a block.

    Attributes
    ----------
    given, found : ndarray of shape (n,)
        Labels in the data, and labels by the model.
    outputs : ndarray of shape (n,) or (n, k)
        Outputs of the model.
    stored : int
        Number of stored entries.
    """

    given: np.ndarray
    found: np.ndarray
    outputs: np.ndarray
    stored: int


@dataclass
class Facts:
    """Facts about all rows.

    Attributes
    ----------
    rows, n_unlabeled : int
        Number of rows, and of rows without a label.
    stored : int
        Number of stored entries.
    labels, found : Counter
        Number of labeled rows of each label, and of unlabeled rows by the label found.
    labeled, unlabeled : ndarray
        Histograms of the outputs over `EDGES`. With k > 2 classes, a row counts k times.
    beyond : int
        Number of outputs outside `EDGES`.
    """

    rows: int = 0
    n_unlabeled: int = 0
    stored: int = 0
    labels: Counter[Any] = field(default_factory=Counter)
    found: Counter[Any] = field(default_factory=Counter)
    labeled: np.ndarray = field(default_factory=lambda: np.zeros(len(EDGES) - 1, np.int64))
    unlabeled: np.ndarray = field(default_factory=lambda: np.zeros(len(EDGES) - 1, np.int64))
    beyond: int = 0


def look_at_rows(estimator: Any, X: Any, y: Any, sink: Sink | None) -> Facts:
    """Go through the rows in order, and gather facts about them.

    Parameters
    ----------
    estimator : estimator
        Fitted on X and y.
    X, y : array
        The training data.
    sink : Sink or None
        Receives the unlabeled rows of each block.

    Costs: one pass over the data, which is read again; the outputs of a few blocks at a time are in
    the memory of this process.
    """
    facts = Facts()
    for block in _blocks(estimator, X, y):
        unlabeled = ~np.isin(block.given, estimator.classes_)
        numbers = facts.rows + np.arange(len(block.given))
        _count(facts, block, unlabeled)
        if sink is not None:
            sink.write(numbers[unlabeled], block.found[unlabeled], block.outputs[unlabeled])
    return facts


def note_rows(record: RunRecord, estimator: Any, X: Any, y: Any, facts: Facts) -> None:
    """Add facts about the rows, and a picture if they have two columns, to the record of a run."""
    record.facts["data"] |= {
        "rows": facts.rows,
        "stored_entries": facts.stored,
        "unlabeled_rows": facts.n_unlabeled,
        "labeled_rows": {str(label): count for label, count in sorted(facts.labels.items())},
    }
    record.facts["shares"] = _shares(estimator, facts)
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


def _shares(estimator: Any, facts: Facts) -> list[dict[str, Any]]:
    """Return the share of each class among the unlabeled rows: expected, and found."""
    if not facts.n_unlabeled:
        return []
    classes, ratio = estimator.classes_.tolist(), getattr(estimator, "positive_ratio_", None)
    expected: list[Any] = [None] * len(classes)
    if ratio is not None:
        expected = [1.0 - ratio, ratio] if np.ndim(ratio) == 0 else np.asarray(ratio).tolist()
    return [
        {"class": label, "expected": share, "predicted": facts.found[label] / facts.n_unlabeled}
        for label, share in zip(classes, expected, strict=True)
    ]


def _count(facts: Facts, block: Block, unlabeled: np.ndarray) -> None:
    facts.rows += len(block.given)
    facts.n_unlabeled += int(unlabeled.sum())
    facts.stored += block.stored
    for counter, labels in (
        (facts.labels, block.given[~unlabeled]),
        (facts.found, block.found[unlabeled]),
    ):
        values, counts = np.unique(labels, return_counts=True)
        counter.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    for histogram, part in ((facts.labeled, ~unlabeled), (facts.unlabeled, unlabeled)):
        outputs = block.outputs[part]
        inside = np.histogram(outputs, EDGES)[0]
        histogram += inside
        facts.beyond += outputs.size - int(inside.sum())


def _blocks(estimator: Any, X: Any, y: Any) -> Iterator[Block]:
    if hasattr(X, "dask"):
        return _lazy_blocks(estimator, X, y)
    return _slices(estimator, X, y)


def _slices(estimator: Any, X: Any, y: Any) -> Iterator[Block]:
    """Yield blocks of rows in memory."""
    y, found = np.asarray(y), getattr(estimator, "transduction_", None)
    for start in range(0, X.shape[0], SLICE):
        part = slice(start, start + SLICE)
        rows = X[part]
        labels = estimator.predict(rows) if found is None else np.asarray(found[part])
        outputs = np.asarray(estimator.decision_function(rows))
        yield Block(y[part], labels, outputs, _stored(rows))


def _lazy_blocks(estimator: Any, X: Any, y: Any) -> Iterator[Block]:
    """Yield the blocks of dask arrays, a few at a time."""
    found = getattr(estimator, "transduction_", None)
    found = estimator.predict(X) if found is None else found
    # graphs are not optimized here: the three arrays must share the tasks that read a block
    parts = [
        array.to_delayed(optimize_graph=False).reshape(-1)
        for array in (X, found, estimator.decision_function(X))
    ]
    tasks = zip(_given_blocks(X, y), *parts, strict=True)
    n_blocks = _blocks_at_a_time()
    while group := [_make_block(*task) for task in islice(tasks, n_blocks)]:
        yield from dask.compute(*group)


def _given_blocks(X: Any, y: Any) -> Iterator[Any]:
    """Yield the given labels of each block of X, as arrays or delayed arrays."""
    if not hasattr(y, "dask"):
        edges = np.cumsum([0, *X.chunks[0]])
        return (y[low:high] for low, high in pairwise(edges))
    if not np.isnan(y.shape[0]) and not np.isnan(X.shape[0]):
        y = y.rechunk((X.chunks[0],))
    return iter(y.to_delayed(optimize_graph=False))


@dask.delayed(pure=False)
def _make_block(given: np.ndarray, rows: Any, found: np.ndarray, outputs: np.ndarray) -> Block:
    return Block(np.asarray(given), np.asarray(found), np.asarray(outputs), _stored(rows))


def _stored(rows: Any) -> int:
    """Return the number of stored entries of a block."""
    return int(rows.nnz if hasattr(rows, "nnz") else rows.size)


def _blocks_at_a_time() -> int:
    """Return the number of blocks to compute at a time: two for each thread."""
    try:
        from distributed import get_client

        return 2 * max(1, sum(get_client().nthreads().values()))
    except ValueError:  # there is no client: threads of this process compute
        return 2 * _config.local_threads()
