"""Data files behind fsspec, and whole rows of text out of ranges of their bytes.

A compressed file has no byte ranges: what stands before a piece must be decompressed to get at it,
and schedulers ask for pieces in an order of their own. So every process that reads a compressed
file decompresses it once, into a temporary file without a name, and takes ranges out of that. To
whoever reads text, a compressed file is a plain one.
"""

import lzma
import os
import re
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import dask
import numpy as np
import pyarrow as pa
from fsspec.core import OpenFile  # type: ignore[import-untyped]
from fsspec.utils import infer_compression  # type: ignore[import-untyped]

from dask_s3vm.engine.computing import compute_all
from dask_s3vm.io.errors import DataFileError
from dask_s3vm.io.store import filesystem, protocols

__all__ = ["BROKEN_TEXT", "LONGEST_ROW", "DataFile", "UrlPath", "attempt_all", "files_in",
           "find_files", "first_end", "look_through", "row_ends", "split_evenly",
           "text_lengths"]  # fmt: skip

UrlPath = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

#: How reading compressed or remote text can end.
BROKEN_TEXT = (OSError, EOFError, zlib.error, lzma.LZMAError)
# A row that crosses the end of its range is read on in steps of this many bytes.
_STEP = 1 << 16
# Text that is only counted or copied is read so many bytes at a time.
_LONG_STEP = 1 << 22
#: Longer text must not unpack to more than so many times its size: some would fill any disk.
_LONG_TEXT, _MOST_PACKED = 1 << 30, 500
#: A longer row is a quote that was never closed: reading on would bring in the whole file.
LONGEST_ROW = 1 << 26


@dataclass(frozen=True)
class DataFile:
    """One file on any file system that fsspec knows.

    `size` is None if ranges cannot be read (compressed, or size unknown), `version` changes when
    the file is changed, as far as the file system can tell, and `inner` is the path within the
    folder that was asked for, or behind the fixed part of a pattern.
    """

    fs: Any
    path: str
    size: int | None
    version: str
    inner: str

    @property
    def name(self) -> str:
        """The path as the user knows it: a plain local path, or a full address."""
        return self.path if self.is_local else str(self.fs.unstrip_protocol(self.path))

    @property
    def is_local(self) -> bool:
        """Whether this machine's file system has the file."""
        return "file" in protocols(self.fs)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Open the text, decompressed; a damaged file ends in one of `BROKEN_TEXT`."""
        if self.path.lower().endswith(".zst"):  # fsspec may not know it, Arrow does
            with self.fs.open(self.path, "rb") as raw:
                yield pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
        else:
            with OpenFile(self.fs, self.path, compression="infer") as stream:
                yield stream

    # Text: a compressed file is decompressed when its text is first asked for

    def length(self) -> int:
        """Return the number of bytes of text."""
        if self.size is not None:
            return self.size
        unpacked = _unpacked(self)
        return os.fstat(unpacked.fileno()).st_size

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes of text from `start` up to `stop`, fewer where the text ends before."""
        if self.size is None:
            unpacked = _unpacked(self)  # which must live on while it is read
            return os.pread(unpacked.fileno(), stop - start, start)
        stop = min(stop, self.size)
        return bytes(self.fs.cat_file(self.path, start=start, end=stop)) if start < stop else b""

    def read_rows(self, start: int, stop: int, quoted: bool | None) -> tuple[int, bytes]:
        """Return the rows that start in a range, each of them to its end, and where they start.

        Neighboring ranges share no row and lose none, wherever their borders fall. `quoted` tells
        whether the range starts inside quotes; None if quotes mean nothing.
        """
        # The byte before the range tells whether a row starts right at its border.
        base = max(start - 1, 0)
        text = self.read(base, stop)
        inside, before = quoted, quoted
        if quoted is not None:
            inside = quoted ^ (text.count(b'"', start - base) % 2 == 1)
            before = quoted ^ (text[: start - base] == b'"')
        skipped = 0 if start == 0 else first_end(text, before)
        text = text[skipped:]
        if text and (inside or not text.endswith(b"\n")):
            text += self._rest_of_row(stop, inside)
        return base + skipped, text

    def _rest_of_row(self, start: int, quoted: bool | None) -> bytes:
        """Read on to the end of the row (included) or of the file."""
        parts: list[bytes] = []
        longest = float("inf") if quoted is None else LONGEST_ROW
        while len(parts) * _STEP < longest and (chunk := self.read(start, start + _STEP)):
            ends = row_ends(chunk, quoted)
            if len(ends):
                parts.append(chunk[: int(ends[0])])
                break
            parts.append(chunk)
            start += len(chunk)
            if quoted is not None:
                quoted ^= chunk.count(b'"') % 2 == 1
        return b"".join(parts)

    def count(self, what: bytes, start: int, stop: int) -> int:
        """Return how often a character stands in a range."""
        steps = [*range(start, stop, _LONG_STEP), stop]
        return sum(self.read(low, high).count(what) for low, high in pairwise(steps))


