"""Arrow IPC files written straight from arrays, every buffer at a multiple of 64 bytes.

pyarrow's own writer places buffers at multiples of 8 bytes and offers no other choice; rows that
are used where they lie in a mapped file should start at a cache line. So the frames around the
buffers are made here: pyarrow writes a tiny batch of the same schema, and of its message and its
footer (flatbuffers, whose layout does not depend on the numbers in them) the sizes and positions
are replaced. What comes out is an ordinary Arrow file. All messages have multiples of 64 bytes,
and positions inside one count from its own start, so files of one schema are joined by copying.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, NamedTuple

__all__ = ["Frame", "batch_message", "file_head", "file_tail", "write_buffers"]

_ALIGN = 64
_MAGIC = b"ARROW1"
_CONTINUE = b"\xff\xff\xff\xff"

# Fields of the flatbuffer tables of the format: Message.fbs, File.fbs.
_MESSAGE_HEADER, _MESSAGE_BODY_LENGTH = 2, 3
_BATCH_LENGTH, _BATCH_NODES, _BATCH_BUFFERS = 0, 1, 2
_FOOTER_BATCHES = 3


class Frame(NamedTuple):
    """Where a record batch stands in a file, and how long its message and its buffers are."""

    offset: int
    header: int
    body: int


def file_head(schema: Any) -> bytes:
    """Return the start of a file: all that stands before the first record batch."""
    message = schema.serialize().to_pybytes()
    if message[:4] != _CONTINUE:
        raise ValueError("pyarrow writes messages of an old kind")
    return _MAGIC + b"\0\0" + _pad_message(message[8:], before=8)


def batch_message(
    schema: Any, n_rows: int, lengths: Sequence[int], sizes: Sequence[int]
) -> tuple[bytes, int]:
    """Return the message that stands before the buffers of a record batch.

    Parameters
    ----------
    schema : pyarrow.Schema
        The schema; its columns must not hold nulls.
    n_rows : int
        Number of rows.
    lengths : sequence of int
        Entries of every column, and behind that of a list column those of its items.
    sizes : sequence of int
        Bytes of all buffers in the order of the format; 0 for those of null marks.

    Returns
    -------
    message : bytes
        The message.
    body : int
        Bytes that the buffers take, each filled up to a multiple of 64.
    """
    tiny, (frame,) = _tiny_file(schema, 1)
    text = bytearray(tiny[frame.offset + 8 : frame.offset + frame.header])
    message = _root(text)
    header = _follow(text, _field(text, message, _MESSAGE_HEADER))
    _put(text, _field(text, header, _BATCH_LENGTH), "<q", n_rows)
    nodes = _vector(text, header, _BATCH_NODES, len(lengths))
    for i, length in enumerate(lengths):
        _put(text, nodes + 16 * i, "<qq", length, 0)
    buffers = _vector(text, header, _BATCH_BUFFERS, len(sizes))
    position = 0
    for i, size in enumerate(sizes):
        _put(text, buffers + 16 * i, "<qq", position, size)
        position += _padded(size)
    _put(text, _field(text, message, _MESSAGE_BODY_LENGTH), "<q", position)
    return _pad_message(bytes(text)), position


def write_buffers(stream: BinaryIO, buffers: Iterable[Any]) -> None:
    """Write buffers one after the other, each filled up to a multiple of 64 bytes."""
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        stream.write(view)
        stream.write(bytes(_padded(len(view)) - len(view)))


def file_tail(schema: Any, frames: Sequence[Frame]) -> bytes:
    """Return the end of a file: all that stands behind the last record batch."""
    tiny, _ = _tiny_file(schema, len(frames))
    (size,) = struct.unpack_from("<i", tiny, len(tiny) - 10)
    text = bytearray(tiny[len(tiny) - 10 - size : len(tiny) - 10])
    blocks = _vector(text, _root(text), _FOOTER_BATCHES, len(frames)) if frames else 0
    for i, frame in enumerate(frames):
        _put(text, blocks + 24 * i, "<qi4xq", frame.offset, frame.header, frame.body)
    return _CONTINUE + bytes(4) + bytes(text) + struct.pack("<i", size) + _MAGIC


def _tiny_file(schema: Any, n_batches: int) -> tuple[bytes, list[Frame]]:
    """Let pyarrow write batches of one row each; return the file and where they are in it."""
    import pyarrow as pa

    row = [pa.array([_sample(field.type)], type=field.type) for field in schema]
    batch = pa.record_batch(row, schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for _ in range(n_batches):
            writer.write_batch(batch)
    tiny = sink.getvalue().to_pybytes()
    if not n_batches:
        return tiny, []
    (size,) = struct.unpack_from("<i", tiny, len(tiny) - 10)
    text = bytearray(tiny[len(tiny) - 10 - size : len(tiny) - 10])
    blocks = _vector(text, _root(text), _FOOTER_BATCHES, n_batches)
    return tiny, [
        Frame(*struct.unpack_from("<qi4xq", text, blocks + 24 * i)) for i in range(n_batches)
    ]


def _sample(kind: Any) -> Any:
    """Return a value of a type that is not a default, so that its place is not left out."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return [1] * kind.list_size
    if pa.types.is_list(kind):
        return [1]
    return "a" if pa.types.is_string(kind) else 1


def _pad_message(text: bytes, before: int = 0) -> bytes:
    """Put a message's length in front; fill it up so that it ends at a multiple of 64."""
    size = _padded(before + 8 + len(text)) - before - 8
    return _CONTINUE + struct.pack("<i", size) + text + bytes(size - len(text))


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _root(text: bytearray) -> int:
    return int(struct.unpack_from("<I", text, 0)[0])


def _follow(text: bytearray, position: int) -> int:
    return position + int(struct.unpack_from("<I", text, position)[0])


def _field(text: bytearray, table: int, number: int) -> int:
    """Return where a field of a flatbuffer table stands."""
    places = table - struct.unpack_from("<i", text, table)[0]
    (size,) = struct.unpack_from("<H", text, places)
    slot = 4 + 2 * number
    (offset,) = struct.unpack_from("<H", text, places + slot) if slot < size else (0,)
    if not offset:
        raise ValueError(f"pyarrow left out field {number} of a message")
    return int(table + offset)


def _vector(text: bytearray, table: int, number: int, length: int) -> int:
    """Return where the first item of a vector of structs stands; its length must be as given."""
    start = _follow(text, _field(text, table, number))
    if struct.unpack_from("<I", text, start)[0] != length:
        raise ValueError(f"pyarrow wrote another number of items than {length}")
    return start + 4


def _put(text: bytearray, position: int, layout: str, *values: int) -> None:
    struct.pack_into(layout, text, position, *values)
