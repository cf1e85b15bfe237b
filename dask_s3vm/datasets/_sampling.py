"""What the generators share: draws by row number, dask arrays by chunk, checks of arguments.

Draw k of row i is a hash of (seed, i, k); see `numerics.random`. Any chunk of rows can therefore be
made alone, in any order and on any thread, and always comes out the same.
"""

import hashlib
import math
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
import sparse

from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.random import row_key, uniform

# Draws by row number --------------------------------------------------------------------------


def stream_seed(random_state: int, stream: str) -> np.uint64:
    """Return the 64-bit seed of a named stream; streams of one `random_state` are unrelated."""
    digest = hashlib.blake2b(f"{stream}/{random_state}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


@kernel
def row_keys(seed: np.uint64, start: int, stop: int) -> np.ndarray:
    """Return the keys of the rows from `start` up to, not including, `stop`."""
    keys = np.empty(stop - start, np.uint64)
    for i in range(stop - start):
        keys[i] = row_key(seed, start + i)
    return keys


@kernel
def normal_pair(key: np.uint64, draw: int) -> tuple[float, float]:
    """Return two independent standard normals from the draws `draw` and `draw + 1` (Box-Muller)."""
    # 1 - u lies in (0, 1], where the logarithm is finite.
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, draw)))
    angle = 2.0 * math.pi * uniform(key, draw + 1)
    return radius * math.cos(angle), radius * math.sin(angle)


@kernel
def uniform_matrix(keys: np.ndarray, n_draws: int) -> np.ndarray:
    """Return the first draws of every key, one row for each."""
    draws = np.empty((len(keys), n_draws))
    for i in range(len(keys)):
        for k in range(n_draws):
            draws[i, k] = uniform(keys[i], k)
    return draws


def permutation(seed: np.uint64, size: int) -> np.ndarray:
    """Return a random order of the numbers below `size`."""
    # Keys are distinct, so the order is the same whatever the sorting algorithm.
    return np.argsort(row_keys(seed, 0, size)).astype(np.int32)


# Alias tables: one uniform draw gives one item of a fixed distribution in constant time ---------


class Alias(NamedTuple):
    """Cell i holds item i up to the share ``keep[i]`` of the cell, and ``other[i]`` above."""

    keep: np.ndarray
    other: np.ndarray


def alias_table(probabilities: np.ndarray) -> Alias:
    """Build the alias table of a distribution."""
    return Alias(*_fill_table(np.asarray(probabilities, dtype=np.float64)))