class _Unpacked:
    """The text of a compressed file, which is decompressed when first asked for."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._text: Any = None

    def __del__(self) -> None:
        if self._text is not None:
            self._text.close()

    def fileno(self) -> int:
        """Return the temporary file with the text."""
        with self._lock:
            if self._text is None:
                self._text = self._decompressed()
            return int(self._text.fileno())

    def _decompressed(self) -> Any:
        text = tempfile.TemporaryFile(dir=dask.config.get("temporary-directory", None))  # noqa: SIM115
        lines = 0
        most = max(_LONG_TEXT, _MOST_PACKED * (self._file.fs.size(self._file.path) or 0))
        try:
            with self._file.opened() as stream:
                while chunk := stream.read(_STEP):
                    lines += chunk.count(b"\n")
                    text.write(chunk)
                    if text.tell() > most:
                        raise OSError(f"unpacks to more than {_MOST_PACKED} times its size")
            text.flush()
        except BaseException as error:
            text.close()
            if isinstance(error, FileNotFoundError) or not isinstance(error, BROKEN_TEXT):
                raise
            raise OSError(f"after line {lines}: {error or type(error).__name__}") from error
        return text


#: The files that were read last; the text of others is let go.
_unpacked = lru_cache(maxsize=4)(_Unpacked)


# Which files --------------------------------------------------------------------------------------


def find_files(
    urlpath: UrlPath, belongs: Callable[[str], bool] = lambda name: True
) -> list[DataFile]:
    """Return the files that a path, a glob pattern, a folder or a list of these stands for.

    The files of one glob pattern, or of one folder and the folders in it, are put in order of their
    names. `belongs` tells which files of a folder are meant, by their names. FileNotFoundError:
    there is none. ValueError: a file is a pipe or a device, which cannot be read twice.
    """
    if isinstance(urlpath, str | os.PathLike):
        urlpath = [urlpath]
    files = [file for url in urlpath for file in _expand(os.fspath(url), belongs)]
    if not files:
        raise ValueError("urlpath is an empty list, wanted at least one file")
    return files


def files_in(fs: Any, path: str) -> list[str]:
    """Return the files of a folder and the folders in it, but for those that are no data.

    These are hidden (their names start with a dot or an underscore), READMEs and LICENSEs.
    """

    def is_data(name: str) -> bool:
        about = name.upper().startswith(("README", "LICENSE"))
        return not (name.startswith((".", "_")) or about)

    root = path.rstrip("/") + "/"
    return [
        name for name in sorted(fs.find(path)) if all(map(is_data, name[len(root) :].split("/")))
    ]


def split_evenly(size: int, blocksize: int) -> list[tuple[int, int]]:
    """Cut `size` bytes into ranges of about equal length, none longer than `blocksize`."""
    count = -(-size // blocksize)
    return [(size * i // count, size * (i + 1) // count) for i in range(count)]


def _expand(url: str, belongs: Callable[[str], bool]) -> list[DataFile]:
    fs, path = filesystem(url)
    if fs.isdir(path):
        root, held = path.rstrip("/") + "/", files_in(fs, path)
        names = [name for name in held if belongs(name)]
        if not names:
            raise FileNotFoundError(
                f"folder {url!r} holds no file of the format that was asked for; it holds "
                f"{[name[len(root) :] for name in held[:5]]}"
            )
    elif not fs.exists(path):
        # A file whose name holds a bracket or a star is that file, not a pattern.
        fixed = re.split(r"[*?[]", path)[0]
        names = sorted(name for name in fs.glob(path) if fs.isfile(name)) if fixed != path else []
        if not names:
            what = "there is no file" if fixed == path else "no file matches"
            raise FileNotFoundError(f"{what} {url!r}")
        root = fixed[: fixed.rfind("/") + 1]
    else:
        names, root = [path], path[: path.rfind("/") + 1]
    return [_describe(fs, name, root) for name in names]


def _describe(fs: Any, path: str, root: str) -> DataFile:
    info = fs.info(path)
    if info.get("type") == "other":
        raise ValueError(f"{path} is a pipe or a device, wanted a regular file")
    size = info.get("size")
    if infer_compression(path) is not None or path.lower().endswith(".zst"):
        size = None
    try:
        version = str(fs.ukey(path))
    except NotImplementedError:
        version = ""
    return DataFile(fs, path, size, version, path[len(root) :])


# Rows of text -------------------------------------------------------------------------------------
#
# A row ends at a line end; where quotes mean something, at one before which their number is even
# (a doubled quote inside a field counts two). `quoted` tells whether a text starts inside quotes;
# it is None if they mean nothing.


def row_ends(text: bytes, quoted: bool | None) -> np.ndarray:
    """Return where the rows of a text end, their line ends included."""
    array = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(array == ord("\n")) + 1
    if quoted or (quoted is False and b'"' in text):
        quotes = np.flatnonzero(array == ord('"'))
        ends = ends[np.searchsorted(quotes, ends) % 2 == int(quoted)]
    return ends


def first_end(text: bytes, quoted: bool | None) -> int:
    """Return where the first row of a text ends; its end if no row does."""
    if quoted is None or (not quoted and b'"' not in text):
        return text.find(b"\n") + 1 or len(text)
    ends = row_ends(text, quoted)
    return int(ends[0]) if len(ends) else len(text)


# Many files ---------------------------------------------------------------------------------------


def look_through(
    files: Sequence[Any],
    spans: Sequence[Sequence[Any]],
    look: Callable[[Any, Any], Any],
    kind: type[DataFileError],
) -> list[list[Any]]:
    """Look through files, each in its spans, in parallel on the user's scheduler.

    ``look(file, span)`` returns what a part holds; None if that is no row. What was found is
    returned file by file, in order. A file without rows is an error of a `kind`.
    """
    shared = dask.delayed(look, traverse=False)
    calls = [(shared, file, span) for file, some in zip(files, spans, strict=True) for span in some]
    results = iter(attempt_all(calls))
    found = [[one for _ in some if (one := next(results)) is not None] for some in spans]
    for file, group in zip(files, found, strict=True):
        if not group:
            raise kind(file.name, "has no data rows")
    return found


def text_lengths(files: Sequence[DataFile], told: Callable[[str], Any]) -> list[int]:
    """Return the bytes of text of files; ``with told(name)`` tells of one that is damaged."""
    found = iter(attempt_all([(_length, file, told) for file in files if file.size is None]))
    return [next(found) if file.size is None else file.size for file in files]


def _length(file: DataFile, told: Callable[[str], Any]) -> int:
    with told(file.name):
        return file.length()


def attempt_all(calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call functions with their arguments, in parallel on the user's scheduler.

    The `DataFileError` of the first call that has one is raised: that of the first mistake in the
    files, whichever is found first.
    """
    if not calls:
        return []
    attempt = dask.delayed(_attempt, pure=False)
    results = compute_all([attempt(*call) for call in calls])
    for one in results:
        if isinstance(one, DataFileError):
            raise one
    return list(results)


def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except DataFileError as error:
        return error
