"""Text files behind fsspec, and whole rows out of byte ranges of them, also of compressed ones."""

import lzma
import os
import shutil
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import dask
import numpy as np
import pyarrow as pa
from fsspec.core import OpenFile, url_to_fs  # type: ignore[import-untyped]
from fsspec.utils import infer_compression  # type: ignore[import-untyped]

from dask_s3vm.io.errors import SvmlightError, told

__all__ = [
    "TextFile",
    "UrlPath",
    "find_files",
    "first_end",
    "is_hidden",
    "read_packed",
    "row_ends",
    "split_evenly",
    "whole_rows",
]

UrlPath = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

# A row that crosses the end of its range is read on in steps of this many bytes.
_STEP = 1 << 16
#: A longer one is a quote that was never closed: reading on would bring in the whole file.
LONGEST_ROW = 1 << 26


@dataclass(frozen=True)
class TextFile:
    """One text file on any file system that fsspec knows.

    Attributes
    ----------
    fs : fsspec.AbstractFileSystem
        Where the file lies.
    path : str
        Its path there.
    size : int or None
        Bytes of text; ``None`` if ranges cannot be read (compressed, or size unknown), so that
        the file must be read as a whole.
    version : str
        Changes when the file is changed, as far as the file system can tell.
    labeled : bool
        Whether rows of svmlight text begin with a label.
    """

    fs: Any
    path: str
    size: int | None
    version: str
    labeled: bool = True

    @property
    def name(self) -> str:
        """The path as the user knows it: a plain local path, or a full address."""
        return self.path if self.is_local else str(self.fs.unstrip_protocol(self.path))

    @property
    def is_local(self) -> bool:
        """Whether this machine's file system has the file."""
        return "file" in _protocols(self.fs)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Open the text, decompressed."""
        if self.path.lower().endswith(".zst"):  # fsspec may not know it, Arrow does
            with self.fs.open(self.path, "rb") as raw:
                yield pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
        else:
            with OpenFile(self.fs, self.path, compression="infer") as stream:
                yield stream

    @contextmanager
    def decompressed(self) -> Iterator[Any]:
        """Open the text; say which file it was that could not be read."""
        broken = (OSError, EOFError, zlib.error, lzma.LZMAError)
        with told(self.name, broken, "cannot be read", SvmlightError), self.opened() as stream:
            yield stream

    def read_exactly(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` up to `stop`; of a compressed file, all before is read."""
        if self.size is None:
            position, parts = 0, [b""]
            with self.opened() as stream:
                while position < stop and (chunk := stream.read(min(stop - position, 64 * _STEP))):
                    parts.append(chunk[max(start - position, 0) :])
                    position += len(chunk)
            return b"".join(parts)
        with self.fs.open(self.path, "rb") as stream:
            stream.seek(start)
            return bytes(stream.read(stop - start))

    def read_piece(self, start: int, stop: int, pieces: int = 0) -> bytes:
        """Return one of so many pieces; of a compressed file, see `read_packed`."""
        if self.size is None:
            return read_packed(self, start, stop, pieces)
        return self.read_exactly(start, stop)

    def read_rows(self, start: int, stop: int, quoted: bool | None) -> tuple[int, bytes]:
        """Return the rows that start in a range, each of them to its end.

        Neighboring ranges share no row and lose none, wherever their borders fall.

        Parameters
        ----------
        start, stop : int
            The range of bytes, without `stop` itself.
        quoted : bool or None
            Whether the range starts inside quotes; None if quotes mean nothing.

        Returns
        -------
        first : int
            Where the first of the rows starts.
        text : bytes
            The rows; empty if none starts in the range.
        """
        # The byte before the range tells whether a row starts right at its border.
        base = max(start - 1, 0)
        with self.fs.open(self.path, "rb") as stream:
            stream.seek(base)
            text = bytes(stream.read(stop - base))
            inside, before = quoted, quoted
            if quoted is not None:
                inside = quoted ^ (text.count(b'"', start - base) % 2 == 1)
                before = quoted ^ (text[: start - base] == b'"')
            skipped = 0 if start == 0 else first_end(text, before)
            text = text[skipped:]
            if text and (inside or not text.endswith(b"\n")):
                text += _rest_of_row(stream, inside)
        return base + skipped, text

    def count_before(self, stop: int, what: bytes = b"\n", start: int = 0) -> int:
        """Return how often a character, by default a line end, stands before byte `stop`.

        Text is counted from `start` on, which must be 0 in a compressed file.
        """
        count = 0
        with self.opened() as stream:
            if start:
                stream.seek(start)
            while start < stop and (chunk := stream.read(min(stop - start, 64 * _STEP))):
                count += chunk.count(what)
                start += len(chunk)
        return count


def find_files(
    urlpath: UrlPath, belongs: Callable[[str], bool] = lambda name: True
) -> list[TextFile]:
    """Return the files that a path, a glob pattern, a folder or a list of these stands for.

    Parameters
    ----------
    urlpath : str, path or list of these
        Paths or addresses. The files of one glob pattern, or of one folder, are put in order of
        their names.
    belongs : callable
        Tells which files of a folder are meant, by their names. Hidden ones (whose names start
        with a dot or an underscore), READMEs and LICENSEs never are.

    Returns
    -------
    list of TextFile
        At least one file.

    Raises
    ------
    FileNotFoundError
        If a file does not exist, or a pattern matches none.
    ValueError
        If a file is a pipe or a device, which cannot be read twice.
    """
    if isinstance(urlpath, str | os.PathLike):
        urlpath = [urlpath]
    files = [file for url in urlpath for file in _expand(os.fspath(url), belongs)]
    if not files:
        raise ValueError("urlpath is an empty list, wanted at least one file")
    return files


