"""The two passes over tables: what the pieces of the files hold, and their rows."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import dask
import numpy as np
import pyarrow as pa

from dask_s3vm.engine.computing import current_client
from dask_s3vm.engine.containers import as_block
from dask_s3vm.features.table_columns import CellError, codes_of, whole
from dask_s3vm.features.table_encoder import TableEncoder
from dask_s3vm.features.table_facts import Facts, MixedColumnError, agreed
from dask_s3vm.features.table_labels import LabelCode
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.sources import attempt_all, look_through, text_lengths
from dask_s3vm.io.table_files import WORDS, Span, TableFile, Wanted, told_table

__all__ = ["Found", "Task", "locate_words", "settled", "survey"]

#: Columns of a table that are kept once they were read, in bytes.
KEPT = 256 << 20

#: Type that a csv column of a kind is read as; dates have several, with a time zone or without.
_TYPES = {"number": pa.float64(), "category": WORDS, "text": pa.string()}


@dataclass(frozen=True)
class Piece:
    """Rows of one file.

    `kept` holds their columns or, once these were encoded, rows and labels; or nothing, as in other
    processes, which read them again.
    """

    file: TableFile
    span: Span
    rows: int
    kept: list[Any] = field(default_factory=list, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "kept": []}


class Found(NamedTuple):
    """What the first pass found in a piece.

    There are `facts` of the features without a fitted encoder, and with one numbers of `unknown`
    categories.
    """

    piece: Piece
    labels: Facts
    facts: list[Facts]
    unknown: dict[str, int]

    def error(self, cell: CellError) -> TableError:
        """Return the error of a cell, with its place in the file."""
        return self.piece.file.error(self.piece.span, cell)


@dataclass(frozen=True)
class Task:
    """What every piece of a table is looked through for, and read for.

    `fitted` tells whether the encoder was fitted before. `target` is the label column, which a file
    may be without, `code` are the labels, if they are known, and `mark` is that of rows without
    label, in the second pass.
    """

    encoder: TableEncoder
    features: tuple[str, ...]
    fitted: bool
    block: str
    target: str | None
    code: LabelCode | None
    mark: Any = None

    def wanted(self, file: TableFile) -> Wanted:
        """Return what is read of a file."""
        encoder = self.encoder
        columns = [*self.features, *([self.target] if self.target in file.names else [])]
        if hasattr(encoder, "kinds_"):
            kinds = dict(zip(self.features, encoder.kinds_, strict=True))
        else:
            kinds = {name: encoder.role_of(name) for name in self.features}
        types = {name: _TYPES[kind] for name, kind in kinds.items() if kind in _TYPES}
        types |= {} if self.target is None else {self.target: WORDS}
        return Wanted(columns, types, encoder.max_categories)

    # The first pass

    def look(
        self, may_keep: Callable[[int], bool] | None, file: TableFile, span: Any
    ) -> Found | None:
        """Look through a part of a file; the error of its first wrong row is raised."""
        where, table = file.look(span, self.wanted(file))
        if not table.num_rows:
            return None
        errors, labels, facts, unknown = [], Facts(gap=0), [], {}
        try:
            if self.target in table.column_names:
                labels = self._facts_of_labels(table)
        except CellError as error:
            errors.append(error)
        try:
            rows = table.select(self.features)
            if self.fitted:
                unknown = self.encoder.check_rows(rows)
            else:
                facts = self.encoder.facts_of(rows)
        except CellError as error:
            errors.append(error)
        if errors:
            raise file.error(where, min(errors, key=lambda error: error.row)) from None
        kept = [table] if may_keep is not None and may_keep(table.nbytes) else []
        return Found(Piece(file, where, table.num_rows, kept), labels, facts, unknown)

    def _facts_of_labels(self, table: pa.Table) -> Facts:
        assert self.target is not None, "there is a label column"
        column = whole(table.column(self.target), self.target)
        if self.code is not None:
            words = self.code.words
            codes, missing = codes_of(column, words, self.encoder.null_values)
            if (strange := (codes < 0) & ~missing).any():
                row = int(strange.argmax())
                shown = ", ".join(words[:8]) + (", ..." if len(words) > 8 else "")
                reason = f"the label is {str(column[row])!r}, which is not one of {shown}"
                raise CellError(row, self.target, reason)
        return self.encoder.facts_of_words(column, self.target)

    def facts_of_words(self, piece: Piece, names: list[str]) -> list[Facts]:
        """Return the facts of columns of a piece, read as words."""
        wanted = Wanted(names, dict.fromkeys(names, WORDS), self.encoder.max_categories)
        table = piece.file.read(piece.span, wanted)
        return [self.encoder.facts_of_words(whole(table.column(name)), name) for name in names]

    # The second pass

    def read(self, piece: Piece) -> tuple[Any, np.ndarray | None]:
        """Return rows and labels of a piece of a file."""
        kept = piece.kept[0] if piece.kept else None
        if isinstance(kept, tuple):
            return kept
        try:
            table = piece.file.read(piece.span, self.wanted(piece.file)) if kept is None else kept
            if table.num_rows != piece.rows:
                raise ValueError(f"{table.num_rows} rows, expected {piece.rows}")
            rows, _ = self.encoder.encode(table.select(self.features))
            found = as_block(rows, self.block), self._labels(table)
        except ValueError as error:
            reason = f"has changed since it was surveyed: {error}"
            raise TableError(piece.file.name, reason) from error
        piece.kept[:] = [found] * len(piece.kept)
        return found

    def _labels(self, table: pa.Table) -> np.ndarray | None:
        if self.code is None:
            return None
        if self.code.name not in table.column_names:
            codes = np.full(table.num_rows, -1, dtype=np.int32)
        else:
            column = whole(table.column(self.code.name))
            codes, _ = codes_of(column, self.code.words, self.encoder.null_values)
        return self.code.decode(codes, self.mark)


class _Budget:
    """Bytes that may be kept; tasks of several threads take from it."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Tell whether so many bytes are left, and take them."""
        with self._lock:
            fits = size <= self._left
            self._left -= size if fits else 0
            return fits


