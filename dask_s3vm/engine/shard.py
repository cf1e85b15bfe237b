"""One shard: consecutive rows, their labels and weights, and per-row state of a fit."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_s3vm.engine import memory
from dask_s3vm.engine.blocks import (
    Block,
    aligned,
    as_sparse,
    brought_in,
    frozen,
    opened,
    renumber_columns,
    row_count,
    slice_rows,
    stack_rows,
)
from dask_s3vm.engine.mapped import MappedRows
from dask_s3vm.engine.operations import operation
from dask_s3vm.kernels.rows import CSR, Rows, load_pair, new_pair, pair_output

if TYPE_CHECKING:
    from dask_s3vm.engine.plan import Layout

_scratch = threading.local()


@dataclass(eq=False)
class Shard:
    """Rows `start` to `start + n_rows` of the data, resident in one process.

    Attributes
    ----------
    number : position among all shards, which fixes the order of addition.
    rows : the rows, read-only; columns may be renumbered (see `plan.Layout`).
    codes : class number of each row, -1 where unlabeled; None without labels.
    weights : sample weights, or None for ones.
    state : per-row arrays of the problems that are being solved, by name.
    in_file : where the rows lie, if they are views of a file.
    """

    number: int
    start: int
    n_features: int
    rows: Rows
    codes: np.ndarray | None = None
    weights: np.ndarray | None = None
    state: dict[str, Any] = field(default_factory=dict)
    in_file: MappedRows | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return row_count(self.rows)

    @property
    def unlabeled(self) -> np.ndarray:
        """Which rows have no label, and a weight that is not 0."""
        assert self.codes is not None, "the rows came without labels"
        mask = self.codes < 0
        return mask if self.weights is None else mask & (self.weights > 0)

    @property
    def nbytes(self) -> int:
        """Bytes in arrays that are in memory."""
        rows = self.rows if self.in_file is None else self.in_file.indptr
        held = [rows, self.codes, self.weights, *self.state.values()]
        return sum({id(array): array.nbytes for array in _arrays_in(held)}.values())

    def __sizeof__(self) -> int:
        """Tell dask what the shard really weighs."""
        return object.__sizeof__(self) + self.nbytes

    def __getstate__(self) -> dict[str, Any]:
        """Take along everything but rows that can be found in their file."""
        return {**self.__dict__, "rows": None} if self.in_file else self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore; arrays that came over the wire are brought to aligned memory."""
        self.__dict__.update(state)
        if self.in_file is not None:
            self.rows = self.in_file.open()
        elif isinstance(self.rows, CSR):
            self.rows = CSR(*(frozen(aligned(part)) for part in self.rows))
        else:
            self.rows = frozen(aligned(self.rows))

    def pair(self, v: np.ndarray | float) -> np.ndarray:
        """Return this thread's pair buffer, loaded with `v`, for a kernel over the rows.

        There is one per thread: a second call writes over what the first gave.
        """
        width, sparse = self.n_features, isinstance(self.rows, CSR)
        buffers = _scratch.__dict__.setdefault("buffers", {})
        pair = buffers.get(sparse)
        if pair is None or pair.size != 2 * (width + 1):
            pair = buffers[sparse] = new_pair(self.rows, width)
        load_pair(self.rows, pair, v)
        return pair

    def rest(self) -> None:
        """After a pass: let go of the file's pages if memory is short."""
        if self.in_file is not None and memory.crowded():
            self.in_file.release()

    def may_copy(self, share: float) -> bool:
        """Whether a copy of such a share of the rows fits; it always does where they are held."""
        return self.in_file is None or memory.room_for_copy(int(share * self.in_file.nbytes))

    def take(self, pair: np.ndarray) -> np.ndarray:
        """Copy what a kernel has added up in a pair buffer."""
        return pair_output(self.rows, pair)


def drop_state(shard: Shard) -> None:
    """Let go of the row state of problems, and of rows being held out."""
    if "given_weights" in shard.state:
        (shard.weights,) = shard.state["given_weights"]
    shard.state.clear()


