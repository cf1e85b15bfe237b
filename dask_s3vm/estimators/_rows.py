"""Rows and labels as users give them: checked, and turned into what methods work on.

scikit-learn checks arrays in memory; dask's are checked here and block by block.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from dask_s3vm.engine.blocks import as_weights
from dask_s3vm.engine.computing import compute_all
from dask_s3vm.engine.containers import checkable, refuse_masked, refuse_types
from dask_s3vm.engine.ingest import ingest, is_dask
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.sources import Source
from dask_s3vm.exceptions import warn
from dask_s3vm.features import FeatureBlocks, KernelMap, map_rows
from dask_s3vm.frames import (
    as_rows,
    check_index,
    is_arrow_frame,
    is_frame,
    is_numeric,
    lazy_array,
    rows_for,
    take_label,
    text_names,
)
from dask_s3vm.labels import as_labels
from dask_s3vm.methods.base import ClassTotals

#: What scikit-learn checks; the order of rows in memory would show in the last bits of products.
_CHECKS: dict[str, Any] = {
    "accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C",
}  # fmt: skip


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
    exact_rows : the rows themselves, for estimators with exact kernel columns; None for all others.
    known : what earlier fits have found that other models need, too: shares of the classes by the
        way of estimation, supervised SVMs; None if these fits had other weights.
    """

    engine: Engine
    classes: np.ndarray
    n_features: int
    names: np.ndarray | None
    kernel_map: KernelMap | None
    block_rows: tuple[int, ...]
    exact_rows: Any = None
    known: dict[Any, Any] | None = None

    def set_names_on(self, estimator: Any) -> None:
        """Set what an estimator knows of X.

        Sets: n_features_in_, feature_names_in_.
        """
        estimator.n_features_in_ = self.n_features
        if self.names is not None:
            estimator.feature_names_in_ = self.names


@dataclass(frozen=True)
class Opened:
    """X and y as arrays, and what a model must know to open other frames alike.

    X, y : rows (a pandas frame of numbers stays one) and labels.
    names : names of the columns, if X was a frame of numbers.
    encoder : what made rows of a frame with other columns, or None.
    label : name of the column that y was, or None.
    """

    X: Any
    y: Any
    names: np.ndarray | None = None
    encoder: Any = None
    label: str | None = None

    def set_names_on(self, model: Any) -> None:
        """Have a fitted model open frames.

        Sets: feature_names_in_, encoder_, label_name_.
        """
        if self.names is not None:
            model.feature_names_in_ = self.names
        for name, value in (("encoder_", self.encoder), ("label_name_", self.label)):
            vars(model).pop(name, None)  # of an earlier fit
            if value is not None:
                setattr(model, name, value)


def open_rows(X: Any, y: Any = None) -> Opened:
    """Open a frame; y may be the name of one of its columns. Arrays stay as they are."""
    label = None
    if isinstance(y, str):
        label = y
        X, y = take_label(X, y)
    if not is_frame(X):
        return Opened(X, y)
    check_index(X, y)
    if is_numeric(X):
        return Opened(as_rows(X), y, text_names(X), label=label)
    from dask_s3vm.features.table_encoder import TableEncoder

    try:
        encoder = TableEncoder().fit(X)
    except ValueError as error:
        error.add_note(
            "A DataFrame is encoded by a TableEncoder with its defaults. For other options put one "
            "before the model: make_pipeline(TableEncoder(missing='median'), S3VM())"
        )
        raise
    return Opened(encoder.transform(X), y, encoder=encoder, label=label)


