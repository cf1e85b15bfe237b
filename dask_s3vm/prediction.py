"""Prediction by linear models: numpy arrays for numpy, lazy dask arrays for dask.

This module does not import scikit-learn, which takes longer than most predictions. Estimators and
`io.load_predictor` build on it.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

from dask_s3vm import _config
from dask_s3vm.engine.containers import plain_rows
from dask_s3vm.frames import is_pandas_frame, like_frame, rows_for
from dask_s3vm.kernels.rows import check_finite
from dask_s3vm.numerics.linalg import one_blas_thread

if TYPE_CHECKING:
    from dask_s3vm.features import KernelMap

#: Weights, biases, and the map to the features that they apply to.
Model = tuple[np.ndarray, np.ndarray, "KernelMap | None"]

#: Values from which on threads share a product; with fewer they cost more than they gain.
SHARED = 1 << 20

#: Dense rows are cut at multiples of so many.
TOGETHER = 256


class LinearOutputs:
    """Outputs of a model with `coef_` (k, d) and `intercept_` (k,).

    If it has a `kernel_map_`, the weights apply to the features of that map.
    """

    coef_: np.ndarray
    intercept_: np.ndarray
    n_features_in_: int

    def decision_function(self, X: Any) -> Any:
        """Compute the outputs w.x + b, with features in place of x if there is a kernel.

        Parameters
        ----------
        X : array of shape (n, d): numpy, scipy.sparse, sparse, or dask; or a frame
            Columns of a frame are put in the order of training; other names are an error.

        Returns
        -------
        array of shape (n,) for one row of weights (two classes: positive for `classes_[1]`), (n, k)
        for more. A dask array, not yet computed, if X is lazy.
        """
        X = self._rows_to_predict(X)
        if not isinstance(X, da.Array):
            return self._outputs(X)
        k = len(self.coef_)
        # the model is one task, shared by all blocks
        held = dask.delayed(self._model, traverse=False)
        # with drop_axis, dask would join the columns of each block, which takes `sparse` seconds
        outputs = X.map_blocks(
            _outputs_of_block,
            model=held,
            dtype=np.float64,
            chunks=(X.chunks[0], (k,)),
            meta=np.empty((0, 0)),
        )
        return outputs[:, 0] if k == 1 else outputs

    @property
    def _model(self) -> Model:
        return self.coef_, self.intercept_, getattr(self, "kernel_map_", None)

    def _outputs(self, X: Any) -> np.ndarray:
        """Compute the outputs of checked rows in memory."""
        return _outputs(X, self._model, _config.local_threads())

    def _rows_to_predict(self, X: Any) -> Any:
        """Check the rows to predict; rechunk a dask array to whole rows."""
        X = rows_for(self, X)
        if is_pandas_frame(X):
            X = X.to_numpy(dtype=np.float64, na_value=np.nan)
        if not isinstance(X, da.Array):
            X = checked_rows(X)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has shape {X.shape}, but {type(self).__name__} was trained on "
                f"{self.n_features_in_} features; wanted (n, {self.n_features_in_})"
            )
        return X.rechunk({1: -1}) if isinstance(X, da.Array) and X.numblocks[1] != 1 else X


class LinearClasses(LinearOutputs):
    """A linear model with `classes_`; one row of weights for two classes."""

    classes_: np.ndarray

    def predict(self, X: Any) -> Any:
        """Return the class of each row, (n,), lazy if X is.

        For a DataFrame of pandas or dask it is a series with the index of X.
        """
        outputs = self.decision_function(X)
        if not isinstance(outputs, da.Array):
            return like_frame(classes_of(outputs, self.classes_), X)
        more = {"drop_axis": 1} if outputs.ndim == 2 else {}
        classes = outputs.map_blocks(
            classes_of,
            classes=self.classes_,
            dtype=self.classes_.dtype,
            meta=self.classes_[:0],
            **more,
        )
        return like_frame(classes, X)

    def _probabilities(self, X: Any, log: bool = False) -> Any:
        """Return the probability of each class, (n, n_classes), lazy if X is; or its logarithm."""
        outputs = self.decision_function(X)  # first of all, so that a model without a fit says so
        calibration = getattr(self, "calibration_", None)
        if calibration is None:
            raise AttributeError(
                "the model has no probabilities; set probability=True and fit it again"
            )
        if not isinstance(outputs, da.Array):
            return probabilities_of(outputs, calibration, log)
        n_classes = max(2, len(calibration))
        axis = {"new_axis": 1} if outputs.ndim == 1 else {}
        return outputs.map_blocks(
            probabilities_of,
            calibration=calibration,
            log=log,
            dtype=np.float64,
            chunks=(outputs.chunks[0], (n_classes,)),
            meta=np.empty((0, 0)),
            **axis,
        )


class Predictor(LinearClasses):
    """The part of a fitted classifier that predicts, from a model file; see `io.load_predictor`.

    Parameters
    ----------
    fitted : fitted attributes by name.
    unlabeled : mark of unlabeled rows in the training data.
    """

    def __init__(self, fitted: dict[str, Any], unlabeled: Any) -> None:
        vars(self).update(fitted)
        self.unlabeled = unlabeled

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, (n, n_classes), lazy if X is."""
        return self._probabilities(X)


