"""Prediction by linear models: numpy in, numpy out; dask in, lazy dask out."""

from typing import Any

import dask
import dask.array as da
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from dask_s3vm import _config
from dask_s3vm.engine.ingest import is_dask
from dask_s3vm.estimators._inputs import as_array, rows_to_predict
from dask_s3vm.estimators._resident import Resident
from dask_s3vm.features import KernelMap

#: Weights, biases, and the map to the features that they are over.
Model = tuple[np.ndarray, np.ndarray, KernelMap | None]


class LinearModel(BaseEstimator):
    """Something with `coef_` (k, d) and `intercept_` (k,).

    If it has a `kernel_map_`, the weights are over the features that this makes of rows.
    """

    coef_: np.ndarray
    intercept_: np.ndarray
    n_features_in_: int

    def decision_function(self, X: Any) -> Any:
        """Compute the outputs w.x + b, of features in place of x where there is a kernel.

        Parameters
        ----------
        X : array of shape (n, d): numpy, scipy.sparse, sparse, or dask

        Returns
        -------
        array of shape (n,) for one row of weights (two classes: positive for `classes_[1]`), (n, k)
        for more. A dask array, not yet computed, if X is one.
        """
        X = rows_to_predict(self, X)
        model = (self.coef_, self.intercept_, getattr(self, "kernel_map_", None))
        if not is_dask(X):
            return _outputs(X, model, _config.local_threads())
        k = len(self.coef_)
        shape: dict[str, Any] = (
            {"drop_axis": 1, "meta": np.empty(0)}
            if k == 1
            else {"chunks": (X.chunks[0], (k,)), "meta": np.empty((0, 0))}
        )
        # one task holds the model, and is shared by all blocks
        held = dask.delayed(model, traverse=False)
        return X.map_blocks(_outputs_of_block, model=held, dtype=np.float64, **shape)

    def __sklearn_tags__(self) -> Any:
        """Sparse input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearClassifier(ClassifierMixin, LinearModel):
    """A linear model with `classes_`; one row of weights for two classes."""

    classes_: np.ndarray

    def predict(self, X: Any) -> Any:
        """Class of each row: array of shape (n,), lazy if X is a dask array."""
        outputs = self.decision_function(X)
        if not is_dask(outputs):
            return classes_of(outputs, self.classes_)
        more = {"drop_axis": 1} if outputs.ndim == 2 else {}
        return outputs.map_blocks(
            classes_of,
            classes=self.classes_,
            dtype=self.classes_.dtype,
            meta=self.classes_[:0],
            **more,
        )

    def _complete(
        self, X: Any, y: Any, block_rows: tuple[int, ...], found: np.ndarray | None = None
    ) -> Any:
        """Labels of rows: those given, and predictions for the others; lazy for a dask X.

        `block_rows` are the rows of each block of X, where dask itself may not know them; `found`
        are labels to be taken in place of predictions.
        """
        if isinstance(X, Resident):
            return None
        X, y = as_array(X), as_array(y)
        predicted = self.predict(X) if found is None else beside(found, X, block_rows)
        if not is_dask(X):
            y = np.asarray(y.compute() if is_dask(y) else y).reshape(-1)
            return _labels_or(y, predicted, self.classes_)
        if not is_dask(y):
            y = da.from_array(np.asarray(y).reshape(-1), chunks=(block_rows,))
        elif not np.isnan(y.shape[0]):
            y = y.rechunk((block_rows,))
        return da.map_blocks(
            _labels_or, y, predicted, classes=self.classes_, dtype=self.classes_.dtype
        )


def beside(found: np.ndarray, X: Any, block_rows: tuple[int, ...]) -> Any:
    """An array with an entry per row, as a dask array with the chunks of X if X is one."""
    return da.from_array(found, chunks=(block_rows,)) if is_dask(X) else found


def linear_outputs(X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Compute the outputs of all rows: (n,) for one weight vector, (n, k) for more."""
    if len(coef) == 1:
        return np.asarray(X @ coef[0]) + intercept[0]
    return np.asarray(X @ coef.T) + intercept


def classes_of(outputs: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the class of each row: of the largest output, or by the sign of the only one."""
    best = outputs.argmax(axis=1) if outputs.ndim == 2 else (outputs > 0).astype(np.intp)
    return classes[best]


def _labels_or(y: np.ndarray, predicted: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return np.where(np.isin(y, classes), y, predicted).astype(classes.dtype)


def _outputs(X: Any, model: Model, threads: int) -> np.ndarray:
    coef, intercept, kernel_map = model
    if kernel_map is None:
        return linear_outputs(X, coef, intercept)
    weights, bias = (coef[0], intercept[0]) if len(coef) == 1 else (coef.T, intercept)
    return kernel_map.product(X, weights, threads) + bias


def _outputs_of_block(block: Any, model: Model) -> np.ndarray:
    if hasattr(block, "to_scipy_sparse"):
        block = block.to_scipy_sparse()
    return _outputs(block, model, threads=1)
