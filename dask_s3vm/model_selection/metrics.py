"""Scores of predictions in memory or in dask arrays, computed in one pass.

The metrics of scikit-learn load whole dask arrays into memory. These count the pairs of true and
predicted classes block by block. Use `LazyScorer` as `scoring` of a search whose test set is a dask
array.
"""

import itertools
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np

__all__ = ["SCORES", "LazyScorer", "accuracy", "balanced_accuracy", "confusion_counts", "f1"]


def confusion_counts(y_true: Any, y_pred: Any) -> tuple[np.ndarray, np.ndarray]:
    """Count the pairs of a true and a predicted label.

    Parameters
    ----------
    y_true, y_pred : arrays of shape (n,), numpy or dask

    Returns
    -------
    labels : ndarray of shape (k,)
        Labels that occur, ascending.
    counts : ndarray of shape (k, k)
        Number of rows by true label (row) and predicted label (column).

    Costs: one computation of both; k^2 numbers from each block.
    """
    if not isinstance(y_true, da.Array) and not isinstance(y_pred, da.Array):
        parts = [_count_pairs(np.asarray(y_true), np.asarray(y_pred))]
    else:
        parts = _count_blocks(y_true, y_pred)
    labels = np.unique(np.concatenate([part[0] for part in parts]))
    if not len(labels):
        raise ValueError("y_true and y_pred are empty; wanted at least one row")
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for own, block in parts:
        place = np.searchsorted(labels, own)
        counts[np.ix_(place, place)] += block
    return labels, counts


def _count_blocks(y_true: Any, y_pred: Any) -> Any:
    """Count the pairs of corresponding blocks."""
    if not isinstance(y_pred, da.Array):
        y_true, y_pred = y_pred, y_true  # the blocks are those of the dask array
        flip = True
    else:
        flip = False
    blocks = list(y_pred.to_delayed().ravel())
    if isinstance(y_true, da.Array):
        if not np.isnan([*y_true.shape, *y_pred.shape]).any():
            _check_shapes(y_true.shape, y_pred.shape)
        if y_true.numblocks != y_pred.numblocks or not np.isnan(y_true.shape[0]):
            y_true = y_true.rechunk(y_pred.chunks)
        others = list(y_true.to_delayed().ravel())
    else:
        if np.isnan(y_pred.shape[0]):
            y_pred = y_pred.compute_chunk_sizes()
        y_true = np.asarray(y_true)
        _check_shapes(y_true.shape, y_pred.shape)
        edges = np.cumsum([0, *y_pred.chunks[0]])
        others = [y_true[a:b] for a, b in itertools.pairwise(edges)]
    count = dask.delayed(_count_pairs, pure=False)
    pairs = zip(blocks, others, strict=True) if flip else zip(others, blocks, strict=True)
    return dask.compute(*(count(true, predicted) for true, predicted in pairs))


def _check_shapes(true: tuple[int, ...], predicted: tuple[int, ...]) -> None:
    if true != predicted or len(true) != 1:
        raise ValueError(
            f"of y_true and y_pred, one has shape {true} and one {predicted}; wanted one label "
            "per row in both"
        )


def _count_pairs(y_true: np.ndarray, y_pred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _check_shapes(y_true.shape, y_pred.shape)
    labels, codes = np.unique(np.concatenate([y_true, y_pred]), return_inverse=True)
    true, predicted = codes[: len(y_true)], codes[len(y_true) :]
    k = len(labels)
    return labels, np.bincount(true * k + predicted, minlength=k * k).reshape(k, k)


def accuracy(y_true: Any, y_pred: Any) -> float:
    """Return the share of rows whose class is predicted correctly."""
    _, counts = confusion_counts(y_true, y_pred)
    return float(np.trace(counts) / counts.sum())


def balanced_accuracy(y_true: Any, y_pred: Any) -> float:
    """Return the mean over the classes of the share of rows predicted correctly (recall)."""
    _, counts = confusion_counts(y_true, y_pred)
    sizes = counts.sum(axis=1)
    occurs = sizes > 0
    return float(np.mean(np.diagonal(counts)[occurs] / sizes[occurs]))


def f1(y_true: Any, y_pred: Any, positive: Any = None) -> float:
    """Return F1 = 2 hits / (predicted + true) of the class `positive`; None: mean over classes."""
    labels, counts = confusion_counts(y_true, y_pred)
    each = 2.0 * np.diagonal(counts) / (counts.sum(axis=0) + counts.sum(axis=1))
    if positive is None:
        return float(each.mean())
    if positive not in labels.tolist():
        raise ValueError(f"positive={positive!r} is not among the labels {labels.tolist()}")
    return float(each[labels.tolist().index(positive)])


#: Scores by name, for `LazyScorer`.
SCORES: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "f1_macro": f1,
}


class LazyScorer:
    """A scorer `(model, X, y) -> score` for rows that may be a dask array.

    Parameters
    ----------
    name : {"accuracy", "balanced_accuracy", "f1_macro"}
        The score.
    """

    def __init__(self, name: str) -> None:
        if name not in SCORES:
            raise ValueError(f"name must be one of {sorted(SCORES)}, got {name!r}")
        self.name = name

    def __call__(self, model: Any, X: Any, y: Any) -> float:
        """Score a fitted model."""
        return SCORES[self.name](y, model.predict(X))

    def __repr__(self) -> str:
        return f"LazyScorer({self.name!r})"
