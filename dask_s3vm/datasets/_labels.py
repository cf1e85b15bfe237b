"""Hide labels, to turn a supervised problem into a semi-supervised one.

Every row has a key, a hash of the seed and its number. The row of smallest key of each class keeps
its label, and so do the other rows of smallest key, up to the number of labels. A chunk needs two
things to find its part: the rows that are kept for their class, and a bound for the keys of others.
"""

import math
import numbers
from collections.abc import Iterable
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np

from dask_s3vm.datasets._sampling import check_count, check_seed, row_keys, stream_seed
from dask_s3vm.labels import AUTO, as_labels, mark_for
from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.random import row_key

_KEYS = 2**64


class _Choice(NamedTuple):
    seed: np.uint64
    bound: np.uint64  # rows with smaller keys are kept
    always: tuple[int, ...]  # rows kept whatever their keys


def hide_labels(y: Any, n_labeled: int, *, unlabeled: Any = AUTO, random_state: int = 0) -> Any:
    """Keep some labels, chosen at random, and hide all others.

    Every class keeps at least one label.

    Parameters
    ----------
    y : array_like or dask.array.Array
        Labels, one-dimensional, numbers or strings, none of them missing or equal to `unlabeled`.
    n_labeled : int
        Number of labels to keep, at least the number of classes.
    unlabeled : number or str, default "auto"
        Value of the hidden entries; "auto": -1 for integers, NaN for floating-point numbers, "" for
        strings, None for objects, as the estimators read them.
    random_state : int, default 0
        Seed. Which rows keep their labels does not depend on the chunks.

    Returns
    -------
    numpy.ndarray or dask.array.Array
        Labels of the same type as `y`, with the same chunks if it is a dask array. A dask array is
        computed once, block by block, to find the classes; the result is lazy.
    """
    n_labeled = check_count("n_labeled", n_labeled)
    seed = stream_seed(check_seed(random_state), "labels")
    if not isinstance(y, da.Array):
        y = np.asarray(y)
    _check_labels(y, n_labeled)
    dtype = y.dtype
    unlabeled = _as_label(mark_for(dtype, unlabeled), dtype)
    if dtype.kind in "US":  # wide enough for the mark
        dtype = np.result_type(dtype, np.asarray(unlabeled))
    first = _first_rows(y, seed)
    _check_classes(first, n_labeled, unlabeled)
    if n_labeled == y.shape[0]:
        return y.copy()
    choice = _choose(seed, y.shape[0], n_labeled, tuple(sorted(first.values())))
    if isinstance(y, np.ndarray):
        return _hide(y, 0, choice, unlabeled)
    return y.map_blocks(
        _hide_block,
        choice=choice,
        unlabeled=unlabeled,
        dtype=dtype,
        meta=np.empty(0, dtype),
    )


def _check_labels(y: Any, n_labeled: int) -> None:
    if y.ndim != 1:
        raise ValueError(f"y must be one-dimensional, got {y.ndim} dimensions")
    if y.dtype.kind not in "iufUSO":
        raise TypeError(f"y must hold numbers or strings, got {y.dtype}")
    if math.isnan(y.shape[0]):
        raise ValueError(
            "y must have known chunk sizes, got unknown ones: call y.compute_chunk_sizes() first"
        )
    if n_labeled > y.shape[0]:
        raise ValueError(f"n_labeled must be at most the {y.shape[0]} rows of y, got {n_labeled}")


def _as_label(unlabeled: Any, dtype: np.dtype) -> Any:
    """Return `unlabeled` as a scalar of the dtype of the labels, if it is representable."""
    if dtype.kind == "O":
        return unlabeled
    if dtype.kind in "US":
        words = unlabeled if isinstance(unlabeled, bytes) else str(unlabeled)
        return np.asarray(words, dtype=dtype.kind)[()]
    if isinstance(unlabeled, numbers.Real):
        # A value that does not fit wraps around or warns; the comparison finds it.
        with np.errstate(all="ignore"):
            label = np.asarray(unlabeled).astype(dtype)[()]
        if label == unlabeled or (np.isnan(label) and math.isnan(unlabeled)):
            return label
    raise ValueError(f"unlabeled must be a number that {dtype} can hold, got {unlabeled!r}")


