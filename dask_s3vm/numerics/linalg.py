"""Linear algebra whose bits do not depend on BLAS threads.

Products and combinations of a few vectors of length d, for solvers at the client: sums run in the
order written here, with no BLAS involved. `one_blas_thread` is for code that uses BLAS: the last
bits of a product depend on how many threads share it.
"""

import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import threadpoolctl

from dask_s3vm.numerics.compiler import kernel

#: Columns processed at a time: their part of the result stays in the fastest cache.
BLOCK = 1024


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """Inner product whose bits do not depend on the number of BLAS threads."""
    return float(np.add.reduce(a * b))


def norm(a: np.ndarray) -> float:
    """Euclidean norm, from `dot`."""
    return float(np.sqrt(dot(a, a)))


@kernel
def products(vectors: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out[k] = (vectors[k].a, vectors[k].b), from one read of each vector."""
    n = a.size
    quads = n // 4
    for k in range(out.shape[0]):
        row = vectors[k]
        a0 = a1 = a2 = a3 = 0.0
        b0 = b1 = b2 = b3 = 0.0
        for quad in range(quads):
            j = 4 * quad
            a0 += row[j] * a[j]
            a1 += row[j + 1] * a[j + 1]
            a2 += row[j + 2] * a[j + 2]
            a3 += row[j + 3] * a[j + 3]
            b0 += row[j] * b[j]
            b1 += row[j + 1] * b[j + 1]
            b2 += row[j + 2] * b[j + 2]
            b3 += row[j + 3] * b[j + 3]
        for j in range(4 * quads, n):
            a0 += row[j] * a[j]
            b0 += row[j] * b[j]
        out[k, 0] = (a0 + a1) + (a2 + a3)
        out[k, 1] = (b0 + b1) + (b2 + b3)


@kernel
def combine(vectors: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
    """Out += sum_k weights[k] vectors[k]."""
    n = out.size
    for low in range(0, n, BLOCK):
        part = out[low : min(low + BLOCK, n)]
        for k in range(weights.size):
            row, weight = vectors[k, low : low + part.size], weights[k]
            for j in range(part.size):
                part[j] += weight * row[j]


@kernel
def two_loops(
    inner: np.ndarray, slopes: np.ndarray, order: np.ndarray, scale: float, out: np.ndarray
) -> None:
    """Two-loop recursion of L-BFGS on q = c gradient + sum_k out_k v_k, in the coefficients only.

    Vectors v_{2i} and v_{2i+1} are the pair (s_i, y_i). `inner` has the inner products of all
    vectors, `slopes` those with the gradient, `order` the pairs from the oldest to the newest. At
    the end c = scale.
    """
    out[:] = 0.0
    alpha = np.zeros(order.size)
    for k in range(order.size - 1, -1, -1):
        s = 2 * order[k]
        total = slopes[s]
        for j in range(out.size):
            total += inner[s, j] * out[j]
        alpha[k] = total / inner[s, s + 1]
        out[s + 1] -= alpha[k]
    out *= scale
    for k in range(order.size):
        s = 2 * order[k]
        total = scale * slopes[s + 1]
        for j in range(out.size):
            total += inner[s + 1, j] * out[j]
        out[s] += alpha[k] - total / inner[s, s + 1]


# Steps of conjugate gradients: each reads and writes every vector once. With a handful of numpy
# calls in their place, a step over a million columns takes longer than the product with the rows.


@kernel
def step_along(
    x: np.ndarray,
    r: np.ndarray,
    p: np.ndarray,
    product: np.ndarray,
    inverse: np.ndarray,
    alpha: float,
) -> tuple[float, float]:
    """Move x by alpha p and r by -alpha product; return r.r and r.z with z = inverse * r."""
    n = x.size
    quads = n // 4
    square, inner = np.zeros(4), np.zeros(4)
    for quad in range(quads):
        for lane in range(4):
            j = 4 * quad + lane
            x[j] += alpha * p[j]
            r[j] -= alpha * product[j]
            square[lane] += r[j] * r[j]
            inner[lane] += r[j] * (inverse[j] * r[j])
    for j in range(4 * quads, n):
        x[j] += alpha * p[j]
        r[j] -= alpha * product[j]
        square[0] += r[j] * r[j]
        inner[0] += r[j] * (inverse[j] * r[j])
    return (
        (square[0] + square[1]) + (square[2] + square[3]),
        (inner[0] + inner[1]) + (inner[2] + inner[3]),
    )


@kernel
def update_direction(p: np.ndarray, r: np.ndarray, inverse: np.ndarray, beta: float) -> None:
    """Set p to inverse * r + beta p."""
    for j in range(p.size):
        p[j] = inverse[j] * r[j] + beta * p[j]


@kernel
def add_multiple(out: np.ndarray, v: np.ndarray, factor: float) -> float:
    """Add factor v to a vector; return v.v."""
    n = v.size
    quads = n // 4
    square = np.zeros(4)
    for quad in range(quads):
        for lane in range(4):
            j = 4 * quad + lane
            out[j] += factor * v[j]
            square[lane] += v[j] * v[j]
    for j in range(4 * quads, n):
        out[j] += factor * v[j]
        square[0] += v[j] * v[j]
    return (square[0] + square[1]) + (square[2] + square[3])


# A symmetric positive definite matrix ---------------------------------------------------------


def factored(matrix: np.ndarray) -> np.ndarray:
    """Lower triangular L with L L^T = matrix, except for rounding.

    The matrix is brought to a diagonal of 1 before, so that columns of very different sizes do no
    harm, and as much is added there as rounding may have taken away: it is positive definite then.
    """
    n = len(matrix)
    root = np.sqrt(np.diagonal(matrix))
    scaled = matrix / root[:, None] / root
    scaled[np.diag_indices(n)] = 1.0 + 10.0 * n * np.finfo(float).eps
    with one_blas_thread():
        return np.linalg.cholesky(scaled) * root[:, None]


@kernel
def solve_factored(factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with L L^T x = b, for a lower triangular L; see `factored`."""
    x = b.copy()
    for i in range(x.size):
        row = factor[i]
        quads = i // 4
        total = np.zeros(4)
        for quad in range(quads):
            for lane in range(4):
                j = 4 * quad + lane
                total[lane] += row[j] * x[j]
        for j in range(4 * quads, i):
            total[0] += row[j] * x[j]
        x[i] = (x[i] - ((total[0] + total[1]) + (total[2] + total[3]))) / row[i]
    for i in range(x.size - 1, -1, -1):
        row = factor[i]
        x[i] /= row[i]
        for j in range(i):
            x[j] -= row[j] * x[i]
    return x


# BLAS on one thread ---------------------------------------------------------------------------


_lock = threading.Lock()
_inside = 0
_former: list[tuple[Any, int]] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the context; parallelism is over blocks.

    The number of BLAS threads belongs to the process: the first thread that enters sets the limit,
    the last one that leaves restores the former number. A limit that the user holds with
    threadpoolctl in another thread stays. Entering and leaving takes some microseconds.
    """
    global _inside
    with _lock:
        if _inside == 0:
            libraries = _libraries("scipy.linalg" in sys.modules)
            _former[:] = [(library, library.get_num_threads()) for library in libraries]
            for library in libraries:
                _set_threads(library, 1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for library, number in _former:
                    _set_threads(library, number)


def _set_threads(library: Any, number: int) -> None:
    library.set_num_threads(number)
    # threadpoolctl lets one thread alone set the number, until that gives the right back
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread()


@functools.cache
def _libraries(with_scipy: bool) -> list[Any]:
    """Find the BLAS libraries of this process: numpy and, once it is loaded, scipy bring one."""
    found = threadpoolctl.ThreadpoolController().lib_controllers
    return [library for library in found if library.user_api == "blas"]
