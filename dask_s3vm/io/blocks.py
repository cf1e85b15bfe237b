"""What all readers have in common: options, blocks, labels, lazy arrays out of tasks."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import dask.array as da
import numpy as np
import sparse
from dask.highlevelgraph import HighLevelGraph
from dask.utils import parse_bytes
from scipy.sparse import csr_array

from dask_s3vm.io.errors import DataFileError
from dask_s3vm.io.svmlight_text import LARGEST_COLUMN

__all__ = [
    "MOST_FEATURES",
    "as_block",
    "check_known",
    "check_options",
    "common_type",
    "empty_block",
    "lazy_array",
    "plain_labels",
    "sorted_labels",
]

#: Column numbers count from 0 and fit an unsigned 32-bit word, with one to spare.
MOST_FEATURES = LARGEST_COLUMN + 1


def check_options(
    *,
    n_features: Any = None,
    block: Any = "gcxs",
    dtype: Any = np.float64,
    blocksize: Any = 1,
) -> None:
    """Refuse options of readers that make no sense.

    Parameters
    ----------
    n_features : int or None
        Number of columns.
    block : {"gcxs", "scipy"}
        Type of sparse blocks.
    dtype : dtype or None
        Type of values.
    blocksize : int or str
        Bytes in one block.

    Raises
    ------
    ValueError
        Which names the option, what it is and what is wanted.
    """
    if n_features is not None and (
        not isinstance(n_features, Integral) or not 1 <= int(n_features) <= MOST_FEATURES
    ):
        raise ValueError(
            f"n_features is {n_features!r}, wanted a whole number above 0 or None, "
            f"at most {MOST_FEATURES}"
        )
    if block not in ("gcxs", "scipy"):
        raise ValueError(f"block is {block!r}, wanted 'gcxs' or 'scipy'")
    if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype is {np.dtype(dtype)}, wanted float32 or float64")
    if parse_bytes(blocksize) < 1:
        raise ValueError(f"blocksize is {blocksize!r}, wanted at least one byte")


def as_block(matrix: csr_array, block: str) -> Any:
    """Return sparse rows as the type of block that was asked for; memory is shared."""
    if block == "scipy":
        return matrix
    parts = (matrix.data, matrix.indices, matrix.indptr)
    return sparse.GCXS(parts, shape=matrix.shape, compressed_axes=(0,))


def empty_block(dtype: Any, block: str) -> Any:
    """Return a block without rows and columns, which tells dask what the others are."""
    return as_block(csr_array((0, 0), dtype=dtype), block)


def lazy_array(
    name: str, tasks: Sequence[Any], rows: Sequence[int], meta: Any, n_features: int | None = None
) -> da.Array:
    """Return a dask array of one task per block of rows.

    Parameters
    ----------
    name : str
        Name of the array in the graph, a different one for different content.
    tasks : sequence of tuples
        The tasks.
    rows : sequence of int
        Rows of each block.
    meta : array
        An empty block.
    n_features : int, optional
        Number of columns; without it the array has one dimension.

    Returns
    -------
    dask.array.Array
        The array.
    """
    tail: tuple[int, ...] = () if n_features is None else (0,)
    graph: dict[Any, Any] = {(name, i, *tail): task for i, task in enumerate(tasks)}
    chunks = (tuple(rows),) if n_features is None else (tuple(rows), (n_features,))
    layers = HighLevelGraph.from_collections(name, graph)
    return da.Array(layers, name, chunks=chunks, meta=meta)


def common_type(names: Sequence[str], types: Sequence[np.dtype | None]) -> np.dtype | None:
    """Return a type for the labels of all files.

    Parameters
    ----------
    names : sequence of str
        The files.
    types : sequence of dtype or None
        Type of the labels of each; None where there are none.

    Returns
    -------
    dtype or None
        The type; None if no file has labels.

    Raises
    ------
    DataFileError
        If only some files have labels, or some have numbers and others strings.
    """
    first = next((kind for kind in types if kind is not None), None)
    if first is None:
        return None
    for name, kind in zip(names, types, strict=True):
        if kind is None:
            raise DataFileError(name, "has no labels, but other files have")
        if _is_text(kind) != _is_text(first):
            raise DataFileError(name, f"has labels of type {kind}, but {names[0]} of {first}")
    return np.result_type(*(kind for kind in types if kind is not None))


def sorted_labels(labels: Any) -> np.ndarray | None:
    """Return the labels that a reader's option `known_labels` allows; None allows any."""
    if labels is None:
        return None
    known = np.unique(np.asarray(labels))
    if known.ndim != 1 or not known.size or known.dtype.kind not in "biufU":
        raise ValueError(f"known_labels is {labels!r}, wanted a list of numbers or of strings")
    return known


def check_known(labels: np.ndarray, known: np.ndarray | None) -> int:
    """Return the number of the first row whose label is not known; -1 if all are."""
    if known is None or not len(labels):
        return -1
    if _is_text(labels.dtype) != _is_text(known.dtype):
        return 0
    own = labels.astype(np.str_) if labels.dtype.kind == "O" else labels
    place = np.minimum(np.searchsorted(known, own), len(known) - 1)
    strange = np.flatnonzero(known[place] != own)
    return int(strange[0]) if strange.size else -1


def plain_labels(labels: Any) -> np.ndarray:
    """Return labels as an array of numbers or of strings; objects become one or the other."""
    labels = np.asarray(labels)
    if labels.dtype.kind == "O":
        kinds = {type(label) for label in labels}
        if not all(issubclass(kind, str) for kind in kinds):
            labels = np.array(labels.tolist())
        else:
            text = labels.astype(np.str_)
            if any(a != b for a, b in zip(text, labels, strict=True)):
                raise ValueError("y has labels that end in a NUL character")
            labels = text
    if labels.ndim != 1 or labels.dtype.kind not in "biufU":
        raise TypeError(
            f"y is of shape {labels.shape} and type {labels.dtype}; wanted one number or string "
            "per row"
        )
    return labels


def _is_text(kind: np.dtype) -> bool:
    return kind.kind in "USO"