def take_in(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    find_map: Callable[[Any, Any], KernelMap | None],
    with_ranges: bool = False,
) -> tuple[Source, KernelMap | None]:
    """Check training data of any type and take it in; sets `n_features_in_`.

    `find_map` makes a kernel map of checked rows and labels, or None; if there is one, what is
    taken in are the features of the rows. If there is none, columns are measured `with_ranges`.
    """
    if y is None and get_tags(estimator).target_tags.required:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    X, y, sample_weight = as_array(X), as_array(y), as_array(sample_weight)
    if y is not None and not is_dask(y):
        y = _column(y)
    if sample_weight is not None and not is_dask(sample_weight):
        sample_weight = _weights_in_memory(sample_weight, X)
    if not is_dask(X):
        if sp.issparse(X):  # checked, and put in order, where blocks are made of it
            refuse_types(X)
            X = validate_data(estimator, X, **_CHECKS, ensure_all_finite=False)
        else:
            X = validate_data(estimator, checkable(X), **_CHECKS)
        kernel_map = find_map(X, y)
        features = None if kernel_map is None else FeatureBlocks(kernel_map, X.dtype)
        return ingest(X, y, sample_weight, features, with_ranges and not features), kernel_map
    kernel_map = find_map(X, y)
    if kernel_map is None:
        source = ingest(X, y, sample_weight, with_ranges=with_ranges)
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
    named = is_arrow_frame(X)
    X = as_array(rows_for(estimator, X))
    if named and not is_dask(X):  # its names were checked, and are gone
        X = check_array(X, **_CHECKS, estimator=estimator)
    elif not is_dask(X):
        X = checkable(X)
        return validate_data(estimator, X, **_CHECKS, reset=False)
    if X.ndim != 2 or X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has shape {X.shape}, but {type(estimator).__name__} was trained on "
            f"{estimator.n_features_in_} features; wanted (n, {estimator.n_features_in_})"
        )
    return X.rechunk({1: -1}) if is_dask(X) and X.numblocks[1] != 1 else X


def as_array(values: Any) -> Any:
    """Turn dask series into dask arrays; leave all else."""
    if not hasattr(values, "to_dask_array"):
        return values
    if not isinstance(values.dtype, np.dtype):  # strings, categories, numbers with NA
        values = values.astype(object)
    return lazy_array(values)


def plain_labels(y: Any) -> np.ndarray:
    """Labels in this process, checked: one per row, integers or strings."""
    if y is None:
        raise ValueError("y is None; wanted labels, and marks for rows without one")
    y = as_array(y)
    y = compute_all([y])[0] if is_dask(y) else y
    return as_labels(_column(y))


def plain_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Weights of rows in this process, checked: one per row; None stands for 1."""
    if sample_weight is None:
        return np.ones(n_rows)
    sample_weight = as_array(sample_weight)
    weights = compute_all([sample_weight])[0] if is_dask(sample_weight) else sample_weight
    weights = as_weights(weights)
    if len(weights) != n_rows:
        raise ValueError(
            f"sample_weight does not fit X: X has {n_rows} rows, sample_weight has "
            f"{len(weights)} entries"
        )
    return weights


def _column(y: Any) -> np.ndarray:
    """Labels in memory as a one-dimensional array."""
    refuse_masked(y, "y")
    if type(y).__module__.split(".")[0] == "sparse":
        raise TypeError(f"y is a {type(y).__name__}, which is sparse; wanted y.todense()")
    return column_or_1d(y, warn=True)


def _weights_in_memory(sample_weight: Any, X: Any) -> np.ndarray:
    """Return weights as an array; a number stands for that weight on every row."""
    refuse_masked(sample_weight, "sample_weight")
    sample_weight = np.asarray(sample_weight)
    if sample_weight.ndim == 0:
        if sample_weight.dtype.kind not in "biuf":
            raise TypeError(
                f"sample_weight is {sample_weight.item()!r}; wanted one number per row, or a number"
            )
        if is_dask(X):
            raise ValueError("sample_weight must be an array for dask input, got a number")
        return np.full(X.shape[0], float(sample_weight))
    return sample_weight


# Labels and classes ------------------------------------------------------------------------------


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
            f"{', '.join(repr(label) for label in np.asarray(empty).tolist())}"
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


def check_for_folds(classes: np.ndarray, counts: np.ndarray) -> None:
    """Refuse labels too few for probabilities: a class is held out, and must be there too."""
    if counts.min() < 2:
        raise ValueError(
            "probability=True needs 2 or more labeled rows of each class, and class "
            f"{classes[counts.argmin()].item()!r} has {int(counts.min())}; label more rows, or use "
            "probability=False"
        )


# What is known of the unlabeled rows before training ----------------------------------------------


def has_unlabeled(estimator: Any, totals: ClassTotals) -> bool:
    """Whether there are unlabeled rows that count; warns if not."""
    if totals.n_unlabeled > 0 and totals.unlabeled_weight > 0:
        return True
    warn(
        f"{type(estimator).__name__}: y has no unlabeled row (unlabeled={estimator.unlabeled!r}), "
        "or their weight is 0; the supervised problem is solved",
        UserWarning,
    )
    return False
