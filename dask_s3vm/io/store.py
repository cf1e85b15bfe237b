"""Files behind any URL that fsspec knows: a file that is written appears whole or not at all.

Names without ``://`` are paths of this machine.

How a file is replaced depends on where it is. On this machine, and on file servers, it is written
under a hidden name beside the target and renamed. An object store shows an upload only when it is
complete, so the content is collected in a temporary file here and uploaded in one call.
"""

import errno
import io
import os
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

__all__ = ["Url", "address", "check_writable", "exists", "filesystem", "is_local", "join_url",
           "make_folder", "names_in", "open_input", "protocols", "remove", "remove_folder",
           "rename", "replacing"]  # fmt: skip

Url = str | os.PathLike[str]

#: Stores whose uploads are all or nothing, and where renaming means copying.
_OBJECT_STORES = {"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci"}
_LOCAL = ("file://", "local://")
#: What the system says when there is no room.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_local(url: Url) -> bool:
    """Tell whether a URL is a path of this machine."""
    text = os.fspath(url)
    return "::" not in text and ("://" not in text or text.startswith(_LOCAL))


def address(url: Url) -> str:
    """Return a URL as users write it: a plain path without ``file://``, or the full URL."""
    text = os.fspath(url)
    for prefix in _LOCAL:
        text = text.removeprefix(prefix)
    return text


def join_url(url: Url, *names: str) -> str:
    """Return the URL of something inside a folder."""
    if is_local(url):
        return os.path.join(address(url), *names)
    return "/".join([os.fspath(url).rstrip("/"), *names])


def exists(url: Url) -> bool:
    """Tell whether there is a file or folder."""
    fs, path = filesystem(url)
    return bool(fs.exists(path))


def names_in(url: Url) -> list[str]:
    """Return the sorted names of all that is in a folder; none if it does not exist."""
    fs, path = filesystem(url)
    found = fs.ls(path, detail=False) if fs.isdir(path) else []
    return sorted(name.rstrip("/").rpartition("/")[2] for name in found)


def remove(url: Url) -> None:
    """Remove a file, if it is there."""
    fs, path = filesystem(url)
    with suppress(FileNotFoundError):
        fs.rm_file(path)


def make_folder(url: Url) -> None:
    """Create a folder, with those above it, if it is not there; object stores need none."""
    fs, path = filesystem(url)
    if not _is_object_store(fs):
        fs.makedirs(path, exist_ok=True)


def remove_folder(url: Url) -> None:
    """Remove a folder and all in it, or a file, if it is there."""
    fs, path = filesystem(url)
    if not fs.isdir(path) or (is_local(url) and os.path.islink(path)):
        remove(url)
        return
    if is_local(url):
        # Under another name: tasks that have not noticed yet can put nothing new into it.
        path, old = _hidden(path), path
        os.rename(old, path)
    fs.rm(path, recursive=True)


def rename(old: Url, new: Url) -> None:
    """Give a folder another name: one step on this machine, a move elsewhere."""
    if is_local(old):  # fsspec would move it into a folder that is there already
        os.rename(address(old), address(new))
        return
    fs, path = filesystem(old)
    fs.mv(path, filesystem(new)[1], recursive=True)


def open_input(url: Url, mode: str = "rb") -> IO[Any]:
    """Open a file for reading: ``"rb"`` bytes, ``"r"`` UTF-8 text; ValueError if it is no file."""
    encoding = None if "b" in mode else "utf-8"
    if is_local(url):
        path = address(url)
        _check_regular(path)
        return open(path, mode, encoding=encoding)
    fs, path = filesystem(url)
    return fs.open(path, mode, **({} if encoding is None else {"encoding": encoding}))


