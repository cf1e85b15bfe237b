"""Regularized least squares from one eigendecomposition, for every weight of the regularizer.

With rows z_i, weights d_i^2 and targets y_i,

    f(w) = sum_i d_i^2 (y_i - w.z_i)^2 + lam |w|^2,    H = sum_i d_i^2 z_i z_i^T = U L U^T
    w = (H + lam)^-1 b,                                b = sum_i d_i^2 y_i z_i
    min f = sum_i d_i^2 y_i^2 - |v|^2,                 v = (L + lam)^-1/2 U^T b

so H is decomposed once and each lam costs products with U alone.
"""

from dataclasses import dataclass

import numpy as np

#: Eigenvalues below this part of the largest are rounding errors of zeros.
SMALLEST = 1e-14

#: Directions are left out of a search that together change no fitness by more than this part.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True, eq=False)
class Spectrum:
    """H = U L U^T without the eigenvalues that are zero.

    values : (q,) L, the largest first.
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
        """M = U (L + lam)^-1/2, so that v = M^T b, (d, at most q).

        Directions whose L / (L + lam) add up to nothing are left out.
        """
        kept = self.n_kept(lam)
        return self.vectors[:, :kept] / np.sqrt(self.values[:kept] + lam)

    def n_kept(self, lam: float) -> int:
        """How many directions a search needs."""
        share = self.values / (self.values + lam)
        tail = np.cumsum(share[::-1])[::-1]
        return max(1, int(np.count_nonzero(tail > NEGLIGIBLE)))


def decompose(gram: np.ndarray) -> Spectrum:
    """Eigendecomposition of H, symmetric up to rounding; signs of the vectors are fixed."""
    values, vectors = np.linalg.eigh((gram + gram.T) / 2.0)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = max(1, int(np.count_nonzero(values > SMALLEST * max(values[0], 0.0))))
    values, vectors = np.maximum(values[:kept], 0.0), vectors[:, :kept]
    extreme = vectors[np.abs(vectors).argmax(axis=0), np.arange(kept)]
    return Spectrum(values, np.ascontiguousarray(vectors * np.where(extreme < 0, -1.0, 1.0)))
