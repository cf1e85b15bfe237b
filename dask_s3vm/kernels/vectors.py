"""Loops over a few vectors of length d at once, for solvers at the client.

Sums run in the order that is written here, whatever BLAS is installed and however many threads
it would use.
"""

import numpy as np

from dask_s3vm.kernels.compiler import kernel

#: Columns that are worked on at a time: their part of the result stays in the fastest cache.
BLOCK = 1024


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """Inner product whose bits do not depend on the number of BLAS threads."""
    return float(np.add.reduce(a * b))


def norm(a: np.ndarray) -> float:
    """Euclidean norm, by `dot`."""
    return float(np.sqrt(dot(a, a)))


@kernel
def products(vectors: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out[k] = (vectors[k].a, vectors[k].b), from one read of each of the vectors."""
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
    """Run the two loops of L-BFGS on q = c gradient + sum_k out_k v_k, keeping only out.

    Rows 2 i and 2 i + 1 of the kept vectors v are the pair (s_i, y_i); `inner` has their products,
    `slopes` those with the gradient, `order` the pairs from the oldest to the newest. In the end
    c = scale.
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