def check_writable(url: Url) -> None:
    """Refuse a file that could not be written, before work starts that it is to hold.

    An empty file is written beside it and removed. ValueError has the URL and what is wanted.
    """
    if "::" in os.fspath(url):
        raise ValueError(f"{url}: chained URLs can only be read; wanted the URL of a plain file")
    fs, path = filesystem(url)
    if is_local(url):
        path = os.path.realpath(address(url))
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise ValueError(f"{address(url)}: there is no folder {folder} to write to")
        _check_regular(path)
    elif not path.strip("/") or path.endswith("/"):
        raise ValueError(f"{url}: wanted the URL of a file")
    probe = _hidden(path)
    try:
        if not _is_object_store(fs):
            fs.makedirs(_parent(path), exist_ok=True)
        fs.pipe_file(probe, b"")
    # Every store has errors of its own.
    except Exception as error:
        wanted = "a path, or the URL of a store that can be written, such as s3://"
        if is_local(url):
            wanted = f"a folder where files can be created, unlike {os.path.dirname(path)}"
        reason = getattr(error, "strerror", None) or error or type(error).__name__
        raise ValueError(f"{address(url)}: cannot be written: {reason}; wanted {wanted}") from error
    with suppress(Exception):
        fs.rm_file(probe)


@contextmanager
def replacing(url: Url, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file that appears under its name only when it is complete.

    Symbolic links are followed. What was there before stays as it is if writing fails. ``"wb"``
    takes bytes, ``"w"`` UTF-8 text whose line ends are kept. ValueError: what is there is not a
    regular file, or the store cannot be written. OSError: there is no folder, no permission or no
    room; the message names the file.
    """
    if mode not in ("wb", "w"):
        raise ValueError(f"mode is {mode!r}, wanted 'wb' or 'w'")
    opened = _replacing_local(url) if is_local(url) else _uploading(url)
    with opened as stream:
        if mode == "wb":
            yield stream
            return
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        yield text
        text.detach()  # flushes it; the stream below is closed by its owner


def filesystem(url: Url) -> tuple[Any, str]:
    """Return the file system of a URL, and its path there; ValueError if we do not have it."""
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]

    try:
        fs, path = url_to_fs(os.fspath(url))
    except (ValueError, ImportError) as error:
        raise ValueError(f"{url}: this store is not supported: {error}") from error
    return fs, str(path)


@contextmanager
def _replacing_local(url: Url) -> Iterator[IO[bytes]]:
    name = address(url)
    path = os.path.realpath(name)
    _check_regular(path)
    hidden = _hidden(path)
    try:
        with _named(name, anything=True):
            # Claims the name; errors of what is done with the stream later are not ours to name.
            open(hidden, "xb").close()
        with _named(name), open(hidden, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        with _named(name, anything=True):
            os.replace(hidden, path)
            _sync_folder(path)
    finally:
        with suppress(FileNotFoundError):
            os.remove(hidden)


@contextmanager
def _uploading(url: Url) -> Iterator[IO[bytes]]:
    fs, path = filesystem(url)
    name = os.fspath(url)
    with _named(name), tempfile.NamedTemporaryFile() as content:
        yield content
        content.flush()
        if _is_object_store(fs):
            fs.put_file(content.name, path)
            return
        fs.makedirs(_parent(path), exist_ok=True)
        hidden = _hidden(path)
        try:
            fs.put_file(content.name, hidden)
            fs.mv(hidden, path)
        finally:
            with suppress(Exception):
                fs.rm_file(hidden)


@contextmanager
def _named(name: str, anything: bool = False) -> Iterator[None]:
    """Name the target in errors of the system: that there is no room, or all of them."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            text = f"cannot be written, there is no room: {error.strerror}"
        elif anything and error.errno is not None:
            text = f"cannot be written: {error.strerror}"
        else:
            raise
        raise OSError(error.errno, text, name) from error


def _sync_folder(path: str) -> None:
    """Have the new name survive a power failure; some file systems cannot."""
    with suppress(OSError):
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _check_regular(path: str) -> None:
    """Refuse what is there and is no file."""
    mode = os.stat(path).st_mode if os.path.exists(path) else stat.S_IFREG
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
        kind = kinds.get(stat.S_IFMT(mode), "device")
        raise ValueError(f"{path} is a {kind}, wanted a regular file")


def protocols(fs: Any) -> tuple[str, ...]:
    """Return the names of a file system."""
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _is_object_store(fs: Any) -> bool:
    return not _OBJECT_STORES.isdisjoint(protocols(fs))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _hidden(path: str) -> str:
    """Return a free name in the same folder: only there is a rename a single step."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.{uuid.uuid4().hex}.tmp"