def survey(files: Sequence[TableFile], task: Task, blocksize: int) -> list[Found]:
    """Look through all files, in parallel on the user's scheduler.

    TableError is that of the first row of the first file that is not as it should be; or of a file
    without rows.
    """
    local = current_client() is None and dask.config.get("scheduler", None) != "processes"
    look = partial(task.look, _Budget(KEPT).take if local else None)
    lengths = text_lengths([file.file for file in files], told_table)
    spans = [file.spans(n, blocksize) for file, n in zip(files, lengths, strict=True)]
    groups = look_through(files, spans, look, TableError)
    return [found for group in groups for found in group]


def settled(parts: list[Found], task: Task) -> list[Facts]:
    """Put the facts of all pieces together.

    A column of a csv file may look like numbers in some pieces, and be words in others: there its
    words are read again, as they are written.
    """
    numbers = range(len(task.features))
    mixed = [i for i in numbers if len({part.facts[i].kind for part in parts} - {None}) > 1]
    if mixed:
        names = [task.features[i] for i in mixed]
        shared = dask.delayed(task.facts_of_words, traverse=False)
        calls = [(shared, part.piece, names) for part in parts]
        for part, facts in zip(parts, attempt_all(calls), strict=True):
            part.piece.kept.clear()
            for i, fact in zip(mixed, facts, strict=True):
                part.facts[i] = fact
    return [agreed([part.facts[i] for part in parts]) for i in numbers]


def locate_words(error: MixedColumnError, parts: list[Found]) -> TableError:
    """Return the error of a column of numbers and words with the first row that has a word."""
    wanted = Wanted([error.column], {error.column: WORDS}, 0)
    for part in parts:
        cell = error.cell_of(part.piece.file.read(part.piece.span, wanted))
        if cell is not None:
            return part.error(cell)
    return TableError(parts[0].piece.file.name, str(error))
