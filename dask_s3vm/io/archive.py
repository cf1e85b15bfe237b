"""Archives of arrays that are written all or nothing, and read with distrust."""

import os
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

__all__ = ["BROKEN", "open_arrays", "read_header", "write_atomically"]

#: What reading a damaged archive may raise. RuntimeError: encrypted members, deep recursion, zip
#: features that are not there.
BROKEN = (
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    OSError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)

_LARGEST_MEMBER = 8 << 30
_HEADER_READERS: dict[tuple[int, int], Callable[..., tuple[tuple[int, ...], bool, np.dtype]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is complete.

    Parameters
    ----------
    path : str or path
        Where the file is to be. An old file there stays untouched if writing fails.

    Yields
    ------
    binary file
        To be written; it is closed and moved into place afterwards.
    """
    target = Path(path)
    # In the same directory: only within one file system is a move a single step.
    hidden = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with hidden.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(hidden, target)
    finally:
        hidden.unlink(missing_ok=True)


@contextmanager
def open_arrays(path: str | os.PathLike[str], limits: dict[str, int]) -> Iterator[Any]:
    """Open an uncompressed ``.npz`` archive whose promises about sizes have been checked.

    An archive can claim any size for its members, and a member any shape for its array; reading
    would reserve that much memory. Here nothing is believed that the file is too short for.

    Parameters
    ----------
    path : str or path
        The archive.
    limits : dict of str to int
        Most bytes allowed for the arrays of these names; 8 GiB for all others.

    Yields
    ------
    numpy.lib.npyio.NpzFile
        The arrays by name, read when asked for.

    Raises
    ------
    ValueError
        If a member is not what it should be.
    """
    size = os.path.getsize(path)
    with zipfile.ZipFile(path) as directory:
        seen = set()
        for info in directory.infolist():
            name = info.filename.removesuffix(".npy")
            if name == info.filename or name in seen:
                raise ValueError(f"member {info.filename!r} is not an array, or occurs twice")
            seen.add(name)
            limit = limits.get(name, _LARGEST_MEMBER)
            if info.file_size > limit:
                raise ValueError(f"member {name!r} has {info.file_size} bytes, limit {limit}")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > size:
                raise ValueError(f"member {name!r} is compressed or longer than the file")
            _check_member(directory, info, name)
    with np.load(path, allow_pickle=False) as arrays:
        yield arrays


def read_header(stream: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and type of the array in ``.npy`` format that a stream holds."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADER_READERS:
        raise ValueError(f"an array is of format {version}, wanted one of {[*_HEADER_READERS]}")
    shape, _, dtype = _HEADER_READERS[version](stream)
    return shape, dtype


def _check_member(directory: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> None:
    """Refuse an array that holds Python objects, or is larger than its member."""
    with directory.open(info) as stream:
        shape, dtype = read_header(stream)
        if dtype.hasobject:
            raise ValueError(f"array {name!r} holds Python objects")
        count = 1
        for length in shape:  # in Python numbers, which do not overflow
            count *= int(length)
        if any(length < 0 for length in shape):
            raise ValueError(f"array {name!r} has the shape {shape}")
        if stream.tell() + count * dtype.itemsize != info.file_size:
            raise ValueError(f"array {name!r} of shape {shape} does not fit its member")
