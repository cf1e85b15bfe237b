"""One shard: consecutive rows, their labels and weights, and their row state during a fit.

`Shard` is what operations work on. `build_shard` assembles one from parts of blocks, on the process
that will hold it.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_s3vm.engine import memory
from dask_s3vm.engine.blocks import (
    Block,
    aligned,
    as_sparse,
    frozen,
    load_rows,
    opened,
    renumber_columns,
    row_count,
    slice_rows,
    stack_rows,
)
from dask_s3vm.engine.column_scale import ColumnScale
from dask_s3vm.engine.mapped import MappedRows
from dask_s3vm.engine.operations import operation
from dask_s3vm.kernels.rows import CSR, Rows, load_pair, new_pair, pair_halves, pair_output
from dask_s3vm.labels import of_kind
from dask_s3vm.numerics.ones import is_ones

if TYPE_CHECKING:
    from dask_s3vm.engine.plan import Layout

_scratch = threading.local()


@dataclass(eq=False)
class Shard:
    """Rows `first_row` to `first_row + n_rows` of the data.

    Attributes
    ----------
    number : position among all shards, which fixes the order of addition.
    first_row : global number of the first row.
    n_features : number of internal columns (see `plan.Layout`).
    rows : the rows, read-only; columns may be renumbered.
    codes : class number of each row, -1 where unlabeled; None without labels.
    weights : sample weights; None if all are 1.
    state : row state of the problems that are being solved, by name (see `operations`).
    in_file : location of the rows, if they are views of a memory-mapped file.
    """

    number: int
    first_row: int
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
        """Mask of the rows that have no label and a positive weight."""
        assert self.codes is not None, "the shard was built without labels"
        mask = self.codes < 0
        return mask if self.weights is None else mask & (self.weights > 0)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays in memory; rows in a file do not count."""
        rows = self.rows if self.in_file is None else self.in_file.indptr
        arrays = _arrays_in([rows, self.codes, self.weights, *self.state.values()])
        return sum({id(array): array.nbytes for array in arrays if not is_ones(array)}.values())

    def __sizeof__(self) -> int:
        """Return the true size, for dask."""
        return object.__sizeof__(self) + self.nbytes

    def __getstate__(self) -> dict[str, Any]:
        """Pickle everything except rows in a file."""
        return {**self.__dict__, "rows": None} if self.in_file else self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle: map the file again; copy arrays that arrived at unaligned addresses."""
        self.__dict__.update(state)
        if self.in_file is not None:
            self.rows = self.in_file.open()
        elif isinstance(self.rows, CSR):
            self.rows = CSR(*(frozen(aligned(part)) for part in self.rows))
        else:
            self.rows = frozen(aligned(self.rows))

    def pair(self, v: np.ndarray | float) -> np.ndarray:
        """Return the pair buffer of this thread, loaded with `v`, for a kernel over the rows.

        Each thread has one buffer: a second call overwrites the result of the first.
        """
        width, sparse = self.n_features, isinstance(self.rows, CSR)
        buffers = _scratch.__dict__.setdefault("buffers", {})
        pair = buffers.get(sparse)
        if pair is None or pair.size != 2 * (width + 1):
            pair = buffers[sparse] = new_pair(self.rows, width)
        load_pair(self.rows, pair, v)
        return pair

    def take(self, pair: np.ndarray) -> np.ndarray:
        """Copy the vector that a kernel has accumulated in a pair buffer."""
        return pair_output(self.rows, pair)

    def take_both(self, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copy both vectors that a kernel has accumulated, the output half first."""
        source, out = pair_halves(self.rows, pair)
        return out.copy(), source.copy()

    def may_copy(self, share: float) -> bool:
        """Whether there is memory to copy this share of the rows; always true of rows in memory."""
        return self.in_file is None or memory.room_for_copy(int(share * self.in_file.nbytes))

    def release_pages(self) -> None:
        """Release the pages of the file after a pass, if memory is short."""
        if self.in_file is not None and memory.crowded():
            self.in_file.release()


#: Where `hold_out` keeps the weights that it replaced.
_GIVEN = "given_weights"


def shared(shard: Shard) -> Shard:
    """Return the same rows with row state of their own: none, except which rows are held out."""
    kept = {_GIVEN: shard.state[_GIVEN]} if _GIVEN in shard.state else {}
    return replace(shard, state=kept)


