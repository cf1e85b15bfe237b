"""The eigendecomposition of regularized least squares, also of columns of very different sizes.

    H = sum_i d_i^2 z_i z_i^T = U L U^T,    w = (H + lam)^-1 b

serves every lam. The eigenvalues of a matrix come with errors of about eps times the largest one.
If one column is a time in seconds, 1.7e9, that is more than all that the others have to tell.
`decompose_graded` finds the small ones too: it takes the rows about their mean,

    H = C + W m m^T = R^T R,    C = S V K V^T S,    R = [K^1/2 V^T S; W^1/2 m^T]

where S has the roots of the diagonal of C, so that every column of R is known to its own precision.
A one-sided Jacobi method finds the singular values of such an R, and its right vectors U, with
errors relative to each (Demmel, Veselic, Jacobi's Method is More Accurate than QR, 1992).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

#: Eigenvalues below this part of the largest one are zero up to rounding.
SMALLEST = 1e-14

#: Directions that together contribute less than this part of any fitness are dropped.
NEGLIGIBLE = 1e-12

#: The trace of H from which rounding can matter to any sensible lam, and its largest ratio to the
#: variance of a column for which plain eigenvalues have digits enough.
LARGE_TRACE = 1e4
WIDE_RANGE = 1e8


#: Columns for each row from which on H is decomposed by its few rows.
FEW = 3


@dataclass(frozen=True, eq=False)
class Spectrum:
    """H = U L U^T without the eigenvalues that are zero.

    values : (q,) L, descending.
    vectors : (d, q) U.
    """

    values: np.ndarray
    vectors: np.ndarray

    def coordinates(self, moments: np.ndarray, lam: float) -> np.ndarray:
        """v = (L + lam)^-1/2 U^T b of moments b, (d,) or (d, k)."""
        return ((self.vectors.T @ moments).T / np.sqrt(self.values + lam)).T

    def weights(self, moments: np.ndarray, lam: float) -> np.ndarray:
        """w = (H + lam)^-1 b of moments b in the span of the rows, (d,) or (d, k)."""
        return self.vectors @ ((self.vectors.T @ moments).T / (self.values + lam)).T

    def factor(self, lam: float) -> np.ndarray:
        """M = U (L + lam)^-1/2, so that v = M^T b, without negligible directions."""
        kept = self.n_kept(lam)
        return self.vectors[:, :kept] / np.sqrt(self.values[:kept] + lam)

    def n_kept(self, lam: float) -> int:
        """Number of directions without those whose L / (L + lam) add up to `NEGLIGIBLE` at most."""
        share = self.values / (self.values + lam)
        tail = np.cumsum(share[::-1])[::-1]
        return max(1, int(np.count_nonzero(tail > NEGLIGIBLE)))


def is_graded(squares: np.ndarray, variances: np.ndarray, bias: float = 0.0) -> bool:
    """Whether columns differ so much in size that plain eigenvalues would lose some of them.

    squares, variances : (d,) weighted sums of squares of the columns, as they are and about the
        mean. A variance may be lost to rounding altogether.
    bias : the same of the column of the bias, beside which all others may be tiny.
    """
    trace = float(np.add.reduce(squares))
    if 0.0 < WIDE_RANGE * trace < bias:
        return True
    return trace > LARGE_TRACE and trace > WIDE_RANGE * float(variances.min())


def decompose(gram: np.ndarray, n_rows: int | None = None) -> Spectrum:
    """Decompose H, symmetric up to rounding; the largest entry of each vector is positive.

    n_rows : number of rows that H is a sum over; None if it is not known.
    """
    gram = (gram + gram.T) / 2.0
    if n_rows is not None and 0 < FEW * n_rows <= len(gram):
        values, vectors = _eigh_of_few(gram, n_rows)
    else:
        values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = max(1, int(np.count_nonzero(values > SMALLEST * max(values[0], 0.0))))
    values, vectors = np.maximum(values[:kept], 0.0), vectors[:, :kept]
    return Spectrum(values, np.ascontiguousarray(vectors * _signs(vectors)))


def _eigh_of_few(gram: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues that are not 0, ascending, and their vectors, of a sum over few rows.

    H = L L^T with as many columns of L as there are rows (Cholesky with pivots), L = Q R, and
    R R^T = V S V^T: H = (Q V) S (Q V)^T. All of it is of order d n^2, where `eigh` is of order d^3.
    """
    largest = float(np.diagonal(gram).max())
    if not largest > 0.0:
        return np.linalg.eigh(gram)
    lower, pivots, rank, _ = lapack.dpstrf(gram, lower=1, tol=SMALLEST * largest)
    rank = min(rank, n_rows)  # what is left beyond is rounding
    root = np.empty((len(gram), rank))
    root[pivots - 1] = np.tril(lower)[:, :rank]
    base, inner = np.linalg.qr(root)
    values, vectors = np.linalg.eigh(inner @ inner.T)
    return values, base @ vectors


def decompose_graded(scatter: np.ndarray, mean: np.ndarray, total: float) -> Spectrum:
    """Decompose H = C + W m m^T; see above.

    Parameters
    ----------
    scatter : (d, d) C, the Gram matrix of the rows about their mean.
    mean : (d + 1,) m, with the value that every row has in one more column, the bias.
    total : W, the sum of the weights.

    Returns
    -------
    Spectrum of H, with (d + 1, q) vectors for rows *about the mean* that have a 1 behind: for a row
    z the products are (z - m).U + m.U, and the last row of the vectors is m.U.
    """
    sizes = np.sqrt(np.maximum(np.diagonal(scatter), 0.0))
    scales = np.where(sizes > 0, sizes, 1.0)
    inner = decompose(scatter / scales[:, None] / scales)
    n_inner, width = len(inner.values), len(mean)
    root = np.zeros((max(n_inner + 1, width), width))
    root[:n_inner, :-1] = np.sqrt(inner.values)[:, None] * inner.vectors.T * scales
    root[n_inner] = np.sqrt(total) * mean
    singular, left, right, work, _, status = lapack.dgejsv(root, joba=0, jobu=0, jobv=0)
    if status != 0:
        raise ArithmeticError(f"the singular values of the rows were not found ({status})")
    singular = singular * (work[0] / work[1])
    kept = max(1, int(np.count_nonzero(singular[: n_inner + 1] > 0)))
    shifts = left[n_inner, :kept] * singular[:kept] / np.sqrt(total)
    vectors = np.vstack([right[:-1, :kept], shifts])
    return Spectrum(np.square(singular[:kept]), vectors * _signs(right[:, :kept]))


def _signs(vectors: np.ndarray) -> np.ndarray:
    """-1 for vectors whose largest entry is negative, else 1."""
    extreme = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.where(extreme < 0, -1.0, 1.0)
