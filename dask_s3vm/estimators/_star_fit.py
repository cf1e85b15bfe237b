"""The two ways in which STAR-SVM is trained, from placed rows to a model."""

from dataclasses import dataclass

import numpy as np

from dask_s3vm.estimators._base import Placed
from dask_s3vm.features import KernelMap
from dask_s3vm.features.columns import KernelColumns
from dask_s3vm.methods.base import History
from dask_s3vm.methods.star import (
    Once,
    StarSettings,
    Trained,
    class_codes,
    kernel_cache,
    kernel_problem,
    self_train,
    train_sharded,
    trained_once,
)

#: (C+, C-) of each binary problem.
Costs = list[tuple[float, float]]


@dataclass(frozen=True)
class Fitted:
    """What was trained: one entry, or row of `coef`, for each binary problem.

    codes : class number of each training row, -1 where unlabeled.
    coef : weights, of features if there is a map.
    support, dual_coef, kernel_map : support vectors, where the kernel was exact.
    """

    trained: list[Trained]
    codes: np.ndarray
    coef: np.ndarray
    support: np.ndarray | None = None
    dual_coef: np.ndarray | None = None
    kernel_map: KernelMap | None = None


def fit_exact(
    rows: Placed, columns: KernelColumns, costs: Costs, settings: StarSettings, history: History
) -> Fitted:
    """Train on exact kernel columns, in this process."""
    codes, weights = class_codes(rows.engine)
    cache = kernel_cache(columns, columns.diagonal())
    trained, expansions = [], []
    for positive, pair in zip(rows.positives, costs, strict=True):

        def train(positive: int = positive, pair: tuple[float, float] = pair) -> Once:
            problem = kernel_problem(cache, codes, weights, positive, pair)
            found = self_train(problem, pair, settings, history, positive)
            return problem.target * problem.alpha, found

        expansion, one = trained_once(history, positive, train)
        trained.append(one)
        expansions.append(expansion)
    dual = np.stack(expansions)
    support = np.flatnonzero(dual.any(axis=0))
    dual_coef = np.ascontiguousarray(dual[:, support])
    if columns.kernel == "linear":
        coef = columns.weights(support, dual_coef)
        return Fitted(trained, codes, coef, support, dual_coef)
    kernel_map = columns.expansion(support, dual_coef)
    return Fitted(trained, codes, np.eye(len(dual)), support, dual_coef, kernel_map)


def fit_sharded(rows: Placed, costs: Costs, settings: StarSettings, history: History) -> Fitted:
    """Train on rows, or features of rows, in shards."""
    engine = rows.engine
    trained, weights = [], []
    for positive, pair in zip(rows.positives, costs, strict=True):
        by_class = np.full(len(rows.classes), pair[1])
        by_class[positive] = pair[0]

        def train(
            positive: int = positive,
            pair: tuple[float, float] = pair,
            by_class: np.ndarray = by_class,
        ) -> Once:
            return train_sharded(engine, by_class, pair, settings, history, positive)

        w, one = trained_once(history, positive, train)
        trained.append(one)
        weights.append(w)
    coef = engine.layout.to_external(np.stack(weights))[:, :-1]
    codes, _ = class_codes(engine)
    return Fitted(trained, codes, np.ascontiguousarray(coef))
