"""Archives of values and arrays: without pickle, without loss, and read with distrust.

The archives are ``.npz`` files. In the comment at the end of those that we write stands the CRC-32
of the whole file: it finds any damage within 32 bits, and other damage but for 1 in 2**32. Files
without it, written by others, are read as well.

Values are kept as JSON. JSON has no tuples, no numpy types, no infinite numbers, and turns all keys
into strings. What it lacks is written as an object with a single key that starts with ``$``. Arrays
go beside the JSON text, into a dict of named arrays.
"""

import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, cast

import numpy as np

from dask_s3vm.io.store import Url, open_input

__all__ = ["BROKEN", "STEP", "Summing", "check_archive", "decode", "encode", "open_arrays",
           "opened_archive", "read_header", "sum_range", "write_arrays"]  # fmt: skip

#: Shape and type of an array.
Head = tuple[tuple[int, ...], np.dtype]

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
    """Open an uncompressed ``.npz`` archive that must be one of ours: see `opened_archive`."""
    with open_input(path) as file:
        check_archive(file)
        with opened_archive(file, limits) as (arrays, _):
            yield arrays


@contextmanager
def opened_archive(
    file: Any, limits: dict[str, int] | None = None
) -> Iterator[tuple[Any, dict[str, Head]]]:
    """Open an ``.npz`` archive whose promises about sizes have been checked.

    An archive can claim any size for its members, and a member any shape for its array; reading
    would reserve that much memory. Here nothing is believed that the member is too short for.
    `limits` are the most bytes allowed for arrays of these names, 8 GiB for all others; nothing but
    uncompressed arrays is then allowed. Without limits, other members are ignored. The caller
    checks the checksum. Gives the arrays, read when asked for, and their shapes and types.
    """
    if not zipfile.is_zipfile(file):  # np.load reads other kinds of files too
        raise ValueError("is not an .npz archive")
    size, heads = file.seek(0, io.SEEK_END), {}
    with zipfile.ZipFile(file) as directory:
        for info in directory.infolist():
            name = info.filename.removesuffix(".npy")
            if limits is not None:
                if name == info.filename or name in heads:
                    raise ValueError(f"member {info.filename!r} is not an array, or occurs twice")
                limit = limits.get(name, _LARGEST_MEMBER)
                if info.file_size > limit:
                    raise ValueError(f"member {name!r} has {info.file_size} bytes, limit {limit}")
                if info.compress_type != zipfile.ZIP_STORED or info.file_size > size:
                    raise ValueError(f"member {name!r} is compressed or longer than the file")
            if name != info.filename:
                heads[name] = _member_head(directory, info, name)
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        yield arrays, heads


