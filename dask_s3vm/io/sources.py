"""Text files behind fsspec, and whole lines out of byte ranges of them, also of compressed ones."""

import lzma
import os
import tempfile
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import dask
from fsspec.core import OpenFile, url_to_fs  # type: ignore[import-untyped]
from fsspec.utils import infer_compression  # type: ignore[import-untyped]

from dask_s3vm.io.errors import SvmlightError

__all__ = [
    "TextFile",
    "UrlPath",
    "find_files",
    "is_hidden",
    "line_start",
    "read_packed",
    "split_evenly",
]

UrlPath = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

# A line that crosses the end of its range is read on in steps of this many bytes.
_STEP = 1 << 16


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
        Whether rows of svmlight text begin with a label; see `labeled_lines`.
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

    def labeled_lines(self, lines: bytes) -> bytes:
        """Return whole lines as they are, or with a label of 0 where they have none.

        Without labels, as in files of SVMlin, every line is a row, also an empty one.
        """
        if self.labeled or not lines:
            return lines
        ended = lines.endswith(b"\n")
        body = lines[:-1] if ended else lines
        return b"0 " + body.replace(b"\n", b"\n0 ") + (b"\n" if ended else b"")

    def starts_with_label(self) -> bool:
        """Whether the first row begins with a label, rather than with an index:value pair."""
        with self.decompressed() as stream:
            while line := stream.readline(_STEP):
                words = line.split(b"#", 1)[0].split(None, 1)
                if words:
                    return b":" not in words[0]
        return True

    @contextmanager
    def decompressed(self) -> Iterator[Any]:
        """Open the text; say which file it was that could not be read."""
        try:
            with OpenFile(self.fs, self.path, compression="infer") as stream:
                yield stream
        except FileNotFoundError:
            raise
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise SvmlightError(self.name, f"cannot be read: {error}") from error

    def read_exactly(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` up to `stop`."""
        with self.fs.open(self.path, "rb") as stream:
            stream.seek(start)
            return bytes(stream.read(stop - start))

    def read_lines(self, start: int, stop: int) -> tuple[int, bytes]:
        """Return the lines that start in a range, each of them to its end.

        Neighboring ranges share no line and lose none, wherever their borders fall.

        Parameters
        ----------
        start, stop : int
            The range of bytes, without `stop` itself.

        Returns
        -------
        first : int
            Where the first of the lines starts.
        text : bytes
            The lines; empty if none starts in the range.
        """
        # The byte before the range tells whether a line starts right at its border.
        base = max(start - 1, 0)
        with self.fs.open(self.path, "rb") as stream:
            stream.seek(base)
            text = bytes(stream.read(stop - base))
            skipped = line_start(text, start - base)
            text = text[skipped:]
            if text and not text.endswith(b"\n"):
                text += _rest_of_line(stream)
        return base + skipped, text

    def count_lines(self, stop: int) -> int:
        """Return the number of line ends before byte `stop` of the decompressed text."""
        count = 0
        with self.decompressed() as stream:
            while stop > 0 and (chunk := stream.read(min(stop, 64 * _STEP))):
                count += chunk.count(b"\n")
                stop -= len(chunk)
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


def line_start(text: bytes, position: int) -> int:
    """Return where the first line starts that starts at `position` or later."""
    if position == 0:
        return 0
    end = text.find(b"\n", position - 1)
    return len(text) if end < 0 else end + 1


def split_evenly(size: int, blocksize: int) -> list[tuple[int, int]]:
    """Cut `size` bytes into ranges of about equal length, none longer than `blocksize`."""
    count = -(-size // blocksize)
    return [(size * i // count, size * (i + 1) // count) for i in range(count)]


def _rest_of_line(stream: Any) -> bytes:
    """Read on to the next line end (included) or to the end of the file."""
    parts: list[bytes] = []
    while chunk := stream.read(_STEP):
        end = chunk.find(b"\n")
        if end >= 0:
            parts.append(chunk[: end + 1])
            break
        parts.append(chunk)
    return b"".join(parts)


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
    if infer_compression(path) is not None:
        size = None
    return TextFile(fs, path, size, _version(fs, path))


def _version(fs: Any, path: str) -> str:
    try:
        return str(fs.ukey(path))
    except NotImplementedError:
        return ""


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


# The text of compressed files ---------------------------------------------------------------------
#
# A compressed file has no byte ranges: what stands before a piece must be decompressed to get at
# it, and schedulers ask for pieces in an order of their own. So every process that reads a file
# decompresses it once, into a temporary file without a name, only as far as it is needed, and takes
# pieces out of that. The temporary file goes when all pieces have been read, when other files are
# being read instead, or with the process.

_MOST_OPEN = 4
_PACKED_STEP = 1 << 20

_spools: "OrderedDict[tuple[str, str], _Spool]" = OrderedDict()
_lock = threading.Lock()


class _Spool:
    """The text of a compressed file, as far as it has been decompressed."""

    def __init__(self, file: TextFile) -> None:
        self.lock = threading.Lock()
        self.served: set[int] = set()
        self._file = file
        self._open = ExitStack()
        self._stream: Any = None
        self._text: Any = None
        self._size = 0

    def read(self, start: int, stop: int) -> bytes:
        """Return a piece; too short where the text ends early. The lock must be held."""
        try:
            if self._text is None:
                folder = dask.config.get("temporary-directory", None)
                self._text = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
                self._open.callback(self._text.close)
                self._stream = self._open.enter_context(self._file.decompressed())
            while self._size < stop and (chunk := self._stream.read(_PACKED_STEP)):
                self._text.write(chunk)
                self._size += len(chunk)
            self._text.flush()
            return os.pread(self._text.fileno(), stop - start, start)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of both files."""
        self._open.close()
        self._text = self._stream = None
        self._size = 0
        self.served.clear()


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
    key = (file.name, file.version)
    with _lock:
        spool = _spools.setdefault(key, _Spool(file))
        _spools.move_to_end(key)
        for other in list(_spools)[:-_MOST_OPEN]:
            idle = _spools[other]
            if idle.lock.acquire(blocking=False):  # else somebody is reading it
                idle.close()
                idle.lock.release()
                del _spools[other]
    with spool.lock:
        text = spool.read(start, stop)
        spool.served.add(start)
        if len(spool.served) == pieces:
            spool.close()
    return text
