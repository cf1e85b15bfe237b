"""Outputs that are smooth along a graph of neighbors (Belkin, Niyogi & Sindhwani, 2006).

    f(w) = 1/2 sum_lab c_i max(0, 1 - y_i o_i)^2 + lam/2 |w|^2 + lam_m/2 w.M w

    w.M w = 1/|E| sum_{(i, j) in E} (o_i - o_j)^2,    M = 1/|E| X^T L X

with L = D - A the Laplacian of a graph with the edges E between neighboring rows. The bias drops
out of every difference. M is known at the client: the graph is over rows that were drawn there, and
its products take no round.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.numerics.linalg import dot, one_blas_thread
from dask_s3vm.problems.hinge import L2SVMProblem
from dask_s3vm.solvers.problem import Point, Slope

#: Rows whose distances to all others are computed at once.
BLOCK = 1024

#: Most columns of dense rows for which M is stored; else its products run over the rows.
MOST_COLUMNS = 2048


def neighbor_edges(rows: Any, n_neighbors: int, check: Callable[[], None]) -> np.ndarray:
    """Join each row to its nearest ones: (e, 2) numbers, the smaller first, no pair twice.

    Parameters
    ----------
    rows : (n, d) numpy or scipy.sparse.
    n_neighbors : neighbors of a row; all others where there are fewer.
    check : called after every block of rows; may raise.

    Costs: n^2 d products, by blocks; no round.
    """
    n = rows.shape[0]
    wanted = min(n_neighbors, n - 1)
    if wanted < 1:
        return np.empty((0, 2), dtype=np.int64)
    squares = _squares(rows)
    found = np.empty((n, wanted), dtype=np.int64)
    for first in range(0, n, BLOCK):
        own = np.arange(first, min(first + BLOCK, n))
        with one_blas_thread():
            products = rows[own] @ rows.T
        distances = squares - 2.0 * (products.toarray() if sp.issparse(products) else products)
        distances[own - first, own] = np.inf
        found[own] = np.argpartition(distances, wanted - 1, axis=1)[:, :wanted]
        check()
    pairs = np.column_stack([np.repeat(np.arange(n), wanted), found.ravel()])
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _squares(rows: Any) -> np.ndarray:
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows)


class Roughness:
    """M above: how much outputs differ along the edges of a graph.

    Parameters
    ----------
    rows : (n, d) numpy or scipy.sparse, float64.
    edges : (e, 2) numbers of rows, at least one edge.
    """

    def __init__(self, rows: Any, edges: np.ndarray) -> None:
        n, self._rows = rows.shape[0], rows
        #: M without the bias, or None where it is not stored
        self.matrix: np.ndarray | None = None
        ends = np.concatenate([edges, edges[:, ::-1]]).T
        adjacent = sp.csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n, n))
        laplacian = sp.diags_array(np.bincount(ends[0], minlength=n).astype(float)) - adjacent
        self._laplacian = sp.csr_array(laplacian / len(edges))
        with one_blas_thread():
            bent = self._laplacian @ rows
            if not sp.issparse(rows) and rows.shape[1] <= MOST_COLUMNS:
                self.matrix = rows.T @ bent
        own = rows.multiply(bent) if sp.issparse(rows) else rows * bent
        #: diagonal of M, 0 for the bias
        self.diagonal = np.append(np.asarray(own.sum(axis=0)).ravel(), 0.0)

    def product(self, p: np.ndarray) -> np.ndarray:
        """M p, 0 for the bias."""
        with one_blas_thread():
            if self.matrix is not None:
                found = self.matrix @ p[:-1]
            else:
                found = self._rows.T @ (self._laplacian @ (self._rows @ p[:-1]))
        return np.append(found, 0.0)


class Smoothness(NamedTuple):
    """The term above: its weight lam_m, and M."""

    weight: float
    roughness: Roughness

    def product(self, p: np.ndarray) -> np.ndarray:
        """lam_m M p."""
        return self.weight * self.roughness.product(p)


class ManifoldProblem(L2SVMProblem):
    """The l2-SVM with the term above.

    Parameters
    ----------
    engine, lam, positive, costs, bias : see `L2SVMProblem`.
    smoothness : the term.

    Costs: those of the l2-SVM; at the client a product with M for each of them.
    """

    def __init__(
        self,
        engine: Engine,
        lam: float,
        positive: int,
        costs: np.ndarray,
        bias: bool,
        smoothness: Smoothness,
    ) -> None:
        super().__init__(engine, lam, positive, costs, bias)
        self._smoothness = smoothness

    def evaluate(self, w: np.ndarray, beside: Point | None = None) -> Point:
        """Value, gradient and active rows at w; see `QuadraticProblem.evaluate`."""
        point = super().evaluate(w, beside)
        bent = self._smoothness.product(w)
        return replace(
            point, value=point.value + 0.5 * dot(w, bent), gradient=point.gradient + bent
        )

    def hessian_product(self, point: Point, p: np.ndarray) -> tuple[np.ndarray, float]:
        """H p and p.H p; see `QuadraticProblem.hessian_product`."""
        product, curvature = super().hessian_product(point, p)
        bent = self._smoothness.product(p)
        return product + bent, curvature + dot(p, bent)

    def cg_steps(self, point: Point) -> None:
        """None: H has a term that rows do not have."""

    def hessian_diagonal(self, point: Point) -> np.ndarray:
        """Diagonal of H; see `QuadraticProblem.hessian_diagonal`."""
        weight, roughness = self._smoothness
        return super().hessian_diagonal(point) + weight * roughness.diagonal

    def hessian(self, point: Point) -> np.ndarray:
        """H as a matrix; see `QuadraticProblem.hessian`."""
        weight, roughness = self._smoothness
        assert roughness.matrix is not None
        total = super().hessian(point)
        total[:-1, :-1] += weight * roughness.matrix
        return total

    def patience(self, point: Point) -> int | None:
        """See `QuadraticProblem.patience`; None where M is not stored."""
        return None if self._smoothness.roughness.matrix is None else super().patience(point)

    def slope(self, point: Point, trial: Point) -> Slope:
        """step -> phi'(step) and phi''(step); see `QuadraticProblem.slope`."""
        of_svm, move = super().slope(point, trial), trial.w - point.w
        bent = self._smoothness.product(move)
        inner, square = dot(point.w, bent), dot(move, bent)

        def at(step: float) -> tuple[float, float]:
            slope, curvature = of_svm(step)
            return slope + inner + step * square, curvature + square

        return at
