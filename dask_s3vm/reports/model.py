"""What is in a model: facts for `dask-s3vm info MODEL` and for the page of a run."""

from typing import Any

import numpy as np

#: Parameters that say nothing of a model.
_LEFT_OUT = ("callbacks", "verbose", "checkpoint")

#: Fitted attributes that are facts worth telling, if a model has them.
_TOLD = (
    "objective_", "termination_", "n_iter_", "n_rounds_", "positive_ratio_",
    "positive_ratio_interval_", "decision_", "decision_reason_", "lam_", "loo_errors_", "sharded_",
    "intercept_",
)  # fmt: skip


def model_facts(estimator: Any, n_weights: int = 10) -> dict[str, Any]:
    """Return what a fitted estimator is: method, parameters, classes, ratio, columns, weights.

    Parameters
    ----------
    estimator : fitted estimator
    n_weights : int
        Number of weights to tell, the largest by absolute value.
    """
    parameters = estimator.get_params(deep=False)
    facts = getattr(estimator, "facts", None)
    encoder = getattr(estimator, "encoder_", None)
    columns = getattr(encoder or estimator, "feature_names_in_", None)
    label = getattr(encoder, "label_", None)
    return {
        "estimator": type(estimator).__name__,
        "method": getattr(facts, "name", "") or "-",
        "about": getattr(facts, "title", ""),
        "classes": np.asarray(getattr(estimator, "classes_", ())).tolist(),
        "features": int(estimator.n_features_in_),
        "columns": None if columns is None else np.asarray(columns).tolist(),
        "kinds": getattr(encoder, "kinds_", None),
        "label": getattr(estimator, "label_name_", None) if label is None else label.name,
        "fitted": {
            name.removesuffix("_"): getattr(estimator, name)
            for name in _TOLD
            if hasattr(estimator, name)
        },
        "parameters": {name: value for name, value in parameters.items() if name not in _LEFT_OUT},
        "weights": strongest_weights(estimator, n_weights),
    }


def strongest_weights(estimator: Any, count: int) -> list[dict[str, Any]]:
    """Return the weights of largest absolute value: class, name of the feature, weight.

    None for a kernel, whose weights are not those of columns. With two classes a positive weight
    speaks for the second one.
    """
    coef = getattr(estimator, "coef_", None)
    if coef is None or getattr(estimator, "kernel_map_", None) is not None:
        return []
    coef = np.atleast_2d(coef)
    names = feature_names(estimator)
    classes = np.asarray(estimator.classes_).tolist()[-len(coef) :]
    order = np.argsort(-np.abs(coef), axis=None, kind="stable")[:count]
    places = zip(*np.unravel_index(order, coef.shape), strict=True)
    return [
        {
            "class": classes[row],
            "feature": names[column] if names is not None else f"column {column}",
            "weight": float(coef[row, column]),
        }
        for row, column in places
        if coef[row, column]
    ]


def feature_names(estimator: Any) -> list[str] | None:
    """Return the names of the features that the weights apply to; None if they have none."""
    encoder = getattr(estimator, "encoder_", None)
    if encoder is not None:
        return [str(name) for name in encoder.get_feature_names_out()]
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]
