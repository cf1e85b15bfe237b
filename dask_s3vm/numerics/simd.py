"""Instructions that numba does not give: sums of products in vectors, prefetching.

Without fast-math LLVM leaves a loop with eight sums as eight chains of scalar additions. Here they
are written as one vector of eight. Each of its entries is added to in the order of the loop, so the
bits are the same on every processor, whatever the width of its registers.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.extending import intrinsic

#: Number of sums.
LANES = 8

_INT = ir.IntType(64)
_SUMS = ir.VectorType(ir.DoubleType(), LANES)


@intrinsic
def dot_in_eights(typingctx: Any, a: Any, b: Any) -> Any:
    """Sum a[k] b[k] over the whole eights of a (compiled code only).

    Sum number k % 8 has a[k] b[k]; the eight are added in pairs, and these in pairs.

    a : contiguous float32 or float64.
    b : contiguous float64, at least as long.
    """
    for array, kinds in ((a, (types.float32, types.float64)), (b, (types.float64,))):
        if not (isinstance(array, types.Array) and array.layout == "C" and array.dtype in kinds):
            raise errors.TypingError(f"no contiguous array of {kinds}: {array}")
    return types.float64(a, b), _dot


def _dot(context: Any, builder: Any, signature: Any, arrays: Any) -> Any:
    a, b = (
        context.make_array(kind)(context, builder, array)
        for kind, array in zip(signature.args, arrays, strict=True)
    )
    short = signature.args[0].dtype == types.float32
    sums = cgutils.alloca_once_value(builder, ir.Constant(_SUMS, [0.0] * LANES))
    n_eights = builder.udiv(builder.extract_value(a.shape, 0), _INT(LANES))
    with cgutils.for_range(builder, n_eights, intp=_INT) as loop:
        first = builder.mul(loop.index, _INT(LANES))
        left, right = _eight(builder, a.data, first, short), _eight(builder, b.data, first, False)
        builder.store(builder.fadd(builder.load(sums), builder.fmul(left, right)), sums)
    found = builder.load(sums)
    parts = [builder.extract_element(found, ir.IntType(32)(lane)) for lane in range(LANES)]
    while len(parts) > 1:
        parts = [builder.fadd(*parts[k : k + 2]) for k in range(0, len(parts), 2)]
    return parts[0]


def _eight(builder: Any, data: Any, first: Any, short: bool) -> Any:
    """Load eight numbers as float64; they are aligned as single ones are."""
    kind = ir.VectorType(ir.FloatType(), LANES) if short else _SUMS
    place = builder.bitcast(builder.gep(data, [first]), kind.as_pointer())
    found = builder.load(place, align=4 if short else 8)
    return builder.fpext(found, _SUMS) if short else found


@intrinsic
def prefetch(typingctx: Any, table: Any, row: Any) -> Any:
    """Ask for row number `row` of a table to be brought into the cache (compiled code only).

    table : contiguous, 2-dimensional.
    """
    if not (isinstance(table, types.Array) and table.layout == "C" and table.ndim == 2):
        raise errors.TypingError(f"no contiguous table: {table}")
    return types.void(table, types.int64), _prefetch


def _prefetch(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    table = context.make_array(signature.args[0])(context, builder, values[0])
    first = builder.mul(values[1], builder.extract_value(table.shape, 1))
    place = builder.bitcast(builder.gep(table.data, [first]), ir.IntType(8).as_pointer())
    word = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [place.type, word, word, word])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    builder.call(function, [place, word(1), word(3), word(1)])  # to write, into all caches, data
    return context.get_dummy_value()