def _first_rows(y: Any, seed: np.uint64) -> dict[Any, int]:
    """Return the row of smallest key of every class."""
    if isinstance(y, np.ndarray):
        parts: Iterable[Any] = [_first_of_block(y, 0, seed)]
    else:
        starts = np.concatenate([[0], np.cumsum(y.chunks[0])[:-1]]).tolist()
        search = dask.delayed(_first_of_block, pure=True)
        parts = dask.compute(
            *[search(part, at, seed) for part, at in zip(y.to_delayed(), starts, strict=True)]
        )
    best: dict[Any, tuple[int, int]] = {}
    for part in parts:
        for label, candidate in part.items():
            best[label] = min(best.get(label, candidate), candidate)
    return {label: row for label, (_, row) in best.items()}


def _first_of_block(block: np.ndarray, start: int, seed: np.uint64) -> dict[Any, tuple[int, int]]:
    """Return the smallest key of every class of a block, and its row."""
    if block.dtype.kind == "O":
        block = as_labels(block)
    keys = row_keys(seed, start, start + len(block))
    order = np.argsort(keys)
    labels, first = np.unique(block[order], return_index=True)
    rows = order[first]
    return {
        label.item(): (int(keys[row]), start + int(row))
        for label, row in zip(labels, rows, strict=True)
    }


def _check_classes(classes: Iterable[Any], n_labeled: int, unlabeled: Any) -> None:
    known = list(classes)
    if any(label != label for label in known):
        raise ValueError("y must hold no NaN, got at least one")
    if "" in known or b"" in known:
        raise ValueError("y must hold no missing label, got at least one")
    if unlabeled in known:
        raise ValueError(
            f"y must not hold the value of unlabeled, got {unlabeled}: choose another `unlabeled`"
        )
    if n_labeled < len(known):
        raise ValueError(
            f"n_labeled must be at least the number of classes in y, {len(known)}, got {n_labeled}"
        )


def _choose(seed: np.uint64, n_rows: int, n_labeled: int, always: tuple[int, ...]) -> _Choice:
    """Find the bound of the kept keys: the key of the first row that is hidden."""
    rest = n_labeled - len(always)
    kept = np.array([row_key(seed, row) for row in always], np.uint64)
    others = np.setdiff1d(_smallest_keys(seed, n_rows, n_labeled + 1), kept)
    return _Choice(seed, others[rest], always)


def _smallest_keys(seed: np.uint64, n_rows: int, wanted: int) -> np.ndarray:
    """Return at least the `wanted` smallest keys without holding those of all rows."""
    # Six standard deviations above the mean: a second pass is almost never needed.
    aim = wanted + 6 * math.sqrt(wanted) + 20
    while aim < n_rows:
        keys = _keys_below(seed, n_rows, np.uint64(int(aim / n_rows * _KEYS)))
        if len(keys) >= wanted:
            return keys
        aim *= 2
    return row_keys(seed, 0, n_rows)


@kernel
def _keys_below(seed: np.uint64, n_rows: int, bound: np.uint64) -> np.ndarray:
    found = 0
    for row in range(n_rows):
        found += row_key(seed, row) < bound
    keys = np.empty(found, np.uint64)
    found = 0
    for row in range(n_rows):
        key = row_key(seed, row)
        if key < bound:
            keys[found] = key
            found += 1
    return keys


def _hide(block: np.ndarray, start: int, choice: _Choice, unlabeled: Any) -> np.ndarray:
    keep = row_keys(choice.seed, start, start + len(block)) < choice.bound
    always = np.array(choice.always, np.int64) - start
    keep[always[(always >= 0) & (always < len(block))]] = True
    return np.where(keep, block, unlabeled)


def _hide_block(
    block: np.ndarray, choice: _Choice, unlabeled: Any, block_info: Any = None
) -> np.ndarray:
    return _hide(block, int(block_info[0]["array-location"][0][0]), choice, unlabeled)
