"""The formats of data files: which there are, which one a file is of, and who reads and writes it.

A format is a name, the endings of its files, and the addresses ``module:function`` of its reader
and writer, which are imported when first used. To add one, put a `Format` into `FORMATS`.
"""

import importlib
import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from dask_s3vm.interrupts import interruptible
from dask_s3vm.io.sources import UrlPath, files_in
from dask_s3vm.io.store import exists, filesystem

if TYPE_CHECKING:
    from dask_s3vm.io.writing import Progress

__all__ = [
    "FORMATS",
    "Format",
    "format_of",
    "options_of",
    "read_data",
    "reading_format",
    "write_data",
]

_COMPRESSED = (".gz", ".bz2", ".xz")


@dataclass(frozen=True)
class Format:
    """One kind of data file.

    Attributes
    ----------
    name : str
        What users call it.
    endings : tuple of str
        Endings of file names, in lower case and with their dot, that mean this format. Without
        any, the format has to be asked for by its name.
    reader : str
        ``module:function``, called as ``reader(urlpath, **options)``; gives ``(X, y)``, with
        ``y`` None where there are no labels. Its keyword-only parameters are its options.
    writer : str or None
        ``module:class`` of a `dask_s3vm.io.writing.RowFormat`.
    compressed : bool
        Whether ``.gz``, ``.bz2`` or ``.xz`` may stand behind the endings.
    encoded : bool
        Whether the reader gives an encoder of the columns as well, ``(X, y, encoder)``.
    """

    name: str
    endings: tuple[str, ...] = ()
    _: KW_ONLY
    reader: str
    writer: str | None = None
    compressed: bool = False
    encoded: bool = False

    def fits(self, path: str) -> bool:
        """Tell whether a file's name ends as those of this format do."""
        lower = path.lower()
        if self.compressed:
            for ending in _COMPRESSED:
                lower = lower.removesuffix(ending)
        return lower.endswith(self.endings)

    def load(self, role: str) -> Callable[..., Any]:
        """Import and return what has a role, ``"reader"`` or ``"writer"``."""
        address = getattr(self, role)
        if address is None:
            able = sorted(form.name for form in FORMATS.values() if getattr(form, role))
            raise ValueError(f"{self.name} files cannot be written; wanted one of {able}")
        module, _, function = address.partition(":")
        return getattr(importlib.import_module(module), function)


_TABLES = "dask_s3vm.io.tables:read_table"

#: All formats by name.
FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format(
            "svmlight",
            (".svm", ".svmlight", ".libsvm", ".txt", ".dat"),
            reader="dask_s3vm.io.svmlight:read_svmlight",
            writer="dask_s3vm.io.writers:SvmlightFormat",
            compressed=True,
        ),
        Format(  # rows in columns of lists
            "arrow",
            (".arrow", ".feather", ".ipc"),
            reader="dask_s3vm.io.arrow:read_arrow",
            writer="dask_s3vm.io.writers:ArrowFormat",
        ),
        Format(
            "parquet",
            (".parquet", ".pq"),
            reader="dask_s3vm.io.arrow:read_parquet",
            writer="dask_s3vm.io.writers:ParquetFormat",
        ),
        Format(
            "npz",
            (".npz",),
            reader="dask_s3vm.io.arrays:read_npz",
            writer="dask_s3vm.io.writers:NpzFormat",
        ),
        Format(
            "npy",
            (".npy",),
            reader="dask_s3vm.io.arrays:read_npy",
            writer="dask_s3vm.io.writers:NpyFormat",
        ),
        Format(
            "csv",
            (".csv", ".csv.zst", ".tsv", ".tsv.zst"),
            reader=_TABLES,
            compressed=True,
            encoded=True,
        ),
        Format("table", reader=_TABLES, encoded=True),  # plain columns of Parquet and Arrow files
        Format("kdd99", reader="dask_s3vm.datasets:read_kdd99", encoded=True),
        Format("rcv1", reader="dask_s3vm.datasets:read_rcv1"),
    )
}


def format_of(urlpath: UrlPath, format: str | None = None) -> Format:
    """Return the format of files, by its name or by the endings of theirs.

    A folder is of the format of the files in it. ValueError if a name or an ending is not known, or
    if the files are of different formats.
    """
    if format is not None:
        if format not in FORMATS:
            raise ValueError(f"format is {format!r}, wanted one of {sorted(FORMATS)}")
        return FORMATS[format]
    paths = _paths(urlpath)
    found = {form.name: name for path in paths for name, form in _formats_at(path)}
    if len(found) != 1:
        kinds = ", ".join(f"{name!r} ({form})" for form, name in found.items())
        shown = ", ".join(map(repr, paths[:5]))
        raise ValueError(f"wanted files of one format in {shown}; got {kinds or 'none'}")
    return FORMATS[next(iter(found))]


