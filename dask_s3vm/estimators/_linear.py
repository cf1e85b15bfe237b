"""Linear models as scikit-learn knows them."""

from collections.abc import Sequence
from typing import Any, ClassVar

import dask.array as da
import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if

from dask_s3vm.engine.column_scale import ColumnScale, Ranges
from dask_s3vm.engine.ingest import is_dask
from dask_s3vm.estimators._export import as_sklearn
from dask_s3vm.estimators._onnx import as_onnx
from dask_s3vm.estimators._rows import (
    PlacedRows,
    as_array,
    plain_labels,
    plain_weights,
    rows_to_predict,
)
from dask_s3vm.features import KernelMap, check_kernel, fit_kernel_map
from dask_s3vm.features.unit_scaler import far_apart
from dask_s3vm.frames import take_label
from dask_s3vm.labels import AUTO, as_labels, is_unlabeled, of_kind
from dask_s3vm.parameters.fields import constraints_of, fitted, parametrized, refuse_renamed
from dask_s3vm.parameters.shared import KernelParameters
from dask_s3vm.prediction import LinearClasses, LinearOutputs, classes_of


class _Constraints:
    """Constraints of the parameters, made for scikit-learn when it asks for them."""

    def __get__(self, instance: Any, owner: Any) -> dict[str, list[Any]]:
        return constraints_of(owner)


@parametrized
class LinearModel(KernelParameters, LinearOutputs, BaseEstimator):
    """An estimator with `coef_` and `intercept_`, of columns or of features of a kernel."""

    _parameter_constraints: ClassVar[Any] = _Constraints()
    #: default of a parameter that not every estimator declares
    scale = "none"
    #: old names of parameters -> new name, and what its values are
    _renamed: ClassVar[dict[str, tuple[str, str]]] = {}

    coef_: np.ndarray = fitted(
        "ndarray of shape (1, d) or (n_classes, d)",
        "Weights, of the features that `kernel_map_` makes if there is one; one row for two "
        "classes, one-vs-rest for more.",
    )
    intercept_: np.ndarray = fitted("ndarray of shape (1,) or (n_classes,)", "Biases.")
    objective_: float | np.ndarray = fitted(
        "float or ndarray of shape (n_classes,)",
        "The objective above at what the method found, before a supervised part is mixed in.",
    )
    n_rounds_: int = fitted("int", "Rounds over the rows, all of them counted.")
    history_: list[dict[str, Any]] = fitted(
        "list of dict",
        lambda cls: cls.facts.history_words() if hasattr(cls, "facts") else "Rows of the fit.",
    )
    n_features_in_: int = fitted("int", "Number of columns of X.")
    feature_names_in_: np.ndarray = fitted(
        "ndarray of shape (n_features_in_,)", "Names of the columns, where X has them."
    )

    def set_params(self, **params: Any) -> Any:
        """Set parameters; see `BaseEstimator`."""
        refuse_renamed(type(self), params, ValueError)
        return super().set_params(**params)

    def __sklearn_clone__(self) -> Any:
        """Copy the parameters, but not the user's callbacks, which may hold anything."""
        params = self.get_params(deep=False)
        return type(self)(
            **{
                name: value if name == "callbacks" else clone(value, safe=False)
                for name, value in params.items()
            }
        )

    def _rows_to_predict(self, X: Any) -> Any:
        return rows_to_predict(self, X)

    def _check_kernel(self) -> None:
        """Refuse parameters that do not go together."""
        if not self._is_linear:
            check_kernel(self.kernel, self.sigma, self.gamma, self.kernel_params)

    def _fit_kernel_map(self, X: Any, y: Any = None) -> KernelMap | None:
        """Make the map from rows of X; None for the linear kernel, which needs none.

        y : the labels; not used here.
        """
        if self._is_linear:
            return None
        return fit_kernel_map(
            X,
            self.kernel,
            n_components=self.n_components,
            sigma=self.sigma,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
            random_state=self.random_state,
            column_scale=self._column_scale if self._scales_columns else None,
        )

    @property
    def _scales_columns(self) -> bool:
        """Whether `_column_scale` wants the ranges of the columns."""
        return self.scale == "auto"

    def _column_scale(self, ranges: Ranges | None) -> ColumnScale | None:
        """How to scale the columns of dense rows by their ranges; None to leave them."""
        if ranges is None or not far_apart(ranges.widths):
            return None
        # without a bias nothing makes up for a shift
        return ColumnScale.to_unit(ranges, shift=getattr(self, "fit_intercept", True))

    def __sklearn_tags__(self) -> Any:
        """Sparse input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _has_probabilities(model: Any) -> bool:
    """Whether a model has `predict_proba`, as scikit-learn asks before it is fitted."""
    if not getattr(model, "probability", False):
        raise AttributeError("predict_proba is there only with probability=True")
    return True


@parametrized
class LinearClassifier(ClassifierMixin, LinearClasses, LinearModel):
    """A linear model with `classes_`; see `LinearClasses`."""

    classes_: np.ndarray = fitted("ndarray of shape (n_classes,)", "The classes, sorted.")
    label_name_: str = fitted(
        "str",
        "Name of the column of X with the labels, where y was that name. Frames to be predicted "
        "may have it.",
    )
    n_iter_: int = fitted(
        "int", lambda cls: cls.facts.iteration_words() if hasattr(cls, "facts") else "Iterations."
    )
    termination_: str = fitted(
        "str",
        'How the last training ended: "converged", "precision" where rounding allowed no further '
        'step, or "max_iter".',
    )

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class; only with ``probability=True``.

        Parameters
        ----------
        X : array of shape (n, d), or a frame
            As for `predict`.

        Returns
        -------
        array of shape (n, n_classes), in the order of `classes_`; lazy if X is.
        """
        return self._probabilities(X)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of `predict_proba`, exact where probabilities are near 0."""
        return self._probabilities(X, log=True)

    def to_sklearn(self, *, probabilities: bool = False) -> Any:
        """Return this model as one of scikit-learn, which needs nothing of this package.

        It can be pickled, and used where dask_s3vm is not installed. Rows are numpy or scipy.sparse
        arrays, or DataFrames of pandas.

        Parameters
        ----------
        probabilities : bool
            Whether `predict_proba` is wanted; `predict` then returns the likeliest class.

        Returns
        -------
        Fitted `SGDClassifier`, with the same `predict` and `decision_function`, or with the same
        `predict_proba`; it is no more than a place for weights. With a kernel, a `Pipeline` of
        `Nystroem` and one.
        """
        return as_sklearn(self, probabilities)

    def to_onnx(self, *, probabilities: bool = False) -> Any:
        """Return this model in the format of ONNX; needs the package `onnx`.

        The kernel may be linear, "poly", "rbf" or "sigmoid". The input "X" has doubles, and all is
        computed in doubles. Results are "label" and "probabilities", in which there are the outputs
        of the classes if no probabilities are wanted. ``to_onnx().SerializeToString()`` are the
        bytes of a file.

        Parameters
        ----------
        probabilities : bool
            As for `to_sklearn`.
        """
        return as_onnx(self, probabilities)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the labeled rows whose class is predicted right; others are left out.

        Parameters
        ----------
        X : array of shape (n, d)
            As for `predict`.
        y : array of shape (n,), numpy or dask, or str
            Labels; `unlabeled` marks rows without one. Or the name of a column of X.
        sample_weight : array of shape (n,) or None
            Weights of the rows.

        Costs: labels and predictions of a dask array come to this process.
        """
        if isinstance(y, str):
            X, y = take_label(X, y)
        labels = plain_labels(y)
        known = self._known(labels)
        found = plain_labels(self.predict(X))
        if len(found) != len(labels):
            raise ValueError(
                f"y does not fit X: X has {len(found)} rows, y has {len(labels)} entries"
            )
        weights = plain_weights(sample_weight, len(labels))[known]
        if not weights.any():
            raise ValueError("sample_weight is zero on every labeled row; wanted some weight")
        return _share_right(found, labels, known, weights)

    def _known(self, labels: np.ndarray) -> np.ndarray:
        """Which rows have a label to score on."""
        known = ~is_unlabeled(labels, getattr(self, "unlabeled", AUTO), self.classes_)
        if not known.any():
            raise ValueError("y has no labeled row to score on: every entry marks unlabeled rows")
        return known

    def _classes(self, X: Any) -> Any:
        """Predict rows that `fit` has checked; a dask X is checked again, block by block."""
        if sp.issparse(X):
            return classes_of(self._outputs(X.tocsr()), self.classes_)
        return self.predict(X)

    def _complete(
        self, X: Any, y: Any, block_rows: tuple[int, ...], found: np.ndarray | None = None
    ) -> Any:
        """Labels of rows: those given, and predictions for the others; lazy for a dask X.

        `block_rows` are the rows of each block of X, where dask itself may not know them; `found`
        are labels to be taken in place of predictions.
        """
        if isinstance(X, PlacedRows):
            return None
        X, y = as_array(X), as_array(y)
        predicted = self._classes(X) if found is None else like_rows(found, X, block_rows)
        if not is_dask(X):
            y = plain_labels(y)
            return _labels_or(y, predicted, self.classes_)
        if not is_dask(y):
            y = da.from_array(np.asarray(y).reshape(-1), chunks=(block_rows,))
        elif not np.isnan(y.shape[0]):
            y = y.rechunk((block_rows,))
        return da.map_blocks(
            _labels_or, y, predicted, classes=self.classes_, dtype=self.classes_.dtype
        )


