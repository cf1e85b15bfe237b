"""X and y at the border: what scikit-learn checks for arrays in memory, and we for dask's."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from dask_s3vm.engine.blocks import as_labels
from dask_s3vm.engine.ingest import ingest, is_dask
from dask_s3vm.engine.sources import Source
from dask_s3vm.features import FeatureBlocks, KernelMap, map_rows

_FLOATS = [np.float64, np.float32]


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