def drop_state(shard: Shard) -> None:
    """Drop all row state, and restore the weights that `hold_out` replaced."""
    if _GIVEN in shard.state:
        (shard.weights,) = shard.state[_GIVEN]
    shard.state.clear()


@operation(sets="held out")
def hold_out(shard: Shard, rows: np.ndarray) -> None:
    """Give some rows weight 0, as if they were absent; all others get their original weight.

    rows : global row numbers, ascending.
    """
    (given,) = shard.state.setdefault(_GIVEN, (shard.weights,))
    low, high = np.searchsorted(rows, (shard.first_row, shard.first_row + shard.n_rows))
    weights = np.ones(shard.n_rows) if given is None else given.copy()
    weights[rows[low:high] - shard.first_row] = 0.0
    shard.weights = weights


@dataclass(frozen=True)
class Piece:
    """Rows `low` to `high` of block number `block`: a part of a shard."""

    block: int
    low: int
    high: int


def build_shard(
    number: int,
    first_row: int,
    layout: "Layout",
    parts: list[tuple[Block, int, int]],
    classes: np.ndarray | None,
    position: np.ndarray | None,
    columns: tuple[np.ndarray | None, np.ndarray | None],
    own: bool = True,
    scale: ColumnScale | None = None,
) -> Shard:
    """Assemble a shard from parts of blocks.

    Parameters
    ----------
    number, first_row : see `Shard`.
    layout : how the data is divided into shards.
    parts : (block, first row, end row) of each part, in order.
    classes : sorted class labels, to encode labels that are part of the blocks.
    position : new number of each column, or None to keep the numbers.
    columns : class numbers and weights, each None where the blocks hold it.
    own : whether to share no memory with the blocks, so that these can be released.
    scale : of the columns, or None to keep the values.
    """
    found = [slice_rows(block.rows, low, high) for block, low, high in parts]
    in_file = found[0] if layout.mapped and isinstance(found[0], MappedRows) else None
    rows = in_file.open() if in_file else _assembled(found, layout, position, own, scale)
    codes, weights = columns
    if codes is None and classes is not None:
        labels = _joined([block.labels for block, _, _ in parts], parts)
        codes = None if labels is None else encode(labels, classes)
    if weights is None:
        weights = _joined([block.weights for block, _, _ in parts], parts)
    return Shard(number, first_row, layout.n_features, rows, codes, weights, in_file=in_file)


def encode(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the class number of each label; -1 for values that are no class: unlabeled rows."""
    labels = of_kind(labels, classes.dtype.kind)
    small = np.int8 if len(classes) <= 127 else np.int32
    place = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[place] == labels, place, -1).astype(small)


def _assembled(
    found: list[Rows | MappedRows],
    layout: "Layout",
    position: np.ndarray | None,
    own: bool,
    scale: ColumnScale | None,
) -> Rows:
    """Concatenate the parts in memory."""
    pieces = [load_rows(rows, layout.n_features_in) if own else opened(rows) for rows in found]
    if layout.sparse:  # all of them: only the columns of sparse rows can be renumbered
        pieces = [as_sparse(piece) for piece in pieces]
    rows = stack_rows(pieces)
    if scale is not None:
        assert not isinstance(rows, CSR), "only columns of dense rows are scaled"
        return frozen(scale.of_rows(rows))
    if position is not None and isinstance(rows, CSR):
        rows = renumber_columns(rows, position)
    if own and len(pieces) == 1 and not isinstance(found[0], MappedRows):
        rows = _copied(rows)
    return rows


def _copied(rows: Rows) -> Rows:
    if isinstance(rows, CSR):
        return CSR(*(part if is_ones(part) else frozen(part.copy()) for part in rows))
    return frozen(rows.copy())


def _joined(
    columns: list[np.ndarray | None], parts: list[tuple[Block, int, int]]
) -> np.ndarray | None:
    """Concatenate the entries of the parts; None if a block has none."""
    if any(column is None for column in columns):
        return None
    cut = [column[low:high] for column, (_, low, high) in zip(columns, parts, strict=True)]  # type: ignore[index]
    return np.concatenate(cut)


def _arrays_in(value: Any) -> Iterator[np.ndarray]:
    """Yield all arrays in nested tuples and lists, and in the row state of lanes."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Shard):
        yield from _arrays_in([value.weights, *value.state.values()])
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _arrays_in(part)
