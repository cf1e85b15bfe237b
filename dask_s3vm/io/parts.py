"""Rows as they are written: of plain types, and what is to be known of every part."""

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, BinaryIO, Protocol

import numpy as np
import scipy.sparse as sp

from dask_s3vm.io.labels import plain_labels

__all__ = ["Part", "PartFormat", "Shape", "cut_rows", "narrowed", "plain_rows", "stored_labels"]

#: Blocks longer than this are written as several batches.
_BATCH_BYTES = 48 << 20


@dataclass(frozen=True)
class Shape:
    """What all parts of a data set have in common.

    Attributes
    ----------
    n_features : int
        Number of columns.
    dense : bool
        Whether all columns of a row are stored.
    """

    n_features: int
    dense: bool


@dataclass(frozen=True)
class Part:
    """A part that has been written.

    Attributes
    ----------
    name : str
        Its file.
    rows, entries : int
        How many it holds.
    values : str
        Type of the values.
    labels : str or None
        Type of the labels, if there are any.
    more : dict
        What the format wants to know when parts are joined.
    """

    name: str
    rows: int
    entries: int
    values: str
    labels: str | None
    more: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return asdict(self)


class PartFormat(Protocol):
    """How one format writes parts and joins them; made on the client, used on workers.

    typed : whether all parts must have the same types of values and labels.
    ending : of the names of parts.
    """

    typed: bool
    ending: str

    def check(self, shape: Shape, labeled: bool, folder: bool) -> None:
        """Refuse what the format cannot hold, before anything is written."""
        ...

    def write(
        self, stream: BinaryIO, rows: Any, labels: np.ndarray | None, shape: Shape
    ) -> dict[str, Any]:
        """Write one part; return `Part.more`."""
        ...

    def join(self, target: Any, parts: list[Part], staged: Any, shape: Shape) -> None:
        """Write one file of all parts; ``target()`` opens it, ``target(ending)`` one beside it."""
        ...


def plain_rows(block: Any, shape: Shape, values: str | None) -> Any:
    """Return a block as ``csr_array`` (or C-ordered matrix) of finite float32 or float64.

    Parameters
    ----------
    block : array
        numpy, scipy.sparse or `sparse`.
    shape : Shape
        Columns, and whether the result is dense.
    values : str or None
        Type to store; None for float32 where not a bit is lost, else float64.

    Returns
    -------
    scipy.sparse.csr_array or ndarray
        The rows; columns increase in each.
    """
    if type(block).__module__.split(".")[0] == "sparse":
        block = _as_scipy(block)
    if getattr(block, "ndim", 0) != 2 or block.shape[1] != shape.n_features:
        raise ValueError(
            f"X has a block of shape {np.shape(block)}, wanted 2 dimensions and "
            f"{shape.n_features} columns"
        )
    if block.dtype.kind not in "biuf" or block.dtype.itemsize > 8:
        raise TypeError(f"X has dtype {block.dtype}; wanted real numbers of up to 64 bits")
    if shape.dense:
        dense = block.toarray() if sp.issparse(block) else np.asarray(block)
        return np.ascontiguousarray(_finite(narrowed(dense, values)))
    csr = sp.csr_array(block)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    stored = int(csr.indptr[-1])
    data = _finite(narrowed(csr.data[:stored], values))
    return sp.csr_array((data, csr.indices[:stored], csr.indptr), shape=csr.shape)


def stored_labels(labels: Any, rows: int, kind: str | None) -> np.ndarray:
    """Return labels as they are stored: finite numbers, or strings."""
    plain = plain_labels(labels)
    if len(plain) != rows:
        raise ValueError(f"y does not fit X: {rows} rows in a block, and {len(plain)} labels")
    if plain.dtype.kind == "f":
        _finite(plain, "y")
    if plain.dtype.kind == "b":
        plain = plain.astype(np.int8)
    return plain if kind is None else plain.astype(kind, copy=False)


def narrowed(values: np.ndarray, kind: str | None) -> np.ndarray:
    """Return values as `kind`; without it, as float32 where not a bit is lost, else float64."""
    if kind is not None:
        return values.astype(kind, copy=False)
    if values.dtype == np.float32:
        return values
    wide = values.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        short = wide.astype(np.float32)
    return short if np.array_equal(short, wide, equal_nan=True) else wide


def cut_rows(rows: Any) -> list[tuple[int, int]]:
    """Return row ranges of a block, each of at most about 48 MiB."""
    n = rows.shape[0]
    if isinstance(rows, np.ndarray):
        sizes = np.arange(n + 1, dtype=np.int64) * (rows.itemsize * rows.shape[1])
    else:
        sizes = rows.indptr.astype(np.int64) * (4 + rows.data.itemsize)
    count = max(1, -(-int(sizes[-1]) // _BATCH_BYTES))
    cuts = np.searchsorted(sizes, np.linspace(0, int(sizes[-1]), count + 1)[1:-1])
    edges = np.unique([0, *cuts.tolist(), n]).tolist()
    return list(pairwise(edges)) or [(0, 0)]


def _as_scipy(block: Any) -> Any:
    if block.fill_value != 0:
        raise ValueError(f"X has sparse blocks with fill_value {block.fill_value}; wanted 0")
    if getattr(block, "compressed_axes", None) == (0,):
        return sp.csr_array((block.data, block.indices, block.indptr), shape=block.shape)
    return block.tocsr() if hasattr(block, "tocsr") else block.to_scipy_sparse()


def _finite(values: np.ndarray, name: str = "X") -> np.ndarray:
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} contains NaN or infinity; wanted finite numbers only")
    return values
