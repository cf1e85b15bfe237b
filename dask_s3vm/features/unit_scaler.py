"""Columns scaled to [0, 1]: sparse rows stay sparse, dask arrays stay lazy."""

from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dask_s3vm.engine.column_scale import ColumnScale, Ranges
from dask_s3vm.engine.computing import compute_all
from dask_s3vm.engine.containers import checkable
from dask_s3vm.engine.ingest import is_dask
from dask_s3vm.features.landmarks import column_ranges, narrow_rows, one_column_block
from dask_s3vm.frames import as_rows, is_arrow_frame, is_frame, rows_for, text_names
from dask_s3vm.interrupts import interruptible

#: Ranges of columns that differ by this factor are of different units.
FAR_APART = 100.0

_FLOATS = [np.float64, np.float32]


class UnitScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scale each column to [0, 1].

    Dense rows become ``(x - min) / (max - min)``, a constant column 0. Sparse rows are divided by
    the largest absolute value of the column, so that zeros stay zeros: columns without negative
    values are then in [0, 1], others in [-1, 1]. If any block of a dask array is sparse, all blocks
    are scaled that way. The scalers of scikit-learn do the same for arrays in memory; this one also
    takes dask arrays with blocks of any type, in one pass to fit, and transforms lazily.

    Rows that were not part of `fit` may lie outside of these ranges.

    Attributes
    ----------
    data_min_, data_max_ : ndarray of shape (d,)
        Smallest and largest value of each column, including zeros that are not stored.
    offset_, scale_ : ndarray of shape (d,)
        The transformation is ``(x - offset_) * scale_``; `offset_` is 0 for sparse rows.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask_s3vm.features import UnitScaler
    >>> UnitScaler().fit_transform(da.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]])).compute()
    array([[0. , 0. ],
           [1. , 0. ],
           [0.5, 0. ]])
    """

    feature_names_in_: np.ndarray

    @interruptible
    def fit(self, X: Any, y: Any = None) -> "UnitScaler":
        """Find the ranges of the columns; for a dask array one computation over its blocks."""
        names = text_names(X) if is_frame(X) else None
        X = as_rows(X) if is_frame(X) else X
        if is_dask(X):
            X = one_column_block(X)
            facts_of = dask.delayed(_facts_of, pure=False)
            facts = compute_all([facts_of(block) for block in X.to_delayed().ravel()])
            self.n_features_in_ = X.shape[1]
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        else:
            X = validate_data(self, checkable(X), accept_sparse="csr", dtype=_FLOATS)
            facts = (_facts_of(X),)
        if names is not None:
            self.feature_names_in_ = names
        measured = [ranges for ranges, _ in facts if ranges is not None]
        if not measured:
            raise ValueError("X is empty: it has no rows; wanted at least one")
        ranges = Ranges.joined(measured)
        self.data_min_, self.data_max_ = ranges
        if not (np.isfinite(self.data_min_).all() and np.isfinite(self.data_max_).all()):
            raise ValueError("X has NaN or infinite values; wanted finite ones")
        with np.errstate(over="ignore"):
            wide = np.isinf(ranges.widths)
        if wide.any():
            raise ValueError(
                f"X has a column, {int(np.argmax(wide))}, whose range is beyond the largest "
                "number; wanted smaller values"
            )
        is_sparse = any(sparse for _, sparse in facts)
        self.offset_, self.scale_ = ColumnScale.to_unit(ranges, shift=not is_sparse)
        return self

    def transform(self, X: Any) -> Any:
        """Scale rows: numpy or scipy.sparse as X is; a lazy dask array if X is one."""
        check_is_fitted(self)
        named = is_arrow_frame(X)
        X = rows_for(self, X)
        if named:  # its names were checked, and are gone
            X = check_array(X, dtype=_FLOATS)
            return _scaled(X, self.offset_, self.scale_)
        if not is_dask(X):
            X = validate_data(self, checkable(X), accept_sparse="csr", dtype=_FLOATS, reset=False)
            return _scaled(X, self.offset_, self.scale_)
        X = one_column_block(X)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} columns, but UnitScaler was fitted on {self.n_features_in_}"
            )
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        dense = isinstance(X._meta, np.ndarray)
        meta: Any = np.empty((0, 0), dtype) if dense else sp.csr_array((0, 0), dtype=dtype)
        return X.map_blocks(
            _scaled_block, offset=self.offset_, scale=self.scale_, dtype=dtype, meta=meta
        )

    def __sklearn_tags__(self) -> Any:
        """Declare that sparse input is accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def far_apart(widths: np.ndarray) -> bool:
    """Whether columns of these ranges are of different units, and the widest outweigh others."""
    narrow = narrow_width(widths)
    return narrow > 0 and float(widths.max()) >= FAR_APART * narrow


def narrow_width(widths: np.ndarray) -> float:
    """Range that a tenth of the columns does not exceed, constant ones left out."""
    return float(np.quantile(widths[widths > 0], 0.1)) if (widths > 0).any() else 0.0


def _facts_of(block: Any) -> tuple[Any, bool]:
    """Return the column ranges, None if there are no rows, and whether the rows are sparse."""
    rows = narrow_rows(block)
    return column_ranges(rows) if rows.shape[0] else None, sp.issparse(rows)


def _scaled_block(block: Any, offset: np.ndarray, scale: np.ndarray) -> Any:
    return _scaled(narrow_rows(block), offset, scale)


def _scaled(rows: Any, offset: np.ndarray, scale: np.ndarray) -> Any:
    dtype = np.float32 if rows.dtype == np.float32 else np.float64
    if not sp.issparse(rows):
        return ((np.asarray(rows) - offset) * scale).astype(dtype, copy=False)
    if offset.any():
        raise ValueError(
            "X is sparse, but UnitScaler was fitted on dense rows, whose zeros do not stay zeros; "
            "fit on sparse rows, or scale dense ones"
        )
    scaled = rows.tocsr().astype(dtype)  # a copy
    scaled.data *= scale[scaled.indices].astype(dtype)
    return scaled