def classes_of(outputs: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the class of each row: that of the largest output, or by the sign of a single one."""
    best = outputs.argmax(axis=1) if outputs.ndim == 2 else (outputs > 0).astype(np.intp)
    return classes[best]


def probabilities_of(outputs: np.ndarray, calibration: np.ndarray, log: bool = False) -> np.ndarray:
    """Return the probabilities (n, n_classes) of outputs; see `methods.calibration`.

    Parameters
    ----------
    outputs : (n,) or (n, k).
    calibration : (1, 2) or (k, 2), slope and level of each sigmoid.
    log : whether to return logarithms, which tell small probabilities from 0.
    """
    logits = outputs.reshape(len(outputs), -1) * calibration[:, 0] + calibration[:, 1]
    if len(calibration) == 1:
        logits = np.concatenate([-logits, logits], axis=1)
    logs = -np.logaddexp(0.0, -logits)
    if len(calibration) > 1:  # logarithms: a row may be far from every class
        largest = logs.max(axis=1, keepdims=True)
        logs = logs - largest - np.log(np.exp(logs - largest).sum(axis=1, keepdims=True))
    return logs if log else np.exp(logs)


def _outputs(X: Any, model: Model, threads: int) -> np.ndarray:
    """Compute the outputs of all rows: (n,) for one weight vector, (n, k) for more."""
    with np.errstate(over="ignore", invalid="ignore"):
        outputs = _products(X, model, threads)
    if not np.isfinite(outputs).all():  # NaN would be of the first class
        raise ValueError(
            "outputs of X are infinite or NaN: it has values too large for this model; wanted rows "
            "scaled as those of training were"
        )
    return outputs


def _products(X: Any, model: Model, threads: int) -> np.ndarray:
    coef, intercept, kernel_map = model
    weights, bias = (coef[0], intercept[0]) if len(coef) == 1 else (coef.T, intercept)
    if kernel_map is not None:
        return kernel_map.product(X, weights, threads) + bias
    cuts = _cuts(X, threads)
    # BLAS threads would spin for milliseconds afterwards, on the cores that other work needs
    with one_blas_thread():
        if len(cuts) == 2:
            return np.asarray(X @ weights) + bias
        with ThreadPoolExecutor(threads) as pool:
            parts = pool.map(lambda low, high: _slice(X, low, high) @ weights, cuts[:-1], cuts[1:])
            return np.concatenate(list(parts)) + bias


def _cuts(X: Any, threads: int) -> np.ndarray:
    """Where to cut rows into parts of equally many values, one for each thread."""
    sparse = sp.issparse(X)
    if threads == 1 or (X.nnz if sparse else X.size) < SHARED:
        return np.array([0, X.shape[0]])
    if not sparse:  # BLAS takes a few rows at a time: the same ones in any number of parts
        inner = (
            np.linspace(0, X.shape[0], threads + 1)[1:-1].astype(np.int64) // TOGETHER * TOGETHER
        )
        return np.array([0, *inner, X.shape[0]])
    inner = np.searchsorted(X.indptr, np.linspace(0, X.indptr[-1], threads + 1)[1:-1])
    return np.array([0, *inner, X.shape[0]])


def _slice(X: Any, low: int, high: int) -> Any:
    """Rows `low` to `high`; the entries of sparse rows are not copied, as scipy would."""
    if not sp.issparse(X):
        return X[low:high]
    start, stop = X.indptr[low], X.indptr[high]
    parts = X.data[start:stop], X.indices[start:stop], X.indptr[low : high + 1] - start
    return sp.csr_array(parts, (high - low, X.shape[1]))


def _outputs_of_block(block: Any, model: Model, block_info: Any = None) -> np.ndarray:
    outputs = _outputs(checked_rows(block, _first_row(block_info)), model, threads=1)
    return outputs.reshape(len(outputs), len(model[0]))


def _first_row(block_info: Any) -> int | None:
    """Number of the first row of a block; None if dask does not know the sizes of chunks."""
    start = block_info[0]["array-location"][0][0] if block_info else None
    return None if start is None or np.isnan(start) else int(start)


def checked_rows(block: Any, start: int | None = 0) -> Any:
    """Return rows to predict as an ndarray or csr_array; refuse NaN, infinity and masks.

    `start` is the number of the first row, None if unknown: rows are then counted in the block.
    """
    rows = plain_rows(block)
    if rows.dtype.kind not in "fiub":
        raise TypeError(f"X has dtype {rows.dtype}; wanted real numbers")
    try:
        check_finite(rows.data if sp.issparse(rows) else rows)
    except ValueError as error:
        raise ValueError(f"{error}: {_bad_rows(rows, start)}") from None
    return rows


def _bad_rows(rows: Any, start: int | None) -> str:
    """Name the rows with NaN or infinity."""
    if sp.issparse(rows):
        bad = np.searchsorted(rows.indptr, np.flatnonzero(~np.isfinite(rows.data)), "right") - 1
        bad = np.unique(bad)
    else:
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    named = ", ".join(str(int(row) + (start or 0)) for row in bad[:5])
    more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
    place = " of a block" if start is None else ""
    return f"row{'s' if len(bad) > 1 else ''} {named}{more}{place} (from 0)"
