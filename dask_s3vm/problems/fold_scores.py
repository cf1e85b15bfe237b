"""Out-of-fold scores of the labeled rows, and scores of the unlabeled rows by the same models.

The models are regularized least squares, one for each fold and class, trained on the labeled rows
without the fold. Their outputs estimate 2 P(class | x) - 1 whatever the scale of the rows. With
K = Z Z^T + 1 for centered rows Z of mean squared length 1, and S the sample weights,

    a = (K + lam S^-1)^-1 y = G y,    out-of-fold residuals of a fold F:  e = (G_FF)^-1 a_F

and a - G_F e are the coefficients without the fold. One eigendecomposition serves every lam, and
every class. Where rows have fewer columns than there are rows, weights of columns take the place of
coefficients of rows. lam is chosen by the out-of-fold residuals, and so is whether columns are
scaled to unit variance, which tables need and text does not. Few rows are divided into folds
several times, which the same decomposition serves.

The labeled rows come together at the client: they are few where this is of use.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.blocks import copy_rows, stack_rows
from dask_s3vm.engine.computing import in_threads
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels import passes
from dask_s3vm.kernels.rows import CSR, Rows
from dask_s3vm.numerics.linalg import one_blas_thread
from dask_s3vm.problems.folds import content_keys

#: Values of lam, in units of the mean squared length of the centered rows.
LAMS = np.logspace(-4.0, 2.0, 7)

#: Columns whose deviation is below this part of the largest one are constant up to rounding.
CONSTANT = 1e-9

#: Models that are regularized give outputs too near 0.
STEEPER = 1.5

#: Outputs are counted in so many bins between -REACH and REACH.
BINS = 1000
REACH = 2.0

#: With so many labeled rows, both ways to scale columns are tried at the same time.
MANY = 200

#: Rows that are scored at a time.
BATCH = 4096


@dataclass(frozen=True)
class LabeledRows:
    """Labeled rows of positive weight, in an order of their own (`problems.folds`).

    rows : (l, d), in internal column order.
    codes : class numbers.
    weights : sample weights.
    """

    rows: Any
    codes: np.ndarray
    weights: np.ndarray

    @cached_property
    def products(self) -> np.ndarray:
        """Inner products of the rows, (l, l)."""
        with one_blas_thread():
            found = self.rows @ self.rows.T
        return found.toarray() if sp.issparse(found) else found


def gather_labeled(engine: Engine) -> LabeledRows:
    """Bring the labeled rows together. Costs: 1 round; the labeled rows to the client."""
    found = [part for part in engine.each(take_labeled) if len(part[1])]
    rows = stack_rows([part[0] for part in found])
    if isinstance(rows, CSR):
        shape = len(rows.indptr) - 1, engine.layout.n_features
        indptr, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        rows = sp.csr_array((rows.values.astype(np.float64), indices, indptr), shape=shape)
    else:
        rows = rows.astype(np.float64)
    codes, weights = (np.concatenate([part[k] for part in found]) for k in (1, 2))
    order = np.argsort(content_keys(rows, engine.layout.order, weights), kind="stable")
    return LabeledRows(rows[order], codes[order], weights[order])


def used_columns(rows: Any) -> tuple[np.ndarray, Any]:
    """(columns with entries, ascending; the rows with these alone); all columns of dense rows."""
    if not sp.issparse(rows):
        return np.arange(rows.shape[1]), rows
    columns, indices = np.unique(rows.indices, return_inverse=True)
    shape = rows.shape[0], len(columns)
    return columns, sp.csr_array((rows.data, indices, rows.indptr), shape=shape)


def take_labeled(shard: Shard) -> tuple[Rows, np.ndarray, np.ndarray]:
    """(rows, class numbers, weights) of the labeled rows that count."""
    assert shard.codes is not None, "labels are needed"
    weights = np.ones(shard.n_rows) if shard.weights is None else shard.weights
    chosen = np.flatnonzero((shard.codes >= 0) & (weights > 0))
    return copy_rows(shard.rows, chosen.astype(np.uint32)), shard.codes[chosen], weights[chosen]


# Models of the folds ------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldModels:
    """Models without one fold each, and what they say of the rows that they have not seen.

    outputs : (r, l, c) out-of-fold outputs of the labeled rows, for each division into folds and
        each class.
    columns : columns of X that have weights, ascending.
    W : (len(columns), r * n_folds * c) weights, classes of a fold side by side.
    b : (r * n_folds * c,) biases.
    """

    outputs: np.ndarray
    columns: np.ndarray
    W: np.ndarray
    b: np.ndarray


def train_folds(labeled: LabeledRows, targets: np.ndarray, folds: np.ndarray) -> FoldModels:
    """Train on the labeled rows without each fold.

    targets : (l, c), +1 and -1.
    folds : (r, l) fold of each row, in each of r divisions.
    """
    columns, rows = used_columns(labeled.rows)
    by_columns = len(columns) < rows.shape[0]
    if by_columns and sp.issparse(rows):
        rows = rows.toarray()
    best = _best_by_columns if by_columns else _best_by_rows

    def tried(scale: bool) -> _Found:
        return best(_Centered(rows, scale), labeled.weights, targets, folds)

    with one_blas_thread():
        raw, scaled = in_threads(
            [partial(tried, False), partial(tried, True)], len(targets) >= MANY
        )
    found = scaled if scaled.error < raw.error else raw
    return FoldModels(found.outputs, columns, found.W, found.b)


class _Centered:
    """Centered rows; `scale`: with columns divided by their deviation.

    `kernel` and `features` find the mean squared length, and divide by it.
    """

    def __init__(self, rows: Any, scale: bool) -> None:
        self._rows = rows
        n = rows.shape[0]
        self._mean = np.asarray(rows.sum(axis=0)).ravel() / n
        self._inverse = np.ones(rows.shape[1])
        if scale:
            squares = rows.multiply(rows) if sp.issparse(rows) else rows * rows
            variance = np.asarray(squares.sum(axis=0)).ravel() / n - self._mean**2
            deviation = np.sqrt(np.maximum(variance, 0.0))
            varies = deviation > CONSTANT * np.maximum(
                np.abs(self._mean), deviation.max(initial=0.0)
            )
            self._inverse = np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0)
        self._length = 1.0

    def kernel(self) -> np.ndarray:
        """K = Z Z^T + 1."""
        rows, squared = self._rows, self._inverse**2
        if sp.issparse(rows):
            product = (rows.multiply(squared[None, :]).tocsr() @ rows.T).toarray()
            along = rows @ (squared * self._mean)
            level = float(np.add.reduce(squared * self._mean**2))
            inner = product - along[:, None] - along[None, :] + level
        else:
            centered = (rows - self._mean) * self._inverse
            inner = centered @ centered.T
        self._set_length(float(np.trace(inner)))
        return inner / self._length + 1.0

    def features(self) -> np.ndarray:
        """(Z, 1), of rows that are dense."""
        centered = (self._rows - self._mean) * self._inverse
        self._set_length(float(np.add.reduce(np.square(centered), axis=None)))
        return np.column_stack([centered / math.sqrt(self._length), np.ones(len(centered))])

    def _set_length(self, squares: float) -> None:
        length = squares / self._rows.shape[0]
        self._length = length if length > 0.0 else 1.0

    def of_kernel(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) of models with given coefficients of the rows, one in each column."""
        total, squared = np.add.reduce(coefficients, axis=0), self._inverse[:, None] ** 2
        W = self._rows.T @ coefficients - self._mean[:, None] * total
        W = np.ascontiguousarray(W * squared / self._length)
        return W, total - self._mean @ W

    def of_features(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) of models with given weights of the features, one in each column."""
        W = np.ascontiguousarray(w[:-1] * self._inverse[:, None] / math.sqrt(self._length))
        return W, w[-1] - self._mean @ W


class _Found(NamedTuple):
    """Squared out-of-fold error, and what `FoldModels` has, at the best lam."""

    error: float
    outputs: np.ndarray
    W: np.ndarray
    b: np.ndarray


def _best_by_rows(
    rows: _Centered, weights: np.ndarray, targets: np.ndarray, folds: np.ndarray
) -> _Found:
    """Train with matrices of l x l; of G only the blocks G_FF are computed."""
    root, lams = np.sqrt(weights / weights.mean()), np.array(LAMS)
    values, vectors = np.linalg.eigh(root[:, None] * rows.kernel() * root)
    values, vectors = np.maximum(values, 0.0), root[:, None] * vectors
    inverses = 1.0 / (values + lams[:, None])
    a = vectors @ (inverses[:, :, None] * (vectors.T @ targets))
    residuals = np.empty((len(folds), *a.shape))
    members = list(_members(folds))
    for number, own in members:
        part = vectors[own]
        for k, inverse in enumerate(inverses):
            residuals[number, k, own] = np.linalg.solve((part * inverse) @ part.T, a[k, own])
    error, k = _least_error(targets - residuals, targets, weights)
    models = [
        a[k] - vectors @ (inverses[k][:, None] * (vectors[own].T @ residuals[number, k, own]))
        for number, own in members
    ]
    W, b = rows.of_kernel(np.concatenate(models, axis=1))
    return _Found(error, targets - residuals[:, k], W, b)


def _best_by_columns(
    rows: _Centered, weights: np.ndarray, targets: np.ndarray, folds: np.ndarray
) -> _Found:
    """Train with matrices of (d + 1) x (d + 1): w = (Z^T S Z + lam)^-1 Z^T S y, for each fold."""
    features, lams = rows.features(), np.array(LAMS)
    costs = (weights / weights.mean())[:, None]
    outputs, models = np.empty((len(folds), len(lams), *targets.shape)), []
    for number, own in _members(folds):
        inside = np.ones(len(targets), dtype=bool)
        inside[own] = False
        part = features[inside]
        scaled = costs[inside] * part
        values, vectors = np.linalg.eigh(scaled.T @ part)
        moments = vectors.T @ (scaled.T @ targets[inside])
        inverses = 1.0 / (np.maximum(values, 0.0) + lams[:, None])
        w = vectors @ (inverses[:, :, None] * moments)
        outputs[number][:, own] = features[own] @ w
        models.append(w)
    error, k = _least_error(outputs, targets, weights)
    W, b = rows.of_features(np.concatenate([w[k] for w in models], axis=1))
    return _Found(error, outputs[:, k], W, b)


def _members(folds: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (number of the division, rows of a fold) of all folds."""
    for number, own in enumerate(folds):
        for fold in range(int(own.max()) + 1):
            yield number, np.flatnonzero(own == fold)


