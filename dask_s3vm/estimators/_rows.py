"""Rows and labels as users give them: checked, and turned into what methods work on.

scikit-learn checks arrays in memory; dask's are checked here and block by block.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from dask_s3vm.engine.blocks import as_labels
from dask_s3vm.engine.ingest import ingest, is_dask
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.sources import Source
from dask_s3vm.exceptions import warn
from dask_s3vm.features import FeatureBlocks, KernelMap, map_rows
from dask_s3vm.methods.base import ClassTotals

_FLOATS = [np.float64, np.float32]


@dataclass(frozen=True)
class PlacedRows:
    """Checked rows in an engine; `fit(placed, None)` trains on them and leaves them there.

    Many fits on the same rows are given this in place of X. Rows of weight 0 count for nothing, so
    a part of the rows is chosen by weights in the shards. A model fitted so has no `transduction_`:
    it is None.

    engine : the rows, or features of them, with class numbers.
    classes : the classes.
    n_features : columns of X.
    names : names of the columns, where X has them.
    kernel_map : what made the features, or None.
    block_rows : number of rows of each block of X.
    rows : the rows themselves, for estimators with exact kernel columns; None for all others.
    """

    engine: Engine
    classes: np.ndarray
    n_features: int
    names: np.ndarray | None
    kernel_map: KernelMap | None
    block_rows: tuple[int, ...]
    rows: Any = None

    def tell(self, estimator: Any) -> None:
        """Set what an estimator knows of X.

        Sets: n_features_in_, feature_names_in_.
        """
        estimator.n_features_in_ = self.n_features
        if self.names is not None:
            estimator.feature_names_in_ = self.names


def take_in(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    find_map: Callable[[Any], KernelMap | None],
) -> tuple[Source, KernelMap | None]:
    """Check training data of any type and take it in; sets `n_features_in_`.

    `find_map` makes a kernel map of checked rows, or None; if there is one, what is taken in are
    the features of the rows.
    """
    if y is None and get_tags(estimator).target_tags.required:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    X, y, sample_weight = as_array(X), as_array(y), as_array(sample_weight)
    if y is not None and not is_dask(y):
        y = column_or_1d(y, warn=True)
    if sample_weight is not None and not is_dask(sample_weight):
        sample_weight = _weights_in_memory(sample_weight, X)
    if not is_dask(X):
        X = validate_data(estimator, _scipy_of_sparse(X), accept_sparse="csr", dtype=_FLOATS)
        kernel_map = find_map(X)
        features = None if kernel_map is None else FeatureBlocks(kernel_map, X.dtype)
        return ingest(X, y, sample_weight, features), kernel_map
    kernel_map = find_map(X)
    if kernel_map is None:
        source = ingest(X, y, sample_weight)
        estimator.n_features_in_ = source.summary.n_features
    else:
        source = ingest(map_rows(kernel_map, X), y, sample_weight)
        estimator.n_features_in_ = kernel_map.n_features
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    return source, kernel_map


def rows_to_predict(estimator: BaseEstimator, X: Any) -> Any:
    """Check rows to be predicted: fitted, and as many columns as in training."""
    check_is_fitted(estimator)
    X = as_array(X)
    if not is_dask(X):
        X = _scipy_of_sparse(X)
        return validate_data(estimator, X, accept_sparse="csr", dtype=_FLOATS, reset=False)
    if X.ndim != 2 or X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has shape {X.shape}, but {type(estimator).__name__} was trained on "
            f"{estimator.n_features_in_} features; wanted (n, {estimator.n_features_in_})"
        )
    return X.rechunk({1: -1}) if X.numblocks[1] != 1 else X


def as_array(values: Any) -> Any:
    """Turn dask dataframes and series into dask arrays; leave all else."""
    if hasattr(values, "to_dask_array"):
        return values.to_dask_array()
    return values


def plain_labels(y: Any) -> np.ndarray:
    """Labels in this process, checked: one per row, integers or strings."""
    if y is None:
        raise ValueError("y is None; wanted labels, and marks for rows without one")
    y = as_array(y)
    return as_labels(column_or_1d(y.compute() if is_dask(y) else y, warn=True))


def _scipy_of_sparse(X: Any) -> Any:
    """scikit-learn knows scipy's sparse arrays only."""
    if type(X).__module__.split(".")[0] != "sparse":
        return X
    if X.ndim != 2:
        raise ValueError(f"X must be 2-dimensional, got {X.ndim} dimension(s)")
    if X.fill_value != 0:
        raise ValueError(f"X is a sparse array with fill_value {X.fill_value}; wanted 0")
    return X.to_scipy_sparse().tocsr()


