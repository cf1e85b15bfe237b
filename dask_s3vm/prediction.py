"""Prediction by linear models: numpy in, numpy out; dask in, lazy dask out.

Without scikit-learn, whose import takes longer than most predictions: estimators build on this, and
so does `io.load_predictor`.
"""

from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np

from dask_s3vm import _config

if TYPE_CHECKING:
    from dask_s3vm.features import KernelMap

#: Weights, biases, and the map to the features that they are over.
Model = tuple[np.ndarray, np.ndarray, "KernelMap | None"]


class LinearOutputs:
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
        X = self._rows_to_predict(X)
        model = (self.coef_, self.intercept_, getattr(self, "kernel_map_", None))
        if not isinstance(X, da.Array):
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

    def _rows_to_predict(self, X: Any) -> Any:
        """Check rows to be predicted."""
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
        """Class of each row: array of shape (n,), lazy if X is a dask array."""
        outputs = self.decision_function(X)
        if not isinstance(outputs, da.Array):
            return classes_of(outputs, self.classes_)
        more = {"drop_axis": 1} if outputs.ndim == 2 else {}
        return outputs.map_blocks(
            classes_of,
            classes=self.classes_,
            dtype=self.classes_.dtype,
            meta=self.classes_[:0],
            **more,
        )


class Predictor(LinearClasses):
    """What a model file has of a fitted classifier to predict with; see `io.load_predictor`.

    Parameters
    ----------
    fitted : fitted attributes by name.
    unlabeled : the mark of rows without a label in the data that it was trained on.
    """

    def __init__(self, fitted: dict[str, Any], unlabeled: Any) -> None:
        vars(self).update(fitted)
        self.unlabeled = unlabeled


def linear_outputs(X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Compute the outputs of all rows: (n,) for one weight vector, (n, k) for more."""
    if len(coef) == 1:
        return np.asarray(X @ coef[0]) + intercept[0]
    return np.asarray(X @ coef.T) + intercept


def classes_of(outputs: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the class of each row: of the largest output, or by the sign of the only one."""
    best = outputs.argmax(axis=1) if outputs.ndim == 2 else (outputs > 0).astype(np.intp)
    return classes[best]


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