def _least_error(
    outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> tuple[float, int]:
    """Least squared error and its lam; outputs beyond +-1 are no further off than these."""
    off = weights[:, None] * np.square(np.clip(outputs, -1.0, 1.0) - targets)
    errors = np.add.reduce(off, axis=(0, 2, 3))
    k = int(np.argmin(errors))
    return float(errors[k]), k


# Scores of the unlabeled rows ---------------------------------------------------------------------


def scores_of(outputs: np.ndarray) -> np.ndarray:
    """Outputs as shares: (1 + STEEPER o) / 2 within 0 and 1."""
    return np.clip(0.5 * (1.0 + STEEPER * outputs), 0.0, 1.0)


def mean_scores(engine: Engine, models: FoldModels) -> tuple[np.ndarray, float]:
    """(mean score of the unlabeled rows by class, over all folds; their effective number).

    Costs: 1 round, 1 pass; (columns) x (models) numbers to each group.
    """
    sums, weight, squares = engine.sum(score_sums, models.columns, models.W, models.b)
    n_classes = models.outputs.shape[2]
    means = sums.reshape(-1, n_classes).mean(axis=0) / weight
    return means, weight**2 / squares


def score_sums(
    shard: Shard, columns: np.ndarray, W: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """(sum of s_j times the score, for each model; sum of s_j; sum of s_j^2), unlabeled rows."""
    sums, total, squares = np.zeros(len(b)), 0.0, 0.0
    for outputs, weights in _outputs(shard, columns, W, b):
        sums += np.add.reduce(weights[:, None] * scores_of(outputs), axis=0)
        total += float(np.add.reduce(weights))
        squares += float(np.add.reduce(np.square(weights)))
    return sums, total, squares


def count_outputs(engine: Engine, models: FoldModels) -> tuple[np.ndarray, np.ndarray]:
    """(middles of `BINS` bins, (c, BINS) weight of the unlabeled rows' outputs in each).

    An output is the mean over one fold of each division, as that of a labeled row is.

    Costs: as `mean_scores`, and c `BINS` numbers from each group.
    """
    shape = len(models.outputs), models.outputs.shape[2]
    (counts,) = engine.sum(output_bins, models.columns, models.W, models.b, shape)
    middles = REACH * ((2.0 * np.arange(BINS) + 1.0) / BINS - 1.0)
    return middles, counts


def output_bins(
    shard: Shard, columns: np.ndarray, W: np.ndarray, b: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray]:
    """((c, BINS) weight of the outputs of unlabeled rows in each bin, all folds together,).

    shape : numbers of divisions and of classes.
    """
    repeats, n_classes = shape
    counts = np.zeros((n_classes, BINS))
    for every, weights in _outputs(shard, columns, W, b):
        outputs = every.reshape(len(every), repeats, -1).mean(axis=1)
        places = np.floor((outputs / REACH + 1.0) * (0.5 * BINS))
        places = np.clip(places, 0, BINS - 1).astype(np.int64)
        for model in range(places.shape[1]):
            own = np.bincount(places[:, model], weights=weights, minlength=BINS)
            counts[model % n_classes] += own
    return (counts,)


def _outputs(
    shard: Shard, columns: np.ndarray, W: np.ndarray, b: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (outputs of all models, sample weights) of the unlabeled rows, batch by batch."""
    place = np.full(shard.n_features, len(columns), dtype=np.uint32)
    place[columns] = np.arange(len(columns), dtype=np.uint32)
    rows = np.flatnonzero(shard.unlabeled)
    for low in range(0, len(rows), BATCH):
        part = rows[low : low + BATCH]
        outputs = np.empty((len(part), len(b)))
        passes.outputs_of_models(shard.rows, part, place, W, b, outputs)
        yield outputs, np.ones(len(part)) if shard.weights is None else shard.weights[part]
