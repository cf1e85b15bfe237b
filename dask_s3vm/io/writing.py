"""Writing rows: one file, or a folder with one file per block; all or nothing.

Blocks are encoded in parallel, on the current client's workers or on threads of this process. Files
of a folder are written where their blocks are encoded: in a hidden folder beside the target, which
gets its name when all are there. A single file is written by the client, block after block, so its
bytes travel there: on a cluster, large data should go to a folder.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

from dask_s3vm import _config, interrupts
from dask_s3vm.engine import containers
from dask_s3vm.engine.blocks import narrowed
from dask_s3vm.engine.computing import compute_all, current_client
from dask_s3vm.engine.ingest import aligned_column
from dask_s3vm.io import store
from dask_s3vm.numerics.ones import is_ones, without_ones

__all__ = ["Block", "Kind", "Progress", "RowFormat", "plain_rows", "write_rows"]

#: Called with a line of text, and blocks done and blocks in all.
Progress = Callable[[str, int, int], None]

#: Rows of a block, and their labels if there are any.
Block = tuple[Any, np.ndarray | None]
#: Rows in memory are cut into blocks of about this size.
_BLOCK_BYTES = 32 << 20
#: Most blocks that are encoded before the first of them is written.
_MOST_AT_ONCE = 16


@dataclass(frozen=True)
class Kind:
    """What all blocks have in common; types that are None are not known yet, or not there."""

    n_features: int
    dense: bool
    values: np.dtype | None = None
    labels: np.dtype | None = None

    def joined(self, other: "Kind") -> "Kind":
        """Return a kind whose types hold those of both without loss."""
        kinds = [one.labels for one in (self, other) if one.labels is not None]
        if len({kind.kind == "U" for kind in kinds}) > 1:
            raise TypeError("y has blocks of numbers and blocks of strings; wanted one of them")
        values = [one.values for one in (self, other) if one.values is not None]
        return replace(
            self, values=np.result_type(*values), labels=np.result_type(*kinds) if kinds else None
        )


class RowFormat:
    """How one format encodes and writes blocks; made on the client, used on workers.

    Keyword-only parameters of a subclass are options of `write_data`.

    Attributes
    ----------
    ending : str
        Of the names of files in a folder.
    typed : bool
        Whether all blocks must be of one kind.
    dense : bool or None
        Whether all columns of a row are stored; None: if blocks of X are numpy arrays.
    without_ones : bool
        Whether sparse values that are all 1 are left out; their type is then bool.
    """

    ending: str
    typed = True
    dense: bool | None = None
    without_ones = False

    def __init__(self, name: str) -> None:
        """Take the name of the target."""

    def check(self, labeled: bool, folder: bool) -> None:
        """Refuse what the format cannot hold, before anything is written."""

    def encode(self, rows: Any, labels: np.ndarray | None, kind: Kind) -> Any:
        """Return a block in the form that is written; by default as it is."""
        return rows, labels

    def open(self, url: str, kind: Kind) -> AbstractContextManager[Callable[[Any], Any]]:
        """Open a file, and give a function that writes one encoded block after another."""
        raise NotImplementedError


def write_rows(
    X: Any,
    y: Any,
    url: str,
    form: RowFormat,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write rows and labels in a format; see `dask_s3vm.io.write_data`."""
    is_folder = url.endswith("/")
    url = store.address(url.rstrip("/"))
    if store.exists(url) and not overwrite:
        raise FileExistsError(f"{url} exists already; overwrite=True replaces it")
    dense = form.dense
    if dense is None:
        dense = isinstance(getattr(X, "_meta", X), np.ndarray)
    blocks = _row_blocks(X, y)
    # Text has one type of number: to look for a shorter one that holds all would be in vain.
    kind = Kind(int(X.shape[1]), dense, None if form.typed else np.dtype(np.float64))
    form.check(y is not None, is_folder)
    store.check_writable(url + ".tmp" if is_folder else url)
    run = partial(_in_order, progress=progress, local=not isinstance(X, da.Array))
    if is_folder:
        _write_folder(url, form, kind, blocks, run)
        return
    while True:  # begin again if a later block needs wider types than the first
        try:
            _write_file(url, form, kind, run([(_encode, form, kind, *b) for b in blocks]))
            return
        except _OtherKindError as found:
            kind = found.kind


