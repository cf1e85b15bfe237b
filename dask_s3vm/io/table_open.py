"""Which files a table consists of, what their columns are called, and which has the labels."""

import csv
import os
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote

from fsspec.core import url_to_fs  # type: ignore[import-untyped]

from dask_s3vm.features.table_columns import is_number, kind_of
from dask_s3vm.features.table_encoder import TableEncoder
from dask_s3vm.io.errors import TableError, told
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import DataFile, UrlPath, find_files, is_hidden
from dask_s3vm.io.table_csv import CsvFile, read_fields, read_first_row
from dask_s3vm.io.table_files import BROKEN, BatchFile, TableFile, batch_files

__all__ = ["has_plain_columns", "open_tables"]

#: Formats of the files of tables; files of other names are csv.
_KINDS = ("csv", "parquet", "arrow")
_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # in the name of a folder: a missing value

#: Values of columns in the names of folders.
Partition = tuple[tuple[str, Any], ...]


def open_tables(
    urlpath: UrlPath,
    *,
    format: str | None,
    label: Any,
    drop: Sequence[str],
    header: bool | str,
    names: Sequence[str] | None,
    delimiter: str,
    encoder: TableEncoder | None,
    null_values: Sequence[str],
) -> tuple[list[TableFile], str | None, dict[str, Any]]:
    """Find the files of a table and look at the first row, or the schema, of each.

    Returns
    -------
    files : list of TableFile
        The files, with the same columns, the label perhaps left out.
    target : str or None
        The label column.
    reading : dict
        What an encoder remembers of the reading.
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
    if kind == "csv":
        _check_delimiter(delimiter)
        reader = _CsvOpener(header, names, (delimiter, tuple(null_values)), encoder, label)
        files: list[TableFile] = [reader.open(*one) for one in found]
        label = reader.label
        reading = {"format": "csv", "delimiter": delimiter, "header": reader.named}
    else:
        _refuse_of_csv(kind, header, names, delimiter)
        files = [BatchFile.open(*one, kind) for one in found]
        if _is_number(label):
            label = _numbered(files[0], label)
        reading = {"format": "table"}
        _check_types(files)
    target = _target(files, label, encoder)
    _check_columns(files, target, drop, encoder)
    return files, target, {**reading, "columns": list(files[0].names)}


# Files ----------------------------------------------------------------------------------------


def has_plain_columns(urlpath: UrlPath, format: str) -> bool:
    """Tell whether Parquet or Arrow files hold a table, not rows in columns of lists.

    Costs: the schema of the first file is read.
    """
    file, _ = _find(urlpath, format)[0]
    with told(file.name, BROKEN, f"cannot be read as {format}"):
        schema, _ = batch_files(format).footer(file)
        types = schema.types
    return not any(hasattr(type, "value_field") or hasattr(type, "list_size") for type in types)


def _find(urlpath: UrlPath, format: str | None) -> list[tuple[DataFile, Partition]]:
    urls = [urlpath] if isinstance(urlpath, str | os.PathLike) else urlpath
    found: list[tuple[DataFile, list[tuple[str, str]]]] = []
    for url in [os.fspath(one) for one in urls]:
        fs, path = url_to_fs(url)
        if fs.isdir(path):
            root = path.rstrip("/") + "/"
            inner = [name for name in sorted(fs.find(path)) if _belongs(name[len(root) :], format)]
            if not inner:
                known = [ending for kind in _KINDS for ending in FORMATS[kind].endings]
                raise FileNotFoundError(f"folder {url!r} holds no file that ends in {known}")
            files = find_files([fs.unstrip_protocol(name) for name in inner])
            found += [(f, _folders(n[len(root) :])) for f, n in zip(files, inner, strict=True)]
        else:
            fixed = path[: min((path.find(c) for c in "*?[" if c in path), default=len(path))]
            root = fixed.rpartition("/")[0] + "/"
            found += [(f, _folders(f.path[len(root) :])) for f in find_files(url)]
    if not found:
        raise ValueError("urlpath is an empty list, wanted at least one file")
    return _typed(found)


def _belongs(path: str, format: str | None) -> bool:
    if any(is_hidden(part) for part in path.split("/")):
        return False
    return any(FORMATS[kind].fits(path) for kind in _KINDS if format in (None, kind))


def _format_of(file: DataFile) -> str:
    return next((kind for kind in _KINDS if FORMATS[kind].fits(file.path)), "csv")


def _folders(path: str) -> list[tuple[str, str]]:
    """Return the columns in the names of a file's folders, such as ``year=2020/``."""
    parts = [part.split("=", 1) for part in path.split("/")[:-1] if "=" in part]
    return [(unquote(name), unquote(value)) for name, value in parts]