def scores_of(models: Sequence[LinearClassifier], X: Any, y: np.ndarray) -> list[float]:
    """Return the `score` of models that were fitted alike; X and y, in memory, are checked once."""
    guide, labels = models[0], plain_labels(y)
    rows, known = guide._rows_to_predict(X), guide._known(labels)
    weights = np.ones(np.count_nonzero(known))
    found = (classes_of(model._outputs(rows), model.classes_) for model in models)
    return [_share_right(one, labels, known, weights) for one in found]


def _share_right(
    found: np.ndarray, labels: np.ndarray, known: np.ndarray, weights: np.ndarray
) -> float:
    """Share of the known labels that was found, by weight."""
    right = of_kind(found, labels.dtype.kind) == of_kind(labels, found.dtype.kind)
    return float(np.average(right[known], weights=weights))


def like_rows(found: np.ndarray, X: Any, block_rows: tuple[int, ...]) -> Any:
    """An array with entries for each row, as a dask array with the chunks of X if X is one."""
    if not is_dask(X):
        return found
    return da.from_array(found, chunks=(block_rows, *found.shape[1:]))


def _labels_or(y: np.ndarray, predicted: np.ndarray, classes: np.ndarray) -> np.ndarray:
    y = of_kind(as_labels(y), classes.dtype.kind)
    return np.where(np.isin(y, classes), y, predicted).astype(classes.dtype)