def reading_format(urlpath: UrlPath, format: str | None = None) -> Format:
    """Return the format that files are to be read as; see `format_of`.

    The schema of Parquet and Arrow files tells whether they hold rows, in columns of lists, or a
    table with plain columns.
    """
    for path in _paths(urlpath) if format is None else ():
        if not (_by_name(path.rstrip("/")) or {*"*?["} & {*path} or exists(path)):
            raise FileNotFoundError(f"there is no file {path!r}")
    form = format_of(urlpath, format)
    if form.name in ("arrow", "parquet"):
        from dask_s3vm.io.table_open import has_plain_columns

        return FORMATS["table"] if has_plain_columns(urlpath, form.name) else form
    return form


def options_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the options of a reader or writer: its keyword-only parameters."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)


@interruptible
def read_data(urlpath: UrlPath, *, format: str | None = None, **options: Any) -> tuple[Any, Any]:
    """Read rows and labels, with the reader that fits the ending of the files' names.

    Parameters
    ----------
    urlpath : str, path or list of these
        Files, glob patterns or folders, all of one format; see `dask_s3vm.io.formats.FORMATS`.
    format : str, optional
        Name of the format, where the ending does not tell.
    **options : object
        Options of the reader, such as those of `read_svmlight`.

    Returns
    -------
    X : dask.array.Array or scipy.sparse.csr_array
        The rows; in memory for a single ``.npz`` file, else lazy.
    y : dask.array.Array or ndarray or None
        The labels.

    Raises
    ------
    DataFileError
        If a file cannot be read, holds something else or does not fit the others; its text has the
        file, the line or row, and what is wanted. Rows of binary files are checked when they are
        computed. `SvmlightError` and `TableError` are such errors too.
    ValueError
        If the format is not known, or an option is not one of its reader.
    FileNotFoundError
        If a file does not exist.
    """
    form = reading_format(urlpath, format)
    reader = form.load("reader")
    _check_options(form, reader, options, urlpath)
    X, y, *_ = reader(urlpath, **options)
    return X, y


@interruptible
def write_data(
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    overwrite: bool = False,
    progress: "Progress | None" = None,
    **options: Any,
) -> None:
    """Write rows and labels, in the format that the ending of a name tells.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        The rows: numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
    y : array of shape (n_rows,) or None
        The labels, numbers or strings, if there are any.
    path : str or path
        Path or URL of the file; or, with a slash at its end, of a folder with one file per block.
    format : str, optional
        Name of the format, where the ending does not tell.
    overwrite : bool
        Whether to replace what is there.
    progress : callable, optional
        Called after each block with a line of text, blocks done and blocks in all.
    **options : object
        Options of the format: those of its class in `dask_s3vm.io.writers`.

    Raises
    ------
    FileExistsError
        If the target exists.
    ValueError, TypeError
        If the format is not known or cannot be written, if an option is not one of its own, or if
        it cannot hold these rows.
    """
    from dask_s3vm.io.writing import write_rows

    url = os.fspath(path)
    form = format_of(url.rstrip("/"), format)
    writer = form.load("writer")
    _check_options(form, writer, options, path)
    write_rows(X, y, url, writer(url.rstrip("/"), **options), overwrite, progress)


def _paths(urlpath: UrlPath) -> list[str]:
    urls = [urlpath] if isinstance(urlpath, str | os.PathLike) else urlpath
    return [os.fspath(url) for url in urls]


def _formats_at(path: str) -> Iterable[tuple[str, Format]]:
    """Return a file and the format that its name tells; of a folder, all that is in it."""
    form = _by_name(path.rstrip("/"))
    if form is not None:
        return [(path, form)]
    fs, inner = filesystem(path)
    if not fs.isdir(inner):
        text = [one for form in FORMATS.values() if form.compressed for one in form.endings]
        others = [one for form in FORMATS.values() if not form.compressed for one in form.endings]
        raise ValueError(
            f"the ending of {path!r} is not known, wanted {', '.join(text)} (perhaps with "
            f"{' or '.join(_COMPRESSED)} behind it), {', '.join(others)}, or a format, one of "
            f"{sorted(FORMATS)}"
        )
    root = inner.rstrip("/") + "/"
    held = [(name.removeprefix(root), _by_name(name)) for name in files_in(fs, inner)]
    return [(name, form) for name, form in held if form is not None]


def _by_name(path: str) -> Format | None:
    return next((form for form in FORMATS.values() if form.fits(path)), None)


def _check_options(
    form: Format, function: Callable[..., Any], options: dict[str, Any], where: Any
) -> None:
    known = options_of(function)
    if unknown := sorted(options.keys() - known):
        raise ValueError(
            f"options {unknown} are not for {form.name} files such as {where!r}, "
            f"wanted some of {sorted(known)}"
        )
