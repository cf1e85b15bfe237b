"""What a state belongs to: an estimator, its parameters, and the rows that it was fitted on."""

import hashlib
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from dask_s3vm._version import __version__

#: Facts by name, texts and numbers.
Identity = dict[str, Any]

#: How a fit reports, and where it keeps its state, make no difference to the model.
_OF_NO_ACCOUNT = ("callbacks", "verbose", "checkpoint")


def identity_of(estimator: BaseEstimator, rows: dict[str, Any], about: dict[str, Any]) -> Identity:
    """Tell a fit from others.

    Parameters
    ----------
    estimator : its class and parameters count, but for `callbacks`, `verbose`, `checkpoint`.
    rows : facts about the rows; see `engine.fingerprint`.
    about : what else it depends on; arrays count by their bytes.
    """
    parameters = {
        f"parameter {name}": _text(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _OF_NO_ACCOUNT
    }
    return {
        "dask-s3vm": __version__,
        "estimator": type(estimator).__name__,
        **parameters,
        **{f"rows: {name}": value for name, value in rows.items()},
        **{name: _text(value) for name, value in about.items()},
    }


def differences(there: Identity, here: Identity) -> list[str]:
    """Say what is different, one line for each fact."""
    return [
        f"{name} was {there.get(name)}, is {here.get(name)}"
        for name in sorted(there.keys() | here.keys())
        if there.get(name) != here.get(name)
    ]


def _text(value: Any) -> str:
    """A parameter as text that is the same in another process."""
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    if isinstance(value, dict):
        return str(sorted((str(key), _text(item)) for key, item in value.items()))
    return repr(value)