@kernel
def _fill_table(probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair every cell below its share with one above it (Vose's method)."""
    size = len(probabilities)
    load = probabilities * (size / probabilities.sum())
    keep = np.ones(size)
    other = np.arange(size).astype(np.int32)
    small = np.empty(size, np.int32)
    large = np.empty(size, np.int32)
    n_small = n_large = 0
    for i in range(size):
        if load[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        low, high = small[n_small], large[n_large - 1]
        keep[low] = load[low]
        other[low] = high
        load[high] -= 1.0 - load[low]
        if load[high] < 1.0:
            n_large -= 1
            small[n_small] = high
            n_small += 1
    return keep, other


@kernel(inline="always")
def draw_item(table: Alias, key: np.uint64, draw: int) -> int:
    """Draw an item with draw number `draw` of the row with this key."""
    place = uniform(key, draw) * len(table.keep)
    # Rounding may carry the product up to the length itself.
    cell = min(int(place), len(table.keep) - 1)
    return cell if place - cell < table.keep[cell] else int(table.other[cell])


def zipf_weights(size: int, exponent: float, shift: float) -> np.ndarray:
    """Return the Zipf-Mandelbrot probabilities of ranks 0, 1, ..., ``size - 1``."""
    weights = (np.arange(size) + 1.0 + shift) ** -exponent
    return weights / weights.sum()


# Dask arrays from functions that make the rows [start, stop) ----------------------------------

#: "auto" splits evenly into chunks of at most this size, and thus of at least half of it.
_CHUNK_BYTES = 16 * 2**20

#: make(model, start, stop): the rows, or the classes, of that range.
MakeRows = Callable[[Any, int, int], Any]


def row_chunks(n_rows: int, chunks: Any, row_bytes: float) -> tuple[int, ...]:
    """Return the sizes of the row chunks; `row_bytes` is the mean size of a row."""
    if isinstance(chunks, str) and chunks == "auto":
        n_chunks = min(n_rows, math.ceil(n_rows * row_bytes / _CHUNK_BYTES))
        size = math.ceil(n_rows / n_chunks)
    elif isinstance(chunks, str | tuple | list) or chunks is None:
        raise TypeError(f"chunks must be 'auto' or a positive integer, got {chunks!r}")
    else:
        size = check_count("chunks", chunks)
    full, rest = divmod(n_rows, size)
    return (size,) * full + ((rest,) if rest else ())


def dask_rows(
    model: Any,
    make_rows: MakeRows,
    make_classes: MakeRows,
    rows: tuple[int, ...],
    meta: Any,
    n_features: int,
) -> tuple[da.Array, da.Array]:
    """Return lazy X and y whose chunks are made separately, by row numbers."""
    x = da.map_blocks(
        _make_block,
        model=model,
        make=make_rows,
        chunks=(rows, (n_features,)),
        dtype=meta.dtype,
        meta=meta,
    )
    y = da.map_blocks(
        _make_block,
        model=model,
        make=make_classes,
        chunks=(rows,),
        dtype=np.int8,
        meta=np.empty(0, np.int8),
    )
    return x, y


def _make_block(model: Any, make: MakeRows, block_info: Any = None) -> Any:
    start, stop = block_info[None]["array-location"][0]
    return make(model, int(start), int(stop))


# Sparse blocks --------------------------------------------------------------------------------

MAX_INDEX = np.iinfo(np.int32).max


def sparse_meta(block: str, dtype: np.dtype) -> Any:
    """Return an empty block of the kind "gcxs" or "scipy"."""
    if block == "scipy":
        return sp.csr_array((0, 0), dtype=dtype)
    return sparse.GCXS.from_numpy(np.empty((0, 0), dtype), compressed_axes=(0,))


def row_pointers(counts: np.ndarray) -> np.ndarray:
    """Return the 32-bit CSR row pointers of rows with these numbers of entries."""
    indptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=indptr[1:])
    if indptr[-1] > MAX_INDEX:
        raise ValueError(
            f"chunks must give fewer than {MAX_INDEX} nonzeros a chunk, got {len(counts)} rows "
            f"with {indptr[-1]} nonzeros"
        )
    return indptr.astype(np.int32)


def sparse_block(
    block: str, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_features: int
) -> Any:
    """Wrap CSR arrays, without copies, as a block of the kind "gcxs" or "scipy"."""
    shape = (len(indptr) - 1, n_features)
    if block == "scipy":
        matrix = sp.csr_array((data, indices, indptr), shape=shape)
        # True by construction; scipy would need a pass over the block to find out.
        matrix.has_canonical_format = True
        return matrix
    return sparse.GCXS((data, indices, indptr), shape=shape, compressed_axes=(0,))


# Checks of arguments --------------------------------------------------------------------------


def check_count(name: str, value: Any, upper: int | None = None) -> int:
    """Return `value` as an int if it is a positive integer, at most `upper`."""
    _check_integer(name, value, "a positive integer", 1)
    if upper is not None and value > upper:
        raise ValueError(f"{name} must be at most {upper}, got {value!r}")
    return int(value)


def check_seed(random_state: Any) -> int:
    """Return `random_state` as an int if it is a non-negative integer."""
    _check_integer("random_state", random_state, "a non-negative integer", 0)
    return int(random_state)


def _check_integer(name: str, value: Any, wanted: str, lower: int) -> None:
    # A bool is an Integral, too, but never meant as a count.
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    if int(value) < lower:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def check_real(name: str, value: Any, lower: float, upper: float, wanted: str) -> float:
    """Return `value` as a float if it lies between the bounds, both included."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    # "value < lower or value > upper" would let nan pass.
    if not lower <= float(value) <= upper:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    return float(value)


def check_block(block: Any) -> str:
    """Return `block` if it names a kind of sparse block."""
    if block not in ("gcxs", "scipy"):
        raise ValueError(f"block must be 'gcxs' or 'scipy', got {block!r}")
    return str(block)


def check_dtype(dtype: Any) -> np.dtype:
    """Return `dtype` as a numpy dtype if it is float32 or float64."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
    return found
