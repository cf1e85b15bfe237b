"""Small instances of the program for labels, and the formulas of the paper as printed."""

import itertools

import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.problems.label_sums import label_sums

C, C_STAR = 0.7, 0.3


class Case:
    """Rows of which the first few are labeled, and kernels between them."""

    def __init__(self, seed, n_unlabeled=9, d=3, n_labeled=5, center=False, positive_rows=True):
        rng = np.random.default_rng(seed)
        n = n_labeled + n_unlabeled
        self.X = rng.random((n, d)) if positive_rows else rng.normal(size=(n, d))
        self.X[rng.random((n, d)) < 0.2] = 0.0
        self.y = np.append(np.arange(n_labeled) % 2, np.full(n_unlabeled, -1))
        # unlabeled rows among the labeled ones, so that row numbers matter
        order = rng.permutation(n)
        self.X, self.y = self.X[order], self.y[order]
        self.free = self.y < 0
        self.center = center
        Z = self.X - self.X[self.free].mean(axis=0) if center else self.X
        self.U, self.L = Z[self.free], Z[~self.free]
        if center:
            self.L = self.L - self.L.mean(axis=0)
        self.Y = np.where(self.y[~self.free] == 1, 1.0, -1.0)
        self.Kuu, self.Klu = self.U @ self.U.T, self.L @ self.U.T
        self.u = n_unlabeled

    def engine(self, sparse=False):
        X = sp.csr_array(self.X) if sparse else self.X
        return ingest(X, self.y).place(np.array([0, 1]))

    def sums(self, engine):
        return label_sums(engine, 1, np.full(2, C), C_STAR, self.center)

    def objective(self, P):
        """Eq. (11)."""
        rest = 1.0 - P
        return 0.5 * C_STAR**2 * rest @ self.Kuu @ P + C * C_STAR * self.Y @ self.Klu @ rest

    def gradient(self, P):
        """Of eq. (13)."""
        linear = 0.5 * C_STAR**2 * self.Kuu.sum(axis=0) - C * C_STAR * self.Y @ self.Klu
        return linear - C_STAR**2 * self.Kuu @ P

    def set_function(self, A, d):
        """Eq. (17), for kernel values from 0 to d."""
        A = list(A)
        value = -0.5 * C_STAR**2 * sum(self.Kuu[j, k] for j in A for k in range(self.u))
        value += C * C_STAR * sum(self.Y[i] * self.Klu[i, j] for j in A for i in range(len(self.Y)))
        value += 0.5 * C_STAR**2 * sum(self.Kuu[j, k] for j in A for k in A)
        extra = 1.5 * C_STAR**2 * self.u + C * C_STAR * len(self.Y)
        return value + d * sum((j == k) * extra - 0.5 * C_STAR**2 for j in A for k in A)

    def raw(self, P):
        """Sum of raw rows, and of P."""
        return np.append(P @ self.X[self.free], P.sum())

    def member(self, A):
        return np.isin(np.arange(self.u), list(A)).astype(float)

    def sets(self, size):
        return itertools.combinations(range(self.u), size)
