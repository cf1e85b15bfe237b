"""The first pass over tables: rows, kinds of columns, categories, ranges, and every mistake."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dask
import pyarrow as pa

from dask_s3vm.engine.computing import current_client
from dask_s3vm.features.table_columns import CellError, MixedColumnError, codes_of, whole
from dask_s3vm.features.table_encoder import TableEncoder
from dask_s3vm.features.table_facts import Facts, agreed
from dask_s3vm.features.table_labels import LabelCode
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.sources import DataFile, attempt_all, look_through, text_lengths
from dask_s3vm.io.table_files import WORDS, Span, TableFile, Types, told_table

__all__ = ["Finding", "Piece", "Task", "locate_words", "settled", "survey"]

#: Columns of a table that are kept once they were read, in bytes.
KEPT = 256 << 20

#: Type that a csv column of a kind is read as.
_TYPES = {
    "number": pa.float64(), "date": pa.timestamp("us"), "category": WORDS, "text": pa.string()
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """What every piece of a table is looked through for, and read for.

    Attributes
    ----------
    encoder : TableEncoder
        The encoder; `fitted` tells whether it was fitted before.
    features : tuple of str
        Its columns.
    target : str or None
        The label column, which a file may be without.
    code : LabelCode or None
        The labels, if they are known.
    mark : object
        The mark of rows without label, in the second pass.
    """

    encoder: TableEncoder
    features: tuple[str, ...]
    target: str | None
    code: LabelCode | None
    fitted: bool
    mark: Any = None

    def wanted(self, file: TableFile) -> tuple[list[str], Types, int]:
        """Return what is read of a file: columns, types of csv as far as known, most categories."""
        encoder = self.encoder
        columns = [*self.features, *([self.target] if self.target in file.names else [])]
        if hasattr(encoder, "kinds_"):
            kinds = dict(zip(self.features, encoder.kinds_, strict=True))
        else:
            kinds = {name: encoder.role_of(name) for name in self.features}
        types = {name: _TYPES[kind] for name, kind in kinds.items() if kind != "auto"}
        types |= {} if self.target is None else {self.target: WORDS}
        return columns, types, encoder.max_categories


@dataclass(frozen=True)
class Piece:
    """Rows of one file.

    Attributes
    ----------
    file : TableFile
        The file.
    span : tuple of int
        Where in the file.
    rows : int
        How many.
    kept : list
        The columns themselves, or nothing; other processes read them again.
    """

    file: TableFile
    span: Span
    rows: int
    kept: list[pa.Table] = field(default_factory=list, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "kept": []}


@dataclass(frozen=True)
class Finding:
    """What a piece holds.

    Attributes
    ----------
    piece : Piece
        Where it is.
    facts : list of Facts
        Of the features; none with a fitted encoder.
    labels : Facts
        Of the labels.
    unknown : dict of str to int
        Values of unknown categories, with a fitted encoder.
    """

    piece: Piece
    facts: list[Facts]
    labels: Facts
    unknown: dict[str, int]


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


def survey(files: Sequence[TableFile], task: Task, blocksize: int) -> list[Finding]:
    """Look through all files, in parallel on the user's scheduler.

    Raises
    ------
    TableError
        For the first row of the first file that is not as it should be; if a file has no rows.
    """
    local = current_client() is None and dask.config.get("scheduler", None) != "processes"
    look = partial(_look, task, _Budget(KEPT) if local else None)
    lengths = text_lengths([file.file for file in files], _length)
    spans = [file.spans(n, blocksize) for file, n in zip(files, lengths, strict=True)]
    groups = look_through(files, spans, look, TableError)
    for file, group in zip(files, groups, strict=True):
        if all(found.piece.kept for found in group):
            file.file.release()
    return [found for group in groups for found in group]


def _length(file: DataFile) -> int:
    with told_table(file.name):
        return file.length()


def _look(task: Task, budget: _Budget | None, file: TableFile, span: Any) -> Finding | None:
    """Look through a part of a file."""
    where, table = file.look(span, *task.wanted(file))
    if not table.num_rows:
        return None
    piece = Piece(file, where, table.num_rows)
    try:
        found = _look_at(piece, table, task)
    except CellError as error:
        raise file.error(where, error) from None
    if budget is not None and budget.take(table.nbytes):
        piece.kept.append(table)
    return found


def _look_at(piece: Piece, table: pa.Table, task: Task) -> Finding:
    """Note what some rows hold."""
    encoder, errors = task.encoder, []
    labels = Facts(gap=0)
    facts: list[Facts] = []
    unknown: dict[str, int] = {}
    if task.target in table.column_names:
        try:
            labels = _look_at_labels(table, task)
        except CellError as error:
            errors.append(error)
    try:
        rows = table.select(task.features)
        if task.fitted:
            unknown = encoder.check_rows(rows)
        else:
            facts = encoder.facts_of(rows)
    except CellError as error:
        errors.append(error)
    if errors:
        raise min(errors, key=lambda error: error.row)
    return Finding(piece, facts, labels, unknown)


def _look_at_labels(table: pa.Table, task: Task) -> Facts:
    assert task.target is not None, "there is a label column"
    column = whole(table.column(task.target))
    if task.code is not None:
        words = task.code.words
        codes, missing = codes_of(column, words, task.encoder.null_values)
        if (strange := (codes < 0) & ~missing).any():
            row = int(strange.argmax())
            shown = ", ".join(words[:8]) + (", ..." if len(words) > 8 else "")
            reason = f"the label is {str(column[row])!r}, which is not one of {shown}"
            raise CellError(row, task.target, reason)
    return task.encoder.facts_of_words(column, task.target)


def settled(findings: list[Finding], task: Task) -> list[Facts]:
    """Put the facts of all pieces together.

    A column of a csv file may look like numbers in some pieces, and be words in others: there its
    words are read again, as they are written.
    """
    numbers = range(len(task.features))
    kinds = [{found.facts[i].kind for found in findings} - {None} for i in numbers]
    mixed = [i for i in numbers if len(kinds[i]) > 1]
    if mixed:
        names = [task.features[i] for i in mixed]
        shared = dask.delayed(task, traverse=False)
        calls = [(_read_words, found.piece, names, shared) for found in findings]
        for found, facts in zip(findings, attempt_all(calls), strict=True):
            found.piece.kept.clear()
            for i, fact in zip(mixed, facts, strict=True):
                found.facts[i] = fact
    return [agreed([found.facts[i] for found in findings]) for i in numbers]


def _read_words(piece: Piece, names: list[str], task: Task) -> list[Facts]:
    types = dict.fromkeys(names, WORDS)
    table = piece.file.read(piece.span, names, types, task.encoder.max_categories)
    return [task.encoder.facts_of_words(whole(table.column(name)), name) for name in names]


def locate_words(error: MixedColumnError, findings: list[Finding]) -> TableError:
    """Return the error of a column of numbers and words with the first row that has a word."""
    types = {error.column: WORDS}
    for piece in (found.piece for found in findings):
        row = error.first_row(piece.file.read(piece.span, [error.column], types, 0))
        if row is not None:
            return piece.file.error(piece.span, CellError(row, error.column, error.reason))
    return TableError(findings[0].piece.file.name, str(error))