def read_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, order (whether Fortran's) and type of the ``.npy`` array in a stream."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADER_READERS:
        raise ValueError(f"an array is of format {version}, wanted one of {[*_HEADER_READERS]}")
    try:
        return _HEADER_READERS[version](stream)
    except (SyntaxError, tokenize.TokenError, RecursionError) as error:  # numpy parses it as Python
        raise ValueError(f"an array has a header that cannot be read: {error}") from error


def _member_head(directory: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Head:
    """Refuse an array that holds Python objects, or does not fill its member."""
    with directory.open(info) as stream:
        shape, _, dtype = read_header(stream)
        if dtype.hasobject:
            raise ValueError(f"array {name!r} holds Python objects")
        if any(length < 0 for length in shape):
            raise ValueError(f"array {name!r} has the shape {shape}")
        # Python numbers do not overflow
        if stream.tell() + math.prod(map(int, shape)) * dtype.itemsize != info.file_size:
            raise ValueError(f"array {name!r} of shape {shape} does not fit its member")
        return shape, dtype


# Checksums ----------------------------------------------------------------------------------------

#: Bytes that are read at once.
STEP = 2**24
_COMMENT = b"dask-s3vm crc32 %08x"


class Summing:
    """A stream that sums up what is written to it, and passes it on."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.at = 0
        self.sum = 0

    def write(self, data: Any) -> int:
        """Write bytes."""
        view = memoryview(data).cast("B")
        self.stream.write(view)
        self.sum = zlib.crc32(view, self.sum)
        self.at += len(view)
        return len(view)

    def flush(self) -> None:
        """Do nothing: the stream below is flushed by its owner."""

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return self.at


def write_arrays(stream: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an ``.npz`` archive; the checksum is that of the archive without a comment."""
    summing = Summing(stream)
    with zipfile.ZipFile(cast(IO[bytes], summing), "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    comment = _COMMENT % summing.sum
    stream.seek(-2, io.SEEK_CUR)
    stream.write(struct.pack("<H", len(comment)) + comment)


def check_archive(file: Any) -> None:
    """Refuse an archive that was damaged, if it has a checksum; go to its start."""

    def read(low: int, high: int) -> bytes:
        file.seek(low)
        content: bytes = file.read(high - low)
        return content

    with zipfile.ZipFile(file) as archive:
        comment = archive.comment
    at = file.seek(0, io.SEEK_END) - len(comment)
    (length,) = struct.unpack("<H", read(at - 2, at))
    found = zlib.crc32(b"\0\0", sum_range(read, 0, at - 2)) if comment else 0
    file.seek(0)
    if length != len(comment) or (comment and comment != _COMMENT % found):
        raise ValueError("is damaged: its checksum is not that of its content")


def sum_range(read: Callable[[int, int], Any], low: int, high: int, start: int = 0) -> int:
    """Return the checksum of bytes `low` to `high`, after those that `start` is the sum of."""
    for at in range(low, high, STEP):
        start = zlib.crc32(read(at, min(at + STEP, high)), start)
    return start


# Values as JSON -----------------------------------------------------------------------------------

_KINDS = "biufU"  # truth values, whole numbers, real numbers, text


def encode(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return a value as something that JSON can hold; TypeError if it is of another type.

    It is None, a number, a string, an array, or tuples, lists and dicts of these. `name` is that of
    its array, and used in errors; `arrays` gets the arrays found.
    """
    if isinstance(value, np.ndarray):
        return _encode_array(value, name, arrays)
    if isinstance(value, np.generic):
        return _encode_scalar(value, name)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list | tuple):
        items = [encode(item, f"{name}[{i}]", arrays) for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}
    if isinstance(value, dict):
        return _encode_dict(value, name, arrays)
    raise TypeError(f"{name} is a {type(value).__qualname__}, which a model file cannot hold")


def decode(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return what `encode` was given; an error (LookupError too) if it cannot have written this."""
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if not tag.startswith("$"):
        return {key: decode(item, arrays) for key, item in value.items()}
    if len(value) != 1 or tag not in _DECODERS:
        raise ValueError(f"unknown kind of value {list(value)[:3]}")
    return _DECODERS[tag](value[tag], arrays)


def _encode_array(value: np.ndarray, name: str, arrays: dict[str, np.ndarray]) -> Any:
    member = _member_name(name, arrays)
    if value.dtype.kind in _KINDS:
        arrays[member] = np.asarray(value)
        return {"$array": member}
    if value.dtype == object and all(isinstance(item, str) for item in value.flat):
        text = value.astype(np.str_)
        # numpy drops NUL characters at the end of a text.
        if (text.astype(object) == value).all():
            arrays[member] = text
            return {"$strings": member}
    raise TypeError(f"{name} is an array of type {value.dtype}, which a model file cannot hold")


def _member_name(name: str, arrays: dict[str, np.ndarray]) -> str:
    """Return a free name: for a fitted attribute its own one, so that others can find it."""
    word = name.rpartition(" ")[2]
    if word.isidentifier() and word.endswith("_") and word not in arrays:
        return word
    return f"array-{len(arrays)}"


def _encode_scalar(value: np.generic, name: str) -> Any:
    dtype = value.dtype
    if dtype.kind not in _KINDS or (dtype.kind == "f" and dtype.itemsize > 8):
        raise TypeError(f"{name} is a {dtype}, which a model file cannot hold")
    # The plain value is exact: a float64 holds every float32 and float16.
    plain = encode(value.item(), name, {})
    return {"$scalar": ["str" if dtype.kind == "U" else dtype.name, plain]}


def _encode_dict(value: dict[Any, Any], name: str, arrays: dict[str, np.ndarray]) -> Any:
    items = [(key, encode(item, f"{name}[{key!r}]", arrays)) for key, item in value.items()]
    if all(type(key) is str and not key.startswith("$") for key in value):
        return dict(items)
    return {"$items": [[encode(key, f"a key of {name}", arrays), item] for key, item in items]}


def _decode_scalar(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    name, plain = value
    number = decode(plain, arrays)
    if not isinstance(name, str) or not isinstance(number, bool | int | float | str):
        raise ValueError(f"wrong scalar {value!r:.80}")
    dtype = np.dtype(name)
    if dtype.kind not in _KINDS:
        raise ValueError(f"unknown type {name!r}")
    return dtype.type(number)


def _decode_array(value: Any, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    array = arrays[value]
    if array.dtype.kind not in _KINDS:
        raise ValueError(f"array {value!r} is of type {array.dtype}")
    return array


_DECODERS: dict[str, Any] = {
    "$array": _decode_array,
    "$strings": lambda value, arrays: _decode_array(value, arrays).astype(object),
    "$scalar": _decode_scalar,
    "$float": lambda value, arrays: float(value),
    "$tuple": lambda value, arrays: tuple(decode(item, arrays) for item in value),
    "$items": lambda value, arrays: {
        decode(key, arrays): decode(item, arrays) for key, item in value
    },
}