class _OtherKindError(Exception):
    """A block does not fit the kind that its file was begun with."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self.kind = kind


def _write_file(url: str, form: RowFormat, kind: Kind, encoded: Iterator[Any]) -> None:
    content, own = next(encoded)
    first = own if kind.values is None else kind.joined(own)
    with form.open(url, first) as add:
        add(content)
        for content, own in encoded:
            together = first.joined(own)
            if form.typed and together != first:
                raise _OtherKindError(together)
            add(content)


def _write_folder(
    url: str, form: RowFormat, kind: Kind, blocks: list[Any], run: Callable[..., Iterator[Any]]
) -> None:
    """Write one file per block; those of narrower types than others are written again."""
    folder, slash, name = url.rpartition("/")
    staged = f"{folder}{slash}.{name}.partial"
    urls = [store.join_url(staged, f"part-{i:05d}{form.ending}") for i in range(len(blocks))]
    store.remove_folder(staged)
    store.make_folder(staged)
    try:
        parts = list(zip(urls, blocks, strict=True))
        kinds = list(run([(_write_part, url, form, kind, *block) for url, block in parts]))
        common = reduce(Kind.joined, kinds)
        narrow = [part for part, own in zip(parts, kinds, strict=True) if own != common]
        if form.typed and narrow:
            list(run([(_write_part, url, form, common, *block) for url, block in narrow]))
        for part in urls:
            if not store.exists(part):
                raise OSError(
                    f"a worker wrote {part}, but it is not to be seen from here: write to a file "
                    "system that the client and all workers share"
                )
        store.remove_folder(url)
        store.rename(staged, url)
    finally:
        store.remove_folder(staged)


def _in_order(
    calls: list[tuple[Any, ...]], progress: Progress | None, local: bool
) -> Iterator[Any]:
    """Call functions with their arguments, a few at a time; rows in memory are not sent away."""
    client = None if local else current_client()
    threads = _config.available_cores() if client is None else sum(client.nthreads().values())
    width = max(1, min(threads, _MOST_AT_ONCE))
    # the local scheduler that the user named, or that with threads
    named = dask.config.get("scheduler", None)
    scheduler = named if named in ("sync", "synchronous", "single-threaded") else "threads"
    for low in range(0, len(calls), width):
        interrupts.check()
        few = [dask.delayed(call[0], pure=False)(*call[1:]) for call in calls[low : low + width]]
        results = dask.compute(*few, scheduler=scheduler) if local else compute_all(few)
        for done, result in enumerate(results, low + 1):
            yield result
            if progress is not None:
                progress(f"block {done}", done, len(calls))


def _encode(form: RowFormat, kind: Kind, block: Any, labels: Any) -> tuple[Any, Kind]:
    """Return a block as its format writes it, and its kind; runs on a worker."""
    rows = plain_rows(block, kind)
    plain = None if labels is None else _stored_labels(labels, rows.shape[0], kind.labels)
    own = replace(kind, values=rows.dtype, labels=None if plain is None else plain.dtype)
    may_omit = form.without_ones and not kind.dense and kind.values in (None, np.dtype(bool))
    if may_omit and is_ones(without_ones(rows.data)):
        own = replace(own, values=np.dtype(bool))
    return form.encode(rows, plain, own), own


def _write_part(url: str, form: RowFormat, kind: Kind, block: Any, labels: Any) -> Kind:
    """Write one file of a folder; runs on a worker."""
    content, own = _encode(form, kind, block, labels)
    with form.open(url, own) as add:
        add(content)
    return own


def plain_rows(block: Any, kind: Kind) -> Any:
    """Return a block as ``csr_array`` (or C-ordered matrix) of finite float32 or float64.

    Values are float64 if `kind` says so; else float32 where not a bit is lost. Columns increase in
    each row.
    """
    block = containers.plain_rows(block)
    if block.shape[1] != kind.n_features:
        raise ValueError(f"X has a block of shape {block.shape}, wanted {kind.n_features} columns")
    if block.dtype.kind not in "biuf" or block.dtype.itemsize > 8:
        raise TypeError(f"X has dtype {block.dtype}; wanted real numbers of up to 64 bits")
    if kind.dense:
        dense = block.toarray() if sp.issparse(block) else np.asarray(block)
        return np.ascontiguousarray(_as_wanted(dense, kind.values))
    csr = sp.csr_array(block)
    stored = int(csr.indptr[-1])
    data = _as_wanted(csr.data[:stored], kind.values)
    return sp.csr_array((data, csr.indices[:stored], csr.indptr), shape=csr.shape)


def _as_wanted(values: np.ndarray, wanted: np.dtype | None) -> np.ndarray:
    """Return finite values as float64, or as float32 if that is not wanted and changes none."""
    if values.dtype != np.float32 or wanted == np.float64:
        values = values.astype(np.float64, copy=False)
        values = values if wanted == np.float64 else narrowed(values)
    return _finite(values, "X")


def _stored_labels(labels: Any, rows: int, wanted: np.dtype | None) -> np.ndarray:
    """Return labels as they are stored: finite numbers or strings, as wide as wanted or wider."""
    plain = np.asarray(labels)
    if plain.dtype.kind == "O" and all(issubclass(type(label), str) for label in plain):
        text = plain.astype(np.str_)
        if any(a != b for a, b in zip(text, plain, strict=True)):
            raise ValueError("y has labels that end in a NUL character")
        plain = text
    elif plain.dtype.kind == "O":
        plain = np.array(plain.tolist())
    if plain.ndim != 1 or plain.dtype.kind not in "biufU":
        raise TypeError(
            f"y is of shape {plain.shape} and type {plain.dtype}; wanted one number or string "
            "per row"
        )
    if len(plain) != rows:
        raise ValueError(f"y does not fit X: {rows} rows in a block, and {len(plain)} labels")
    if plain.dtype.kind == "f":
        _finite(plain, "y", ", also as the mark of rows without a label")
    if plain.dtype.kind == "b":
        plain = plain.astype(np.int8)
    if wanted is not None and (wanted.kind == "U") == (plain.dtype.kind == "U"):
        return plain.astype(np.result_type(wanted, plain.dtype), copy=False)
    return plain


def _finite(values: np.ndarray, name: str, more: str = "") -> np.ndarray:
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} contains NaN or infinity; wanted finite numbers only{more}")
    return values


def _row_blocks(X: Any, y: Any) -> list[tuple[Any, Any]]:
    """Return rows and labels of each block, lazy or not."""
    if getattr(X, "ndim", 0) != 2:
        raise ValueError(f"X must be 2-dimensional, got shape {np.shape(X)}")
    if y is not None and np.ndim(y) != 1:
        raise ValueError(f"y must be 1-dimensional, got shape {np.shape(y)}")
    if isinstance(X, da.Array):
        X = X.rechunk({1: -1}) if X.numblocks[1] != 1 else X
        edges = np.cumsum([0, *X.chunks[0]]).tolist()
        # Not optimized one by one: blocks of X and y may come out of the same task.
        rows = X.to_delayed(optimize_graph=False).ravel().tolist()
        column = aligned_column(X, y, "y")
        if column is not None:
            labels = column.to_delayed(optimize_graph=False).ravel().tolist()
            return list(zip(rows, labels, strict=True))
    else:
        edges = _edges(X)
        rows = [X[low:high] for low, high in pairwise(edges)]
        y = y.compute() if isinstance(y, da.Array) else y
    if y is None:
        return [(block, None) for block in rows]
    if np.isnan(X.shape[0]):
        raise ValueError(
            "chunk sizes of X are unknown: call compute_chunk_sizes(), or give y as a dask array "
            "with the same chunks"
        )
    if len(y) != X.shape[0]:
        raise ValueError(f"y does not fit X: X has {X.shape[0]} rows, y has {len(y)} entries")
    return [
        (block, np.asarray(y)[low:high])
        for block, (low, high) in zip(rows, pairwise(edges), strict=True)
    ]


def _edges(X: Any) -> list[int]:
    """Cut rows in memory into blocks of about 32 MiB."""
    n = X.shape[0]
    parts = [X] if isinstance(X, np.ndarray) else [getattr(X, k, None) for k in ("data", "indices")]
    size = sum(getattr(part, "nbytes", 0) for part in parts)
    count = min(max(1, -(-size // _BLOCK_BYTES)), max(n, 1))
    return [n * i // count for i in range(count + 1)]