def split_evenly(size: int, blocksize: int) -> list[tuple[int, int]]:
    """Cut `size` bytes into ranges of about equal length, none longer than `blocksize`."""
    count = -(-size // blocksize)
    return [(size * i // count, size * (i + 1) // count) for i in range(count)]


def is_hidden(path: str) -> bool:
    """Tell whether a name says that a file of a folder is no data: hidden, or about the data."""
    name = path.rstrip("/").rpartition("/")[2]
    return name.startswith((".", "_")) or name.upper().startswith(("README", "LICENSE"))


def _expand(url: str, belongs: Callable[[str], bool]) -> list[TextFile]:
    fs, path = url_to_fs(url)
    # A file whose name holds a bracket or a star is that file, not a pattern.
    if any(sign in path for sign in "*?[") and not fs.exists(path):
        paths = [match for match in sorted(fs.glob(path)) if fs.isfile(match)]
        if not paths:
            raise FileNotFoundError(f"no file matches {url!r}")
        return [_describe(fs, match, match) for match in paths]
    if fs.isdir(path):
        names = sorted(name for name in fs.ls(path, detail=False) if not is_hidden(name))
        paths = [name for name in names if belongs(name) and fs.isfile(name)]
        if not paths:
            raise FileNotFoundError(
                f"folder {url!r} holds no file of the format that was asked for"
            )
        return [_describe(fs, name, name) for name in paths]
    return [_describe(fs, path, url)]


def _describe(fs: Any, path: str, url: str) -> TextFile:
    if not fs.exists(path):
        raise FileNotFoundError(f"there is no file {url!r}")
    info = fs.info(path)
    if info.get("type") == "other":
        raise ValueError(f"{url} is a pipe or a device, wanted a regular file")
    size = info.get("size")
    if infer_compression(path) is not None or path.lower().endswith(".zst"):
        size = None
    return TextFile(fs, path, size, _version(fs, path))


def _version(fs: Any, path: str) -> str:
    try:
        return str(fs.ukey(path))
    except NotImplementedError:
        return ""


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


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


def _last_end(text: bytes, quoted: bool | None) -> int:
    """Return where the last whole row of a text ends; 0 if it holds none."""
    if quoted is None or (not quoted and b'"' not in text):
        return text.rfind(b"\n") + 1
    ends = row_ends(text, quoted)
    return int(ends[-1]) if len(ends) else 0


def whole_rows(
    chunks: Iterable[bytes], size: int, quoted: bool | None
) -> Iterator[tuple[int, bytes]]:
    """Cut a stream into whole rows of about `size` bytes together, and say where they start."""
    start, held, length, enough = 0, b"", 0, size
    parts: list[bytes] = []
    for chunk in chunks:
        parts.append(chunk)
        length += len(chunk)
        if length < enough:
            continue
        held, parts = b"".join([held, *parts]), []
        stop = _last_end(held, quoted)
        if stop:
            yield start, held[:stop]
            start, held, enough = start + stop, held[stop:], size
        elif quoted is not None and len(held) > size + LONGEST_ROW:
            break
        else:  # a long row is not copied again for every chunk of it
            enough = 2 * len(held)
        length = len(held)
    if held := b"".join([held, *parts]):
        yield start, held


def _rest_of_row(stream: Any, quoted: bool | None) -> bytes:
    """Read on to the end of the row (included) or of the file."""
    parts: list[bytes] = []
    longest = float("inf") if quoted is None else LONGEST_ROW
    while len(parts) * _STEP < longest and (chunk := stream.read(_STEP)):
        ends = row_ends(chunk, quoted)
        if len(ends):
            parts.append(chunk[: int(ends[0])])
            break
        parts.append(chunk)
        if quoted is not None:
            quoted ^= chunk.count(b'"') % 2 == 1
    return b"".join(parts)


# The text of compressed files ---------------------------------------------------------------------
#
# A compressed file has no byte ranges: what stands before a piece must be decompressed to get at
# it, and schedulers ask for pieces in an order of their own. So every process that reads a file
# decompresses it once, into a temporary file without a name, and takes pieces out of that.


class _Unpacked:
    """The text of a compressed file."""

    def __init__(self, file: TextFile) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._served: set[int] = set()
        self._text: Any = None

    def read(self, start: int, stop: int, pieces: int) -> bytes:
        """Return a piece; too short where the text ends early."""
        with self._lock:
            if self._text is None:
                self._text = self._unpack()
            piece = os.pread(self._text.fileno(), stop - start, start)
            self._served.add(start)
            if len(self._served) == pieces:
                self.close()
            return piece

    def _unpack(self) -> Any:
        text = tempfile.TemporaryFile(dir=dask.config.get("temporary-directory", None))  # noqa: SIM115
        try:
            with self._file.decompressed() as stream:
                shutil.copyfileobj(stream, text, 1 << 20)
            text.flush()
        except BaseException:
            text.close()
            raise
        return text

    def close(self) -> None:
        """Let go of the text."""
        if self._text is not None:
            self._text.close()
        self._text = None
        self._served.clear()

    __del__ = close


#: The files that were read last; the text of others goes when nobody is reading it.
_unpacked = lru_cache(maxsize=4)(_Unpacked)


def read_packed(file: TextFile, start: int, stop: int, pieces: int = 0) -> bytes:
    """Return the bytes from `start` up to `stop` of the decompressed text.

    Parameters
    ----------
    file : TextFile
        A compressed file.
    start, stop : int
        The range.
    pieces : int
        How many pieces there are: when so many have been read, the text is let go.

    Returns
    -------
    bytes
        The text; too short if it ends before.
    """
    return _unpacked(file).read(start, stop, pieces)
