"""Fitted models in one file without pickle: loading one never runs code from the file."""

import importlib
import inspect
import json
import os
from collections.abc import Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import is_dask_collection

import dask_s3vm
from dask_s3vm.io.archive import decode, encode, open_arrays, write_arrays
from dask_s3vm.io.errors import ModelFileError
from dask_s3vm.io.store import Url, replacing
from dask_s3vm.parameters.methods import estimator_named
from dask_s3vm.prediction import Predictor

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["ModelFileError", "load_model", "load_predictor", "save_model"]

_FORMAT = "dask-s3vm-model"
_VERSION = 1
_HEADER = "header"
_LARGEST_HEADER = 16 << 20
# How a fit reports what it does is not part of the model, and may hold functions.
_LEFT_OUT = ("callbacks", "checkpoint", "verbose")
_KERNEL_MAP = "kernel_map_"
_ENCODER = "encoder_"
#: Attributes that are objects: functions of `features.plain` that make plain data of them and back.
_OBJECTS: dict[str, tuple[str, str]] = {
    _KERNEL_MAP: ("plain_from_map", "map_from_plain"),
    _ENCODER: ("plain_from_encoder", "encoder_from_plain"),
}

#: All that a linear classifier predicts with.
_OF_PREDICTION = {"coef_", "intercept_", "classes_", "n_features_in_"}


def save_model(estimator: "BaseEstimator", path: Url) -> None:
    """Write a fitted estimator to a file.

    The file is an uncompressed ``.npz`` archive: a JSON header with parameters and scalars, and
    one array for each fitted array. It appears only when it is complete. Its checksum is checked
    when it is loaded. The parameters `callbacks`, `checkpoint` and `verbose` and lazy dask
    attributes are left out. A `TableEncoder` that was set as `encoder_` is kept: so other rows can
    be encoded as those of training were.

    Parameters
    ----------
    estimator : estimator of this package
        A fitted model.
    path : str or path
        Path or URL to write to; an existing file is replaced.

    Raises
    ------
    TypeError
        If a parameter or attribute is of a type that the file cannot hold: functions, such as a
        kernel that is one.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    """
    from sklearn.utils.validation import check_is_fitted

    name = type(estimator).__name__
    if _find_class(name) is not type(estimator):
        raise TypeError(f"estimator is a {name}, wanted an estimator class of dask_s3vm itself")
    check_is_fitted(estimator)
    _check_encoder(estimator)
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "package": dask_s3vm.__version__,
        "class": name,
        "fitted": _encode_fitted(estimator, arrays),
        "params": {
            name: encode(value, f"parameter {name}", arrays)
            for name, value in estimator.get_params(deep=False).items()
            if name not in _LEFT_OUT
        },
    }
    text = json.dumps(header, allow_nan=False).encode()
    if len(text) > _LARGEST_HEADER - 1024:
        raise ValueError(
            f"the header of {os.fspath(path)} has {len(text)} bytes, which is too long"
        )
    members = {_HEADER: np.frombuffer(text, dtype=np.uint8), **arrays}
    with replacing(path) as stream:
        write_arrays(stream, members)


def load_model(path: Url) -> Any:
    """Load an estimator that `save_model` wrote.

    Nothing in the file is run: the class must be an estimator of this package, its parameters
    and attributes are numbers, strings and arrays. A file from elsewhere can make a bad model,
    but not more.

    Parameters
    ----------
    path : str or path
        Path or URL of the file.

    Returns
    -------
    estimator
        The fitted model. ModelFileError says why a file is not one that can be loaded.
    """
    return _loaded(path, _restore)


