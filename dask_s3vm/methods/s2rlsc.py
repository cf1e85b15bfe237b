"""S2RLSC: least squares over a model and the labels of unlabeled rows (Gieseke et al., eq. 10).

    sum_lab d_i^2 (y_i - w.z_i)^2 + sum_unl d_j^2 (y_j - w.z_j)^2 + lam |w|^2

with d_i^2 = 1/l, d_j^2 = lam_unlabeled/u, and a share of about `ratio` of the y_j positive. For
given labels the best w is known in closed form, which leaves the fitness

    F(y) = sum d_i^2 - |G^T y|^2,    G_i = d_i^2 z_i^T U (L + lam)^-1/2,    H = U L U^T

(eq. 13) to be searched by flips. Without labeled rows it is the unsupervised case, eq. 17.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import BinarySolution, Start
from dask_s3vm.methods.restarts import PoolSearch, RestartSearch, SearchSettings
from dask_s3vm.methods.rlsc import Decomposed, decompose_rows
from dask_s3vm.methods.run import HistoryRow, Record
from dask_s3vm.methods.sharded_search import ShardSearch
from dask_s3vm.numerics.linalg import one_blas_thread
from dask_s3vm.problems import least_squares
from dask_s3vm.problems.label_search import Factor, Task
from dask_s3vm.problems.label_search import Window as Window
from dask_s3vm.problems.label_search import window_of as window_of

#: G up to this size is gathered and handed to the pool; a larger one stays in the shards.
POOL_BYTES = 256 << 20


@dataclass(frozen=True)
class LabeledSolution(BinarySolution):
    """A binary solution, and the labels that it was found with.

    bits : labels of all rows by shard, one bit a row, 1 for positive; for the unlabeled rows.
    sharded : whether the search worked in the shards.
    """

    bits: list[np.ndarray]
    sharded: bool


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
    """Factors of the unlabeled rows: G for one lam at a time, from what is common to all.

    d_j^2 z_j^T U is gathered once for every lam; G is that with its columns divided by
    (L + lam)^1/2. Only the last G is kept, so that memory does not grow with the number of lams.
    """

    def __init__(self, rows: Decomposed, dtype: str) -> None:
        self._rows = rows
        self._dtype = dtype
        self._gathered: np.ndarray | None = None
        self._last: tuple[float, Factor] | None = None
        self._lam_in_shards: float | None = None

    def in_shards(self, lam: float, factor: np.ndarray) -> None:
        """Have G for a lam in the shards. Costs: 1 round and 1 pass, unless it is there."""
        if lam != self._lam_in_shards:
            self._rows.engine.each(
                least_squares.keep_projected, factor, self._dtype, self._rows.origin
            )
            self._lam_in_shards = lam

    def gathered(self, lam: float) -> Factor:
        """G for a lam. Costs: 1 round and 1 pass the first time; n r numbers come to the client."""
        engine, spectrum = self._rows.engine, self._rows.spectrum
        if self._gathered is None:
            parts = engine.each(
                least_squares.project, spectrum.vectors, self._dtype, self._rows.origin
            )
            self._gathered = np.concatenate(parts)
        if self._last is None or self._last[0] != lam:
            kept = spectrum.n_kept(lam)
            scale = np.sqrt(spectrum.values[:kept] + lam).astype(self._dtype)
            self._last = lam, Factor.of(self._gathered[:, :kept] / scale)
        return self._last[1]


class LabelSearch:
    """Searches on one decomposition: for one lam, one binary problem after the other.

    Parameters
    ----------
    rows : what `prepare_rows` gave; all lams share it.
    lam : weight of the regularizer.
    n_free : number of unlabeled rows.
    sharded : whether G stays in the shards; "auto": if it is large.
    dtype : type of the numbers of G.
    projected : of the same rows, if several searches share it.
    """

    def __init__(
        self,
        rows: Decomposed,
        lam: float,
        n_free: int,
        sharded: bool | str,
        dtype: str,
        projected: Projected | None = None,
    ) -> None:
        self._rows = rows
        self._projected = projected or Projected(rows, dtype)
        self._lam = float(lam)
        with one_blas_thread():
            self._factor = rows.spectrum.factor(lam)
        size = n_free * self._factor.shape[1] * np.dtype(dtype).itemsize
        self.sharded = size > POOL_BYTES if isinstance(sharded, str) else sharded

    def run(
        self,
        record: Record,
        name: str,
        tags: HistoryRow,
        problem: int,
        window: Window,
        settings: SearchSettings,
        start: Start | None = None,
    ) -> LabeledSolution:
        """Search the labels of binary problem number `problem` and train on the best ones.

        A seed is a dict of labels, as bits, by restart; see `restarts.PoolSearch`.
        """
        rows = self._rows
        with one_blas_thread():
            fixed = self._factor.T @ rows.moments[:, problem]
        task = Task(fixed, window, rows.total)
        search = self._search(task, settings, problem, start)
        found = record.run(f"{name}/search", search, tags)
        w, value = self._solve(found.bits, problem)
        return LabeledSolution(
            w, value, "converged", found.bits, self.sharded, n_iter=found.n_iter, seed=found.seed
        )

    def _search(
        self, task: Task, settings: SearchSettings, problem: int, start: Start | None
    ) -> RestartSearch:
        engine = self._rows.engine
        if self.sharded:
            self._projected.in_shards(self._lam, self._factor)
            return ShardSearch(engine, task, settings, problem)
        factor = self._projected.gathered(self._lam)
        starts = {} if start is None or start.seed is None else start.seed
        seeded = start is not None and start.seeded
        return PoolSearch(engine, factor, task, settings, problem, starts, seeded)

    def _solve(self, bits: list[np.ndarray], problem: int) -> tuple[np.ndarray, float]:
        """Train on labels (eq. 12), in full precision whatever the type of G. Costs: 1 round."""
        rows = self._rows
        (moments,) = rows.engine.sum(least_squares.label_moments, bits, rows.origin)
        moments = moments + rows.moments[:, problem]
        with one_blas_thread():
            w = rows.spectrum.weights(moments, self._lam)
            side = rows.spectrum.coordinates(moments, self._lam)
        return rows.of_rows(w), rows.total - float(np.add.reduce(np.square(side)))


def label_array(engine: Engine, found: LabeledSolution, others: bool) -> np.ndarray:
    """Labels of all rows, 0 and 1; with `others`, of rows of weight 0 by the model's output."""
    bits = found.bits
    if others:
        bits = engine.each(least_squares.complete_bits, bits, found.w)
    sizes = np.diff(engine.layout.starts)
    return np.concatenate(
        [np.unpackbits(own, count=size) for own, size in zip(bits, sizes, strict=True)]
    )
