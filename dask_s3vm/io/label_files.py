"""Labels in a file of their own: text with one label a line, as SVMlin has it, or .npy."""

import os
from typing import Any

import numpy as np

from dask_s3vm.io.sources import find_files

__all__ = ["read_labels"]


def read_labels(path: str | os.PathLike[str]) -> np.ndarray:
    """Read the labels of rows from a file.

    Parameters
    ----------
    path : str or path
        An ``.npy`` file with one number or text per row, or text with one label a line (also
        ``.gz``, ``.bz2`` or ``.xz``). If the first line of a text is a number, all lines must be.

    Returns
    -------
    ndarray of shape (n,)
        int64 if all labels are whole numbers, else float64; text if they are words.

    Raises
    ------
    ValueError
        If a line is empty or not of the kind of the first, with its number; if labels are missing.
    FileNotFoundError
        If the file does not exist.
    """
    name = os.fspath(path)
    (file,) = find_files(path)
    with file.decompressed() as stream:
        if name.lower().endswith(".npy"):
            labels = _from_npy(stream, name)
        else:
            labels = _from_text(stream.read(), name)
    if len(labels) == 0:
        raise ValueError(f"{name} has no labels")
    return labels


def _from_npy(stream: Any, name: str) -> np.ndarray:
    try:
        labels = np.load(stream, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{name} cannot be read as labels: {error}") from None
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "biufU":
        what = f"type {labels.dtype} and shape {labels.shape}" if hasattr(labels, "dtype") else ""
        raise ValueError(f"{name} holds {what or 'no array'}, wanted one number or text per row")
    return _numbers(labels.astype(np.float64), name) if labels.dtype.kind in "biuf" else labels


def _from_text(text: bytes, name: str) -> np.ndarray:
    lines = text.replace(b"\r\n", b"\n").split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        return np.empty(0)
    if _is_number(lines[0]):
        # numpy reads all lines at once; only a file with a mistake is looked at line by line
        try:
            return _numbers(np.array(lines).astype(np.float64), name)
        except ValueError:
            _refuse(lines, name, _is_number, "a number, as the first line is")
            raise
    _refuse(lines, name, lambda line: bool(line.strip()), "a label")
    try:
        return np.array([line.strip().decode() for line in lines])
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not text in UTF-8: {error}") from None


def _is_number(line: bytes) -> bool:
    try:
        return bool(np.isfinite(float(line)))
    except ValueError:
        return False


def _refuse(lines: list[bytes], name: str, is_good: Any, wanted: str) -> None:
    for number, line in enumerate(lines, 1):
        if not is_good(line):
            shown = line[:40].decode(errors="replace")
            raise ValueError(f"{name}, line {number}: got {shown!r}, wanted {wanted}")


def _numbers(values: np.ndarray, name: str) -> np.ndarray:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"{name}: label {bad[0] + 1} is {values[bad[0]]}, wanted a finite number")
    whole = np.equal(np.floor(values), values).all() and np.abs(values).max(initial=0) < 2**53
    return values.astype(np.int64) if whole else values