def load_predictor(path: Url) -> Any:
    """Load what it takes to predict: as `load_model`, but in a fraction of the time where it can.

    For a linear classifier on rows as they are, that is a `Predictor`, with no parameters and
    without scikit-learn; for all others the estimator.
    """

    def restore(header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
        fitted = header["fitted"]
        plain = all(fitted.get(name) is None for name in _OBJECTS)
        if not (plain and fitted.keys() >= _OF_PREDICTION):
            return _restore(header, arrays)
        unlabeled = header["params"].get("unlabeled")
        names = _OF_PREDICTION | ({"calibration_", "feature_names_in_"} & fitted.keys())
        found = {name: decode(fitted[name], arrays) for name in names}
        predictor = Predictor(found, decode(unlabeled, arrays))
        _check_shapes(predictor)
        return predictor

    return _loaded(path, restore)


def _loaded(
    path: Url,
    restore: Callable[[dict[str, Any], Mapping[str, np.ndarray]], Any],
) -> Any:
    name = os.fspath(path)
    try:
        with open_arrays(path, {_HEADER: _LARGEST_HEADER}) as arrays:
            return restore(_read_header(arrays), arrays)
    except FileNotFoundError as error:
        raise ModelFileError(name, "cannot be loaded as a model: there is no such file") from error
    # A damaged file can fail in any place; the user needs the file's name in each case.
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ModelFileError(name, f"cannot be loaded as a model: {reason}") from error


def _converter(name: str, back: bool) -> Callable[[Any], Any]:
    """Return what makes plain data of an attribute, or the other way round."""
    return getattr(importlib.import_module("dask_s3vm.features.plain"), _OBJECTS[name][back])


def _find_class(name: str) -> "type[BaseEstimator] | None":
    """Return the estimator class of that name, or None if there is none.

    It is one of this package, or one that this process has defined as a method of its own.
    """
    from sklearn.base import BaseEstimator

    found = estimator_named(name)
    if found is None and name in dask_s3vm.__all__:
        found = getattr(dask_s3vm, name)
    is_estimator = isinstance(found, type) and issubclass(found, BaseEstimator)
    return found if is_estimator else None


def _encode_fitted(estimator: "BaseEstimator", arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    fitted = {}
    for name, value in vars(estimator).items():
        home = type(value).__module__.partition(".")[0]
        is_lazy = is_dask_collection(value) or home in ("dask", "distributed")
        if not _is_fitted_name(name) or is_lazy:
            continue
        if name in _OBJECTS and value is not None:
            fitted[name] = encode(_converter(name, False)(value), f"attribute {name}", arrays)
            continue
        if not (
            value is None
            or isinstance(value, Real | np.generic | np.ndarray | str)
            or (isinstance(value, list) and all(isinstance(item, dict) for item in value))
        ):
            kind = type(value).__qualname__
            raise TypeError(f"attribute {name} is a {kind}, which a model file cannot hold")
        fitted[name] = encode(value, f"attribute {name}", arrays)
    return fitted


def _is_fitted_name(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_") and name.isidentifier()


def _read_header(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    if _HEADER not in arrays:
        raise ValueError(f"it has no {_HEADER!r}")
    raw = arrays[_HEADER]
    if raw.dtype != np.uint8 or raw.ndim != 1:
        raise ValueError(f"its {_HEADER!r} is not text")
    header = json.loads(raw.tobytes())
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError(f"its {_HEADER!r} does not say {_FORMAT!r}")
    version = header.get("version")
    if version != _VERSION:
        raise ValueError(
            f"it has version {version!r} of the format (written by dask_s3vm "
            f"{header.get('package')!r}), wanted {_VERSION}"
        )
    for part in ("params", "fitted"):
        if not isinstance(header.get(part), dict):
            raise ValueError(f"its {_HEADER!r} has no {part!r}")
    return header


def _restore(header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> "BaseEstimator":
    cls = _find_class(str(header.get("class")))
    if cls is None:
        raise ValueError(f"class {header.get('class')!r} is not an estimator of dask_s3vm")
    # what is left out on purpose: a file must not name a place that the next fit writes to
    known = set(inspect.signature(cls).parameters).difference(_LEFT_OUT)
    unknown = sorted(set(header["params"]) - known)
    if unknown:
        raise ValueError(f"{cls.__name__} has no parameters {unknown}")
    params = {name: decode(value, arrays) for name, value in header["params"].items()}
    estimator = cls(**params)
    for name, value in header["fitted"].items():
        # A file must not put anything in the place of a method or a property.
        if not _is_fitted_name(name) or hasattr(cls, name):
            raise ValueError(f"{name!r} is not a fitted attribute of {cls.__name__}")
        found = decode(value, arrays)
        if name in _OBJECTS and found is not None:
            found = _converter(name, True)(found)
        setattr(estimator, name, found)
    _check_shapes(estimator)
    return estimator


def _check_shapes(estimator: Any) -> None:
    """Refuse weights that do not fit together, or are not numbers.

    Compiled code would read beyond their end, or every row would silently get the same class.
    """
    _check_encoder(estimator)
    fitted = vars(estimator)
    if "coef_" not in fitted:
        return
    coef, n_features = fitted["coef_"], fitted.get("n_features_in_")
    kernel_map = fitted.get(_KERNEL_MAP)
    if not _is_real(coef, 2) or not len(coef):
        raise ValueError("coef_ is not a matrix of finite real numbers")
    if kernel_map is not None:
        if (coef.shape[1], n_features) != (kernel_map.n_components, kernel_map.n_features):
            raise ValueError("coef_ or n_features_in_ does not fit kernel_map_")
    elif n_features is not None and coef.shape[1] != n_features:
        raise ValueError(f"coef_ has {coef.shape[1]} columns, n_features_in_ is {n_features}")
    intercept = fitted.get("intercept_")
    if intercept is not None and (not _is_real(intercept, 1) or len(intercept) != len(coef)):
        raise ValueError(f"intercept_ is not {len(coef)} finite real numbers, as coef_ has rows")
    classes = fitted.get("classes_")
    if classes is None:
        return
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(classes) < 2:
        raise ValueError("classes_ is not a list of two or more classes")
    if len(set(classes.tolist())) < len(classes):
        raise ValueError("classes_ has a class twice")
    wanted = 1 if len(classes) == 2 else len(classes)
    if len(coef) != wanted:
        raise ValueError(f"coef_ has {len(coef)} rows for {len(classes)} classes, wanted {wanted}")
    calibration = fitted.get("calibration_")
    if calibration is not None and (
        not _is_real(calibration, 2) or calibration.shape != (len(coef), 2)
    ):
        raise ValueError(f"calibration_ is not a matrix of {len(coef)} x 2 finite real numbers")


def _is_real(array: Any, ndim: int) -> bool:
    """Tell whether something is an array of finite real numbers."""
    is_array = isinstance(array, np.ndarray) and array.ndim == ndim and array.dtype.kind == "f"
    return is_array and bool(np.isfinite(array).all())


def _check_encoder(estimator: Any) -> None:
    """Refuse an encoder that makes other rows than the model was trained on."""
    encoder = getattr(estimator, _ENCODER, None)
    if encoder is not None and encoder.n_features_out_ != estimator.n_features_in_:
        raise ValueError(
            f"encoder_ makes {encoder.n_features_out_} features, the model was trained on "
            f"{estimator.n_features_in_}"
        )