def _weights_in_memory(sample_weight: Any, X: Any) -> np.ndarray:
    """Return weights as an array; a number stands for that weight on every row."""
    sample_weight = np.asarray(sample_weight)
    if sample_weight.ndim == 0:
        if is_dask(X):
            raise ValueError("sample_weight must be an array for dask input, got a number")
        return np.full(X.shape[0], float(sample_weight))
    return sample_weight


# Labels and classes ------------------------------------------------------------------------------


def find_classes(values: np.ndarray | None, unlabeled: Any, supervised: bool = False) -> np.ndarray:
    """Return the classes among the distinct values of y, without the mark of unlabeled rows.

    With `supervised`, y of exactly {-1, +1} are two classes although -1 is the default mark:
    read otherwise, they could never be trained on.
    """
    assert values is not None, "y was checked to be there"
    mark = _mark_like(values, unlabeled)
    classes = values if mark is None else values[values != mark]
    if len(classes) == 0:
        raise ValueError(
            f"y has no labeled row: every entry is {unlabeled!r}, the mark of rows without a label"
        )
    if len(classes) >= 2:
        return classes
    if set(values.tolist()) == {-1, 1} and len(values) == 2:
        if supervised:
            return values
        raise ValueError(
            "y has the values -1 and +1, and -1 is the mark of unlabeled rows, which leaves one "
            "class; use the classes 0 and 1, or another mark, for example unlabeled=0"
        )
    raise ValueError(f"y has only one class, {classes[0]!r}; wanted at least two classes")


def class_costs(
    classes: np.ndarray, totals: ClassTotals, class_weight: Mapping[Any, float] | str | None
) -> np.ndarray:
    """Cost of a row by its class: class weight over the total sample weight of labeled rows."""
    total = float(totals.weights.sum())
    if not total > 0:
        raise ValueError("sample_weight is zero on every labeled row; wanted some weight")
    empty = [label for label, weight in zip(classes, totals.weights, strict=True) if not weight > 0]
    if len(classes) - len(empty) < 2:
        raise ValueError(
            "sample_weight leaves fewer than two classes: it is zero on every row of class "
            f"{', '.join(repr(label) for label in empty)}"
        )
    costs = _class_weights(classes, totals, class_weight) / total
    if not costs.any():
        raise ValueError(f"class_weight is zero for every class, got {class_weight!r}")
    return costs


def _class_weights(
    classes: np.ndarray, totals: ClassTotals, class_weight: Mapping[Any, float] | str | None
) -> np.ndarray:
    weights = np.ones(len(classes))
    if class_weight is None:
        return weights
    if class_weight == "balanced":
        present = totals.weights > 0
        weights[present] = totals.weights.sum() / (present.sum() * totals.weights[present])
        return weights
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}")
    known = classes.tolist()
    for label, weight in class_weight.items():
        if label not in known:
            raise ValueError(
                f"class_weight names {label!r}, which is not among the classes {known}"
            )
        if not (np.isfinite(weight) and weight >= 0):
            raise ValueError(f"class_weight[{label!r}] must be finite and >= 0, got {weight!r}")
        weights[known.index(label)] = weight
    return weights


def _mark_like(values: np.ndarray, unlabeled: Any) -> Any:
    """Bring the mark to the type of y; None if it cannot occur there."""
    if unlabeled is None:
        return None
    if values.dtype.kind in "US":
        return np.array(str(unlabeled)).astype(values.dtype.kind)
    return unlabeled if isinstance(unlabeled, (int, float, np.number)) else None


# What is known of the unlabeled rows before training ----------------------------------------------


def has_unlabeled(estimator: Any, totals: ClassTotals) -> bool:
    """Whether there are unlabeled rows that count; warns if not."""
    if totals.n_unlabeled > 0 and totals.unlabeled_weight > 0:
        return True
    warn(
        f"{type(estimator).__name__}: y has no unlabeled row (none is {estimator.unlabeled!r}, or "
        "their weight is 0); the supervised problem is solved",
        UserWarning,
    )
    return False
