"""S2RLSC: least squares over a model and the labels of unlabeled rows (Gieseke et al., eq. 10).

    sum_lab d_i^2 (y_i - w.z_i)^2 + sum_unl d_j^2 (y_j - w.z_j)^2 + lam |w|^2

with d_i^2 = 1/l, d_j^2 = lam_unlabeled/u, and a share of about `ratio` of the y_j positive. For
given labels the best w is known in closed form, which leaves the fitness

    F(y) = sum d_i^2 - |G^T y|^2,    G_i = d_i^2 z_i^T U (L + lam)^-1/2,    H = U L U^T

(eq. 13) to be searched by flips. Without labeled rows it is the unsupervised case, eq. 17.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.features.blas import one_blas_thread
from dask_s3vm.methods.base import BinarySolution, History
from dask_s3vm.methods.restarts import SearchSettings, search_pool
from dask_s3vm.methods.rlsc import Decomposed, decompose_rows
from dask_s3vm.methods.sharded_search import search_shards
from dask_s3vm.problems import least_squares
from dask_s3vm.problems.labels import Factor, Task, Window

#: G up to this size is gathered and handed to the pool; a larger one stays in the shards.
POOL_BYTES = 256 << 20


@dataclass(frozen=True)
class Placement:
    """Where G is: "pool", "shards" or "auto", and the type of its numbers."""

    where: str
    dtype: str


@dataclass(frozen=True, eq=False)
class Labeled:
    """A binary solution, and the labels that it was found with.

    bits : labels of all rows by shard, one bit a row, 1 for positive; for the unlabeled rows.
    """

    solution: BinarySolution
    bits: list[np.ndarray]


def prepare_rows(
    engine: Engine,
    costs: np.ndarray,
    unlabeled_cost: float,
    bias: bool,
    positives: Sequence[int],
    center: bool = False,
) -> Decomposed:
    """Set d_i^2 by class (`costs`) and for unlabeled rows, and decompose. Costs: 2 rounds."""
    engine.each(least_squares.set_squares, np.append(costs, unlabeled_cost))
    return decompose_rows(engine, bias, positives, center)


class Projected:
    """d_j^2 z_j^T U of the unlabeled rows, gathered when first asked for.

    G is that with its columns divided by (L + lam)^1/2, so that it is made once for every lam.
    """

    def __init__(self, rows: Decomposed, dtype: str) -> None:
        self._rows = rows
        self._dtype = dtype
        self._gathered: np.ndarray | None = None

    def factor(self, lam: float) -> Factor:
        """G for a lam. Costs: 1 round and 1 pass the first time; n r numbers come to the client."""
        engine, spectrum = self._rows.engine, self._rows.spectrum
        if self._gathered is None:
            args = spectrum.vectors, self._dtype
            parts = engine.each(least_squares.project, *args)
            self._gathered = np.concatenate(parts)
        kept = spectrum.n_kept(lam)
        scale = np.sqrt(spectrum.values[:kept] + lam).astype(self._dtype)
        return Factor.of(self._gathered[:, :kept] / scale)


class LabelSearch:
    """Searches on one decomposition: for one lam, one binary problem after the other.

    Parameters
    ----------
    rows : what `prepare_rows` gave; all lams share it.
    lam : weight of the regularizer.
    n_free : number of unlabeled rows.
    placement : where and as what G is kept.
    projected : of the same rows, if several searches share it.
    """

    def __init__(
        self,
        rows: Decomposed,
        lam: float,
        n_free: int,
        placement: Placement,
        projected: Projected | None = None,
    ) -> None:
        self._rows = rows
        self._projected = projected or Projected(rows, placement.dtype)
        self._lam = lam
        self._n_free = n_free
        self._dtype = placement.dtype
        with one_blas_thread():
            self._factor = rows.spectrum.factor(lam)
        size = n_free * self._factor.shape[1] * np.dtype(placement.dtype).itemsize
        self.pooled = placement.where == "pool" or (
            placement.where == "auto" and size <= POOL_BYTES
        )
        self._gathered: Factor | None = None
        if not self.pooled:
            rows.engine.each(least_squares.keep_projected, self._factor, self._dtype)

    def run(
        self,
        problem: int,
        window: Window,
        settings: SearchSettings,
        about: dict[str, Any],
        history: History,
        name: str = "labels",
        starts: dict[int, np.ndarray] | None = None,
    ) -> Labeled:
        """Search the labels of binary problem number `problem` and train on the best ones.

        `about` goes into the rows of the history; `name` is that of the states kept; `starts`: see
        `restarts.search_pool`.
        """
        kept = history.kept(name)
        if kept is not None:
            return Labeled(BinarySolution(**kept["solution"]), kept["bits"])
        rows, search = self._rows, f"{name}/search"
        under_way = history.kept(search)
        first = len(history.rows) if under_way is None else under_way["first"]
        with one_blas_thread():
            fixed = self._factor.T @ rows.moments[:, problem]
        task = Task(fixed, window, rows.total)
        if self.pooled:
            factor = self._collect()
            best = search_pool(factor, task, settings, problem, about, history, search, starts)
            bits = _spread_bits(rows.engine, best.bits, self._n_free)
        else:
            bits = search_shards(rows.engine, task, settings, problem, about, history, search)
        found = Labeled(self._solve(bits, problem, len(history.rows) - first), bits)
        history.keep(name, {"solution": vars(found.solution), "bits": bits})
        return found

    def _collect(self) -> Factor:
        """Gather G, once."""
        if self._gathered is None:
            self._gathered = self._projected.factor(self._lam)
        return self._gathered

    def _solve(self, bits: list[np.ndarray], problem: int, n_restarts: int) -> BinarySolution:
        """Train on labels (eq. 12), in full precision whatever the type of G. Costs: 1 round."""
        rows = self._rows
        (moments,) = rows.engine.sum(least_squares.label_moments, bits)
        moments = moments + rows.moments[:, problem]
        with one_blas_thread():
            w = rows.spectrum.weights(moments, self._lam)
            side = rows.spectrum.coordinates(moments, self._lam)
        value = rows.total - float(np.add.reduce(np.square(side)))
        return BinarySolution(w, value, n_restarts, "converged")


def _spread_bits(engine: Engine, bits: np.ndarray, n_free: int) -> list[np.ndarray]:
    """Labels of the unlabeled rows, which lie in row order, as labels of all rows by shard."""
    labels = np.unpackbits(bits, count=n_free)
    masks = engine.each(least_squares.free_bits)
    spread, done = [], 0
    for start, stop, mask in zip(
        engine.layout.starts[:-1], engine.layout.starts[1:], masks, strict=True
    ):
        free = np.unpackbits(mask, count=stop - start).astype(bool)
        whole = np.zeros(stop - start, dtype=np.uint8)
        n_here = int(np.count_nonzero(free))
        whole[free] = labels[done : done + n_here]
        done += n_here
        spread.append(np.packbits(whole))
    return spread


def label_array(engine: Engine, found: Labeled, others: bool) -> np.ndarray:
    """Labels of all rows, 0 and 1; with `others`, of rows of weight 0 by the model's output."""
    bits = found.bits
    if others:
        w = found.solution.w
        bits = engine.each(least_squares.complete_bits, bits, w)
    sizes = np.diff(engine.layout.starts)
    return np.concatenate(
        [np.unpackbits(own, count=size) for own, size in zip(bits, sizes, strict=True)]
    )
