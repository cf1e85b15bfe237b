"""Archives of arrays that are read with distrust."""

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dask_s3vm.io.checksum import check_archive
from dask_s3vm.io.store import Url, open_input

__all__ = ["BROKEN", "open_arrays", "read_header"]

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
def open_arrays(path: Url, limits: dict[str, int]) -> Iterator[Any]:
    """Open an uncompressed ``.npz`` archive whose promises about sizes have been checked.

    An archive can claim any size for its members, and a member any shape for its array; reading
    would reserve that much memory. Here nothing is believed that the file is too short for, and
    the checksum of the file is checked if it has one.

    Parameters
    ----------
    path : str or path
        Path or URL of the archive.
    limits : dict of str to int
        Most bytes allowed for the arrays of these names; 8 GiB for all others.

    Yields
    ------
    numpy.lib.npyio.NpzFile
        The arrays by name, read when asked for.

    Raises
    ------
    ValueError
        If the file is damaged, or a member is not what it should be.
    """
    with open_input(path) as file:
        size = file.seek(0, io.SEEK_END)
        check_archive(file)
        with zipfile.ZipFile(file) as directory:
            _check_directory(directory, size, limits)
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            yield arrays


def read_header(stream: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and type of the array in ``.npy`` format that a stream holds."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADER_READERS:
        raise ValueError(f"an array is of format {version}, wanted one of {[*_HEADER_READERS]}")
    shape, _, dtype = _HEADER_READERS[version](stream)
    return shape, dtype


def _check_directory(directory: zipfile.ZipFile, size: int, limits: dict[str, int]) -> None:
    """Refuse members that are no arrays, that occur twice, or that claim more than there is."""
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