@operation(sets="held out")
def hold_out(shard: Shard, rows: np.ndarray) -> None:
    """Give some rows weight 0, which is as if they were not there; all others have their own.

    rows : their numbers among all rows of the data, ascending.
    """
    (given,) = shard.state.setdefault("given_weights", (shard.weights,))
    low, high = np.searchsorted(rows, (shard.start, shard.start + shard.n_rows))
    weights = np.ones(shard.n_rows) if given is None else given.copy()
    weights[rows[low:high] - shard.start] = 0.0
    shard.weights = weights


def _arrays_in(held: Any) -> Iterator[np.ndarray]:
    """All arrays in nested tuples and lists."""
    if isinstance(held, np.ndarray):
        yield held
    elif isinstance(held, (list, tuple)):
        for part in held:
            yield from _arrays_in(part)


@dataclass(frozen=True)
class Piece:
    """Rows `low` to `high` of block number `block`: a part of a shard."""

    block: int
    low: int
    high: int


def build_shard(
    number: int,
    start: int,
    layout: "Layout",
    parts: list[tuple[Block, int, int]],
    classes: np.ndarray | None,
    position: np.ndarray | None,
    columns: tuple[np.ndarray | None, np.ndarray | None],
    own: bool = True,
) -> Shard:
    """Assemble a shard from parts of blocks.

    Parameters
    ----------
    number, start : see `Shard`.
    layout : how all of the data lies in shards.
    parts : (block, first row, end row) of each part, in order.
    classes : encodes labels that came with the blocks.
    position : new numbers of the columns, or None.
    columns : class numbers and weights that did not come with the blocks.
    own : share no memory with the blocks, so that they can be let go.
    """
    found = [slice_rows(block.rows, low, high) for block, low, high in parts]
    in_file = found[0] if layout.mapped and isinstance(found[0], MappedRows) else None
    rows = in_file.open() if in_file else _assembled(found, layout, position, own)
    codes, weights = columns
    if codes is None and classes is not None:
        labels = _joined([block.labels for block, _, _ in parts], parts)
        codes = None if labels is None else encode(labels, classes)
    if weights is None:
        weights = _joined([block.weights for block, _, _ in parts], parts)
    return Shard(number, start, layout.n_features, rows, codes, weights, in_file=in_file)


def _assembled(
    found: list[Rows | MappedRows], layout: "Layout", position: np.ndarray | None, own: bool
) -> Rows:
    """Put rows together in memory."""
    pieces = [brought_in(rows, layout.n_features) if own else opened(rows) for rows in found]
    if layout.sparse:  # the columns of sparse rows may be renumbered: no dense ones among them
        pieces = [as_sparse(piece) for piece in pieces]
    rows = pieces[0] if len(pieces) == 1 else stack_rows(pieces)
    if position is not None and isinstance(rows, CSR):
        rows = renumber_columns(rows, position)
    if own and len(pieces) == 1 and not isinstance(found[0], MappedRows):
        rows = _copied(rows)
    return rows


def encode(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Class numbers of labels; -1 for a value that is no class, the mark of unlabeled rows."""
    if classes.dtype.kind in "US":  # a block of marks alone may have come as numbers
        labels = labels.astype(classes.dtype.kind)
    small = np.int8 if len(classes) <= 127 else np.int32
    place = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[place] == labels, place, -1).astype(small)


def _copied(rows: Rows) -> Rows:
    if isinstance(rows, CSR):
        return CSR(*(frozen(part.copy()) for part in rows))
    return frozen(rows.copy())


def _joined(
    columns: list[np.ndarray | None], parts: list[tuple[Block, int, int]]
) -> np.ndarray | None:
    if any(column is None for column in columns):
        return None
    cut = [column[low:high] for column, (_, low, high) in zip(columns, parts, strict=True)]  # type: ignore[index]
    return np.concatenate(cut)
