"""Labels of several files or blocks: one type for all, and only those that are known."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dask_s3vm.io.errors import DataFileError

__all__ = ["check_known", "common_type", "plain_labels", "sorted_labels"]


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
