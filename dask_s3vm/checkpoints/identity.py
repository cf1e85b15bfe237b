"""What a state belongs to: an estimator, its parameters, and the rows that it was fitted on."""

import functools
import hashlib
from types import CodeType
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
    if isinstance(value, functools.partial):
        return f"partial({_text(value.func)}, {_text(list(value.args))}, {_text(value.keywords)})"
    if callable(value):
        return _function_text(value)
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    if isinstance(value, dict):
        return str(sorted((str(key), _text(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)


def _function_text(function: Any) -> str:
    """Name of a function, and a digest of its code and of what it holds."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{function.__module__}.{name}"
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    about = [code.co_code.hex(), repr(code.co_names), _constants(code)]
    about += [_text(function.__defaults__), _text(held)]
    digest = hashlib.sha256("\n".join(about).encode()).hexdigest()[:12]
    return f"{function.__module__}.{name} {digest}"


def _constants(code: CodeType) -> str:
    """Constants of a function, and of functions inside it."""
    return repr(
        [_constants(part) if isinstance(part, CodeType) else part for part in code.co_consts]
    )
