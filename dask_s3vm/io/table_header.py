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

__all__ = ["Header", "positions", "read_headers"]

_MARK = b"\xef\xbb\xbf"  # some editors start a file with it
_HEAD, _STEP = 1 << 26, 1 << 16
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


def _read_header(
    file: TextFile,
    header: bool | str,
    names: Sequence[str] | None,
    delimiter: str,
    encoder: TableEncoder | None,
    label: Any = None,
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
    label : object
        The label column, if by name: one of `names` that a file may be without.
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
    if names is None and not header and encoder is not None:
        reading = encoder.reading_ or {}
        names = reading.get("columns", encoder.feature_names_in_.tolist())
        label = None if encoder.label_ is None else encoder.label_.name
    found = _names(file, bool(header), words, names, label)
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


def read_headers(
    files: Sequence[TextFile],
    header: bool | str,
    names: Sequence[str] | None,
    delimiter: str,
    encoder: TableEncoder | None,
    label: Any,
) -> tuple[list[Header], str | None]:
    """Find the columns of all files, and the name of the label column.

    A label column may be absent from some of the files, whose rows have no labels then. Files
    without header have the columns of the first one, in its order.
    """
    headers: list[Header] = []
    for file in files:
        headers.append(_read_header(file, header, names, delimiter, encoder, label))
        if len(headers) > 1:
            continue
        if isinstance(label, int) and not isinstance(label, bool):
            label = _numbered(headers[0], label, file)
        if names is None and not headers[0].named:
            names = headers[0].names
    if label is None and encoder is not None and encoder.label_ is not None:
        label = encoder.label_.name
        return headers, label if any(label in head.names for head in headers) else None
    if label is None or label is False:
        return headers, None
    if not any(label in head.names for head in headers):
        shown = list(headers[0].names)[:50]
        raise TableError(files[0].name, f"has no label column {label!r}; it has {shown}")
    return headers, str(label)


def _numbered(header: Header, label: int, file: TextFile) -> str:
    """Return the name of a column by its number, which counts from the end if negative."""
    count = len(header.names)
    if not -count <= label < count:
        raise TableError(file.name, f"has {count} columns, but label is {label}")
    return header.names[label]


def _first_row(file: TextFile) -> tuple[bytes, int]:
    """Return the first row that is not empty, and where it starts."""
    head = b""
    try:
        with OpenFile(file.fs, file.path, compression="infer") as stream:
            while len(head) < _HEAD and first_row(head.lstrip()) == len(head.lstrip()):
                chunk = stream.read(_STEP)
                if not chunk:
                    break
                head += bytes(chunk)
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
    file: TextFile, header: bool, words: list[str], names: Sequence[str] | None, label: Any
) -> list[str]:
    """Return names of the fields: as given, but for a label column that is not there."""
    if names is None:
        return words if header else [str(number) for number in range(len(words))]
    found = [str(name) for name in names]
    if len(words) == len(found) - 1 and label in found:
        found.remove(label)
    if len(found) != len(words):
        raise TableError(file.name, f"has {len(words)} columns, wanted {len(found)}", 1)
    return found
