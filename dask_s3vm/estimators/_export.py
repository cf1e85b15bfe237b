"""Fitted models as scikit-learn's own, which need nothing of this package."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dask_s3vm.engine.column_scale import ColumnScale


def as_sklearn(model: Any, probabilities: bool) -> Any:
    """Return the model as a fitted `SGDClassifier`, in a pipeline if it has a kernel.

    Parameters
    ----------
    model : fitted classifier.
    probabilities : whether `predict_proba` is wanted, rather than the labels of `predict`.
    """
    slopes, levels = slopes_and_levels(model, probabilities)
    if model.kernel_map_ is None:
        found = _linear(model, slopes[:, None] * model.coef_, probabilities)
        found.intercept_ = slopes * model.intercept_ + levels
        if hasattr(model, "feature_names_in_"):
            found.feature_names_in_ = model.feature_names_in_
        return found
    return _with_kernel(model, slopes, levels, probabilities)


def slopes_and_levels(model: Any, probabilities: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return a slope and a level for each output: those of its sigmoid if probabilities are wanted.

    A model that cannot leave this package is refused.
    """
    check_is_fitted(model)
    if getattr(model, "encoder_", None) is not None:
        raise ValueError(
            f"{type(model).__name__} was fitted on a table and has an encoder_, which cannot leave "
            "this package; wanted a model of numbers: encode the table by a ColumnTransformer in a "
            "pipeline, and fit on that"
        )
    if not probabilities:
        return np.ones(len(model.coef_)), np.zeros(len(model.coef_))
    if getattr(model, "calibration_", None) is None:
        raise ValueError(
            "probabilities=True needs a model that has them; set probability=True and fit it again"
        )
    slopes, levels = model.calibration_.T
    return slopes, levels


def _with_kernel(model: Any, slopes: np.ndarray, levels: np.ndarray, probabilities: bool) -> Any:
    """A pipeline whose first step makes the outputs, up to slope and level.

    Of the features K(x, R) B the model needs K(x, R) (B w) alone: a column for each output in place
    of one for each landmark.
    """
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import Pipeline

    kernel_map = model.kernel_map_
    given = {"kernel_params": dict(kernel_map.params)}
    if not callable(kernel_map.kernel):
        given = dict(kernel_map.params)
    first = Nystroem(kernel_map.kernel, n_components=len(kernel_map.basis), **given)
    first.components_ = kernel_map.landmarks
    first.component_indices_ = np.arange(len(kernel_map.basis))
    first.normalization_ = np.ascontiguousarray((kernel_map.basis @ model.coef_.T).T)
    first.n_features_in_ = kernel_map.n_features
    first._n_features_out = len(model.coef_)
    last = _linear(model, np.diag(slopes), probabilities)
    last.intercept_ = slopes * model.intercept_ + levels
    steps = [("kernel", first), ("model", last)]
    if kernel_map.scale is not None:
        steps = [("scale", _scaler(kernel_map.scale)), *steps]
    if hasattr(model, "feature_names_in_"):
        steps[0][1].feature_names_in_ = model.feature_names_in_
    return Pipeline(steps)


def _scaler(scale: ColumnScale) -> Any:
    from sklearn.preprocessing import StandardScaler

    found = StandardScaler()
    found.mean_, found.scale_ = scale.offset, 1.0 / scale.scale
    found.n_features_in_ = len(scale.offset)
    return found


def _linear(model: Any, coef: np.ndarray, probabilities: bool) -> Any:
    """A linear model: largest output, or sigmoids divided by their sum, as here."""
    from sklearn.linear_model import SGDClassifier

    found = SGDClassifier(loss="log_loss" if probabilities else "hinge")
    found.coef_ = np.ascontiguousarray(coef)
    found.classes_ = model.classes_
    found.n_features_in_ = coef.shape[1]
    found.n_iter_ = model.n_iter_
    return found