def _typed(
    found: list[tuple[DataFile, list[tuple[str, str]]]],
) -> list[tuple[DataFile, Partition]]:
    """Make integers of the values of a column in folders' names if all of them are."""
    values: dict[str, list[str]] = {}
    for _, folders in found:
        for name, value in folders:
            values.setdefault(name, []).append(value)
    whole = {
        name
        for name, some in values.items()
        if all(v.lstrip("-").isdigit() or v == _NOTHING for v in some)
    }

    def cell(name: str, value: str) -> Any:
        return None if value == _NOTHING else int(value) if name in whole else value

    return [(file, tuple((n, cell(n, v)) for n, v in folders)) for file, folders in found]


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
    """Refuse files without a column that the others have, and the other way round."""
    _refuse_absent(files[0], drop)
    if encoder is not None:
        for file in files:
            _refuse_absent(file, encoder.feature_names_in_)
            try:
                encoder.check_names([name for name in file.names if name != target])
            except ValueError as error:
                raise TableError(file.name, str(error).replace("X has", "has", 1)) from None
        return
    first = files[0]
    left = {target, *drop}
    wanted = [name for name in first.names if name not in left]
    for file in files[1:]:
        _refuse_absent(file, wanted)
        if extra := [name for name in file.names if name not in {*wanted, *left}]:
            raise TableError(file.name, f"has columns {extra[:5]}, which {first.name} has not")


def _refuse_absent(file: TableFile, wanted: Iterable[str]) -> None:
    absent = [name for name in wanted if name not in file.names]
    if absent:
        raise TableError(file.name, f"has no column {absent[:5]}; it has {list(file.names)[:50]}")


def _check_types(files: list[TableFile]) -> None:
    """Refuse files in which a column is of another kind than in the first."""
    first = files[0].types or {}
    for file in files[1:]:
        for name, type in (file.types or {}).items():
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


def _is_number(label: Any) -> bool:
    return isinstance(label, int) and not isinstance(label, bool)


def _numbered(file: TableFile, label: int) -> str:
    """Return the name of a column by its number, which counts from the end if negative."""
    count = len(file.names)
    if not -count <= label < count:
        raise TableError(file.name, f"has {count} columns, but label is {label}")
    return file.names[label]


def _check_delimiter(delimiter: Any) -> None:
    good = isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()
    if not good or delimiter in '"\r\n ':
        raise ValueError(f"delimiter is {delimiter!r}, wanted one character, no quote or blank")


def _refuse_of_csv(kind: str, header: Any, names: Any, delimiter: Any) -> None:
    given = {"header": header != "auto", "names": names is not None, "delimiter": delimiter != ","}
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise ValueError(f"options {wrong} have no effect on {kind} files")


class _CsvOpener:
    """Opens the csv files of a table; those without header have the columns of the first."""

    def __init__(
        self,
        header: bool | str,
        names: Sequence[str] | None,
        dialect: tuple[str, tuple[str, ...]],
        encoder: TableEncoder | None,
        label: Any,
    ) -> None:
        self.header = header
        self.names = names
        self.dialect = dialect
        self.encoder = encoder
        self.label = label
        self.named: bool | None = None

    def open(self, file: DataFile, partition: Partition) -> CsvFile:
        """Find the columns of a file from its first row."""
        raw, start = read_first_row(file)
        try:
            words = read_fields(raw.decode("utf-8").rstrip("\r\n"), self.dialect[0])
        except UnicodeDecodeError:
            raise TableError(file.name, "is not text in UTF-8", 1, raw) from None
        except csv.Error as error:
            raise TableError(file.name, f"cannot be read as csv: {error}", 1, raw) from None
        header = self._has_header(words)
        names, label = self.names, self.label
        if names is None and not header and self.encoder is not None:
            reading = self.encoder.reading_ or {}
            names = reading.get("columns", self.encoder.feature_names_in_.tolist())
            label = None if self.encoder.label_ is None else self.encoder.label_.name
        fields = self._fields(file, header, words, names, label)
        if twice := sorted({name for name in fields if fields.count(name) > 1}):
            reason = f"has more than one column {twice[:5]}, wanted distinct names"
            raise TableError(file.name, reason, 1, raw)
        added = tuple((name, value) for name, value in partition if name not in fields)
        columns = (*fields, *(name for name, _ in added))
        skip = start + len(raw) if header else start
        found = CsvFile(file, columns, added, tuple(fields), skip, *self.dialect)
        if self.named is None:
            self.named = header
            if _is_number(self.label):
                self.label = _numbered(found, self.label)
            if self.names is None and not header:
                self.names = tuple(fields)
        return found

    def _has_header(self, words: list[str]) -> bool:
        if self.header != "auto":
            return bool(self.header)
        if self.encoder is not None:
            return set(self.encoder.feature_names_in_) <= set(words)
        return all(word and not is_number(word) for word in words)

    def _fields(
        self,
        file: DataFile,
        header: bool,
        words: list[str],
        names: Sequence[str] | None,
        label: Any,
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
