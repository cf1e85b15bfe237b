"""Which files a table consists of, what their columns are called, and which has the labels."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from dask_s3vm.features.table_columns import has_decimal_comma, is_number, kind_of
from dask_s3vm.features.table_encoder import TableEncoder
from dask_s3vm.io.batches import BROKEN, read_footer
from dask_s3vm.io.errors import TableError, told
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import (
    LONGEST_ROW,
    DataFile,
    UrlPath,
    find_files,
    first_end,
    row_ends,
)  # fmt: skip
from dask_s3vm.io.table_files import (
    BatchFile,
    CsvFile,
    Partition,
    TableFile,
    refuse_twins,
    told_table,
    wrong_quote,
)  # fmt: skip

__all__ = ["has_plain_columns", "open_tables", "refuse_absent"]

#: Formats of the files of tables; files of other names are csv.
_KINDS = ("csv", "parquet", "arrow")
_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # in the name of a folder: a missing value
_MARK = b"\xef\xbb\xbf"  # some editors start a file with it
_ROWS = 20  # that the delimiter is found from
_INTEGER = re.compile(rf"-?\d+|{_NOTHING}")


def open_tables(
    urlpath: UrlPath,
    *,
    format: str | None,
    label: Any,
    drop: Sequence[str],
    header: bool | str,
    names: Sequence[str] | None,
    delimiter: str,
    decimal: str,
    encoder: TableEncoder | None,
    null_values: Sequence[str],
) -> tuple[list[TableFile], str | None, dict[str, Any]]:
    """Find the files of a table and look at the first row, or the schema, of each.

    Returns the files, with the same columns (the label perhaps left out), the label column, and
    what an encoder remembers of the reading.
    """
    if format is not None and format not in _KINDS:
        raise ValueError(f"format is {format!r}, wanted one of {sorted(_KINDS)}")
    if isinstance(drop, str):
        raise ValueError(f"drop is {drop!r}, wanted a list of columns")
    found = _find(urlpath, format)
    formats = {format or _format_of(file) for file, _ in found}
    if len(formats) > 1:
        shown = ", ".join(repr(file.name) for file, _ in found[:5])
        raise ValueError(f"urlpath has files of the formats {sorted(formats)}: {shown}, wanted one")
    (kind,) = formats
    files: list[TableFile] = []
    reading: dict[str, Any] = {"format": "table"}
    if kind == "csv":
        good = isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()
        if delimiter != "auto" and (not good or delimiter in '"\r\n '):
            raise ValueError(
                f"delimiter is {delimiter!r}, wanted 'auto' or one character, no quote or blank"
            )
        if decimal not in ("auto", ".", ",") or decimal == delimiter == ".":
            raise ValueError(f"decimal is {decimal!r}, wanted 'auto', '.' or ',', no delimiter")
        dialect = (delimiter, decimal, tuple(null_values))
        texts, label, named = _open_csv(found, header, names, dialect, encoder, label)
        reading = {
            "format": "csv",
            "delimiter": texts[0].delimiter,
            "decimal": texts[0].decimal,
            "header": named,
        }
        files += texts
    else:
        of_csv = {
            "header": header != "auto",
            "names": names is not None,
            "delimiter": delimiter != "auto",
            "decimal": decimal != "auto",
        }
        if wrong := [name for name, is_given in of_csv.items() if is_given]:
            raise ValueError(f"options {wrong} have no effect on {kind} files")
        opened = [BatchFile.open(*one, kind) for one in found]
        _check_types(opened)
        files += opened
        label = _name_of(label, files[0])
    target = _target(files, label, encoder)
    _check_columns(files, target, drop, encoder)
    return files, target, {**reading, "columns": list(files[0].names)}


def _open_csv(
    found: list[tuple[DataFile, Partition]],
    header: bool | str,
    names: Sequence[str] | None,
    dialect: tuple[str, str, tuple[str, ...]],
    encoder: TableEncoder | None,
    label: Any,
) -> tuple[list[CsvFile], Any, bool]:
    """Find the columns of csv files from their first rows.

    Files without header have the columns of the first file. Returns the files, the name of the
    label column, and whether the first file has a header.
    """
    files: list[CsvFile] = []
    first_named = False
    delimiter, decimal, null_values = dialect
    reading = {} if encoder is None else encoder.reading_ or {}
    before = reading.get("decimal", ".")
    for file, partition in found:
        text, start = _read_first_rows(file)
        if delimiter == "auto":
            delimiter = _delimiter_in(text) or reading.get("delimiter", ",")
        raw, words = _first_row(text, delimiter, file.name)
        before = decimal if decimal != "auto" else _decimal_in(text, delimiter) or before
        if header != "auto":
            named = bool(header)
        elif encoder is not None:
            known = set(encoder.feature_names_in_) & set(words)
            # some of the columns are named: it is the others that are missing
            named = bool(known) and not any(is_number(word) for word in set(words) - known)
        else:
            named = label in words or not any(
                word == "" or is_number(word) or has_decimal_comma(word) for word in words
            )
        wanted, target = names, label
        if names is None and not named and encoder is not None:
            wanted = reading.get("columns", encoder.feature_names_in_.tolist())
            target = None if encoder.label_ is None else encoder.label_.name
        if wanted is None:
            fields = words if named else [str(number) for number in range(len(words))]
        else:
            fields = [str(name) for name in wanted]
            if len(words) == len(fields) - 1 and target in fields:
                fields.remove(target)  # rows without labels
            if len(fields) != len(words):
                raise TableError(file.name, f"has {len(words)} columns, wanted {len(fields)}", 1)
        refuse_twins(file, fields, raw)
        skip = start + len(raw) if named else start
        files.append(CsvFile(file, tuple(fields), partition, skip, delimiter, before, null_values))
        if len(files) == 1:
            first_named, label = named, _name_of(label, files[0])
            names = tuple(fields) if names is None and not named else names
    return files, label, first_named


def _read_first_rows(file: DataFile) -> tuple[bytes, int]:
    """Return the text of a csv file from its first row on, that row at least, and its start."""
    head = b""
    with told_table(file.name), file.opened() as stream:
        while chunk := bytes(stream.read(1 << 16)):
            head += chunk
            left = head.lstrip(b"\r\n")
            if len(head) >= LONGEST_ROW or first_end(left, False) < len(left):
                break
    text = head.removeprefix(_MARK).lstrip(b"\r\n")
    return text, len(head) - len(text)


def _first_row(text: bytes, delimiter: str, name: str) -> tuple[bytes, list[str]]:
    """Return the first row of a text, and its fields."""
    raw = text[: first_end(text, False)]
    if not raw:
        raise TableError(name, "has no data rows")
    if b"\n" not in text and b"\r" in text.rstrip(b"\r"):
        raise TableError(name, "has lines that end in a return alone, wanted line feeds")
    try:
        row = io.StringIO(raw.decode("utf-8").rstrip("\r\n"), newline="")
        fields = next(csv.reader(row, delimiter=delimiter, strict=True), [])
    except UnicodeDecodeError:
        raise TableError(name, "is not text in UTF-8", 1, raw) from None
    except csv.Error as error:
        raise TableError(name, f"cannot be read as csv: {error}", 1, raw) from None
    return raw, fields


def _delimiter_in(text: bytes) -> str | None:
    """Return the delimiter that cuts the first rows into equally many fields, two at least.

    A comma comes before others, but not one that is in numbers, as in ``1,5;2,5``. None: no
    delimiter does.
    """
    ends = row_ends(text, False)[:_ROWS]
    start = text[: int(ends[-1]) if len(ends) else None]
    words = start.decode("utf-8", "replace")
    found = {}
    for delimiter in ",;\t|":
        with suppress(csv.Error):
            rows = list(csv.reader(io.StringIO(words, newline=""), delimiter=delimiter))
            counts = {len(row) for row in rows if row}
            if len(counts) == 1 and max(counts) > 1 and not wrong_quote(start, delimiter):
                found[delimiter] = rows
    commas = found.pop(",", None)
    in_numbers = any(
        has_decimal_comma(word) for own in found.values() for row in own for word in row
    )
    if commas and not in_numbers:
        return ","
    return max(found, key=lambda one: len(found[one][0]), default=None)


def _decimal_in(text: bytes, delimiter: str) -> str | None:
    """Return what is before the decimals of the numbers in a text; None if that is not clear."""
    if delimiter == ",":  # quoted commas may be marks of thousands
        return None
    words = re.split(f'[{re.escape(delimiter)}"\r\n]', text.decode("utf-8", "replace"))
    if any("." in word and is_number(word) for word in words):
        return "."
    return "," if any("," in word and has_decimal_comma(word) for word in words) else None


def _name_of(label: Any, file: TableFile) -> Any:
    """Return the label column; a number counts the columns, from the end if negative."""
    if not isinstance(label, int) or isinstance(label, bool):
        return label
    count = len(file.names)
    if not -count <= label < count:
        raise TableError(file.name, f"label is {label}, but there are {count} columns")
    return file.names[label]


# Files ----------------------------------------------------------------------------------------


def has_plain_columns(urlpath: UrlPath, format: str) -> bool:
    """Tell whether Parquet or Arrow files hold a table, not rows in columns of lists.

    Costs: the schema of the first file is read.
    """
    file, _ = _find(urlpath, format)[0]
    with told(file.name, BROKEN, f"cannot be read as {format}"):
        types = read_footer(format, file)[0].types
    return not any(hasattr(type, "value_field") or hasattr(type, "list_size") for type in types)


def _find(urlpath: UrlPath, format: str | None) -> list[tuple[DataFile, Partition]]:
    """Return files, and the columns in the names of their folders, such as ``year=2020/``.

    These are integers where all of a column are.
    """
    forms = [FORMATS[kind] for kind in _KINDS if format in (None, kind)]
    files = find_files(urlpath, lambda name: any(form.fits(name) for form in forms))
    parts = [[p.split("=", 1) for p in file.inner.split("/")[:-1] if "=" in p] for file in files]
    named = [[(unquote(name), unquote(value)) for name, value in some] for some in parts]
    words = {name for some in named for name, value in some if not _INTEGER.fullmatch(value)}

    def cell(name: str, value: str) -> Any:
        return None if value == _NOTHING else value if name in words else int(value)

    return [
        (file, tuple((name, cell(name, value)) for name, value in some))
        for file, some in zip(files, named, strict=True)
    ]


def _format_of(file: DataFile) -> str:
    return next((kind for kind in _KINDS if FORMATS[kind].fits(file.path)), "csv")


# Columns --------------------------------------------------------------------------------------


def _target(files: list[TableFile], label: Any, encoder: TableEncoder | None) -> str | None:
    """Return the label column, which some of the files may be without."""
    if label is None and encoder is not None and encoder.label_ is not None:
        name = encoder.label_.name
        return name if any(name in file.names for file in files) else None
    if label is None or label is False:
        return None
    if not any(label in file.names for file in files):
        shown = list(files[0].names)[:50]
        raise TableError(files[0].name, f"has no label column {label!r}; it has {shown}")
    return str(label)


def _check_columns(
    files: list[TableFile], target: str | None, drop: Sequence[str], encoder: TableEncoder | None
) -> None:
    """Refuse files without a column that the others have, and the other way round.

    An encoder takes its columns by their names, and leaves others alone.
    """
    refuse_absent(files[0], drop)
    if encoder is not None:
        if target in encoder.feature_names_in_:
            raise TableError(
                files[0].name,
                f"column {target!r} cannot have the labels: the encoder was fitted on it as a "
                "feature",
            )
        for file in files:
            refuse_absent(file, encoder.feature_names_in_)
        return
    first = files[0]
    left = {target, *drop}
    wanted = [name for name in first.names if name not in left]
    for file in files[1:]:
        refuse_absent(file, wanted)
        if extra := [name for name in file.names if name not in {*wanted, *left}]:
            raise TableError(file.name, f"has columns {extra[:5]}, which {first.name} has not")


def refuse_absent(file: TableFile, wanted: Iterable[str]) -> None:
    """Refuse a file without a column that is wanted."""
    absent = [name for name in wanted if name not in file.names]
    if absent:
        raise TableError(file.name, f"has no column {absent[:5]}; it has {list(file.names)[:50]}")


def _check_types(files: list[BatchFile]) -> None:
    """Refuse files in which a column is of another kind than in the first."""
    first = files[0].types
    for file in files[1:]:
        for name, type in file.types.items():
            if name in first and len({_kind(first[name]), _kind(type)} - {None}) > 1:
                raise TableError(
                    file.name,
                    f"column {name!r} is of type {type}, wanted {first[name]} as in "
                    f"{files[0].name}",
                )


def _kind(type: Any) -> str | None:
    try:
        return kind_of(type)
    except ValueError:
        return str(type)
