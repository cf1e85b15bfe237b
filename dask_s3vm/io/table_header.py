"""The columns of table files: what they are called, and where each one stands."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fsspec.core import OpenFile  # type: ignore[import-untyped]

from dask_s3vm.features import TableEncoder
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.fields import BadRowError, cut, missing_words, numbers_of
from dask_s3vm.io.sources import TextFile
from dask_s3vm.io.table_text import BROKEN, first_row

__all__ = ["Header", "find_label", "positions", "read_header"]

_MARK = b"\xef\xbb\xbf"  # some editors start a file with it
_HEAD = 1 << 20
_MOST_FIELDS = 100_000


@dataclass(frozen=True)
class Header:
    """Columns of one file.

    Attributes
    ----------
    names : tuple of str
        One for each field; the number of the field where nothing else is known.
    skip : int
        Bytes before the first row of data.
    named : bool
        Whether the file itself has the names.
    """

    names: tuple[str, ...]
    skip: int
    named: bool


def read_header(
    file: TextFile,
    header: bool | str,
    names: Sequence[str] | None,
    delimiter: str,
    encoder: TableEncoder | None,
) -> Header:
    """Find the columns of a file from its first row.

    Parameters
    ----------
    file : TextFile
        The file.
    header : bool or "auto"
        Whether the first row is one of names. "auto": it is if it holds all columns of the
        encoder; without one, if none of its fields is a number or empty.
    names : sequence of str, optional
        Names of the columns; by default those of the header, or numbers.
    delimiter : str
        What stands between fields.
    encoder : TableEncoder, optional
        Tells the columns of files without header.
    """
    raw, start = _first_row(file)
    try:
        fields = cut(raw, _count_fields(raw, delimiter), delimiter)
    except BadRowError as error:
        raise TableError(file.name, error.reason, 1, raw) from None
    words = [fields.word(0, i) for i in range(fields.starts.shape[1])]
    if header == "auto":
        if encoder is not None:
            header = set(encoder.feature_names_in_) <= set(words)
        else:
            missing = missing_words()
            header = all(words) and all(
                numbers_of(fields, i, missing)[1] == 0 for i in range(len(words))
            )
    found = _names(file, bool(header), words, names, encoder)
    if len(set(found)) < len(found):
        twice = sorted({name for name in found if found.count(name) > 1})
        raise TableError(file.name, f"has more than one column {twice[:5]}", 1, raw)
    return Header(tuple(found), start + len(raw) if header else start, bool(header))


def positions(file: TextFile, header: Header, wanted: Iterable[str]) -> dict[str, int]:
    """Return where columns stand; an error names those that a file has not."""
    places = {name: number for number, name in enumerate(header.names)}
    absent = [name for name in wanted if name not in places]
    if absent:
        raise TableError(file.name, f"has no column {absent[:5]}; it has {list(places)[:50]}")
    return places


def find_label(header: Header, label: str | int, file: TextFile) -> str:
    """Return the name of the label column; a number counts fields, from the end if negative."""
    count = len(header.names)
    if isinstance(label, int) and not isinstance(label, bool):
        if not -count <= label < count:
            raise TableError(file.name, f"has {count} columns, but label is {label}")
        return header.names[label]
    if label not in header.names:
        raise TableError(
            file.name, f"has no label column {label!r}; it has {list(header.names)[:50]}"
        )
    return label


def _first_row(file: TextFile) -> tuple[bytes, int]:
    """Return the first row that is not empty, and where it starts."""
    try:
        with OpenFile(file.fs, file.path, compression="infer") as stream:
            head = bytes(stream.read(_HEAD))
    except BROKEN as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise TableError(file.name, f"is damaged or cut short: {error}") from error
    start = len(_MARK) if head.startswith(_MARK) else 0
    start += len(head[start:]) - len(head[start:].lstrip(b" \t\r\n"))
    stop = first_row(head[start:])
    if stop == 0:
        raise TableError(file.name, "has no data rows")
    return head[start : start + stop], start


def _count_fields(row: bytes, delimiter: str) -> int:
    quoted, count = False, 1
    for letter in row:
        if letter == 34:
            quoted = not quoted
        count += letter == ord(delimiter) and not quoted
    return min(count, _MOST_FIELDS)


def _names(
    file: TextFile,
    header: bool,
    words: list[str],
    names: Sequence[str] | None,
    encoder: TableEncoder | None,
) -> list[str]:
    if names is None and not header and encoder is not None:
        names = _names_of_encoder(encoder, len(words))
    if names is None:
        return words if header else [str(number) for number in range(len(words))]
    if len(names) != len(words):
        raise TableError(
            file.name, f"has {len(words)} columns where {len(names)} are wanted", 1, None
        )
    return [str(name) for name in names]


def _names_of_encoder(encoder: TableEncoder, count: int) -> list[str]:
    """Columns of a file without header: those that the encoder was fitted on, or all but labels."""
    reading: dict[str, Any] = encoder.reading_ or {}
    every = list(reading.get("columns", encoder.feature_names_in_.tolist()))
    label = encoder.label_
    if label is not None and count == len(every) - 1:
        every.remove(label.name)
    return every
