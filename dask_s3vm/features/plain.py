"""Kernel maps and table encoders as names, words, numbers and arrays, and back.

Model files hold these. What is read from a file is not trusted.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dask_s3vm.engine.column_scale import ColumnScale

if TYPE_CHECKING:
    from dask_s3vm.features.kernel_map import KernelMap
    from dask_s3vm.features.table_encoder import TableEncoder
    from dask_s3vm.features.table_labels import LabelCode

__all__ = ["encoder_from_plain", "map_from_plain", "plain_from_encoder", "plain_from_map"]

_MAP_FIELDS = {"kernel", "params", "landmarks", "basis", "scale"}
_SPARSE_FIELDS = {"data", "indices", "indptr", "n_columns"}


def plain_from_map(kernel_map: "KernelMap") -> dict[str, Any]:
    """Return a map as a dict of text, numbers and arrays.

    Raises
    ------
    TypeError
        If its kernel is a function: a file without code cannot hold that.
    """
    if not isinstance(kernel_map.kernel, str):
        raise TypeError(
            f"kernel is the function {kernel_map.kernel!r}, which a model file cannot hold; wanted "
            "a kernel by name"
        )
    landmarks = kernel_map.landmarks
    if sp.issparse(landmarks):
        landmarks = {
            "data": landmarks.data,
            "indices": landmarks.indices,
            "indptr": landmarks.indptr,
            "n_columns": int(landmarks.shape[1]),
        }
    return {
        "kernel": kernel_map.kernel,
        "params": kernel_map.params,
        "landmarks": landmarks,
        "basis": kernel_map.basis,
        "scale": None if kernel_map.scale is None else np.stack(kernel_map.scale),
    }


def map_from_plain(plain: Any) -> "KernelMap":
    """Return the map of a dict; the file that it is from is not trusted."""
    from dask_s3vm.features.kernel_map import KernelMap
    from dask_s3vm.parameters.shared import KERNELS

    if not isinstance(plain, Mapping) or {"scale", *plain} != _MAP_FIELDS:  # older files have none
        raise ValueError("kernel_map_ is not a kernel map")
    kernel, params, basis = plain["kernel"], plain["params"], plain["basis"]
    if kernel not in KERNELS:
        raise ValueError(f"kernel_map_ has the unknown kernel {kernel!r:.80}")
    if not isinstance(params, dict) or not all(
        isinstance(v, int | float) and np.isfinite(v) for v in params.values()
    ):
        raise ValueError("kernel_map_ has parameters that are not numbers")
    landmarks = _landmarks(plain["landmarks"])
    stored = landmarks.data if sp.issparse(landmarks) else landmarks
    if not np.isfinite(stored).all():
        raise ValueError("kernel_map_ has landmarks that are not finite numbers")
    if not _is_matrix(basis) or len(basis) != landmarks.shape[0]:
        raise ValueError("kernel_map_ has a basis that does not fit its landmarks")
    scale = plain.get("scale")
    if scale is None:
        return KernelMap(kernel, params, landmarks, basis)
    if not _is_matrix(scale) or scale.shape != (2, landmarks.shape[1]) or sp.issparse(landmarks):
        raise ValueError("kernel_map_ has a scale that does not fit its landmarks")
    return KernelMap(kernel, params, landmarks, basis, ColumnScale(*scale))


def _landmarks(plain: Any) -> Any:
    if isinstance(plain, np.ndarray) and plain.ndim == 2 and plain.dtype.kind in "iuf":
        return plain
    if not isinstance(plain, Mapping) or set(plain) != _SPARSE_FIELDS:
        raise ValueError("kernel_map_ has no landmarks")
    data, indices, indptr = (plain[name] for name in ("data", "indices", "indptr"))
    shape = (len(indptr) - 1, int(plain["n_columns"]))
    rows = sp.csr_array((data, indices, indptr), shape)
    rows.check_format(full_check=True)  # compiled code would read beyond its end
    return rows


def _is_matrix(array: Any) -> bool:
    is_matrix = isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype.kind == "f"
    return is_matrix and bool(np.isfinite(array).all())


# Encoders -----------------------------------------------------------------------------------------

_PARAMS = (
    "scale", "missing", "missing_indicator", "null_values", "handle_unknown", "n_text_features",
    "max_categories", "dtype", "block",
)  # fmt: skip
_NUMBERS = ("offset", "factor", "fill")
_FIELDS = {
    "columns", "kinds", "categories", *_NUMBERS, "indicator", "label", "reading", "params"
}  # fmt: skip
_KINDS = ("number", "date", "category", "text")
_READING = {"format": str, "delimiter": str, "decimal": str, "header": bool, "columns": list}


def plain_from_encoder(encoder: "TableEncoder") -> dict[str, Any]:
    """Return an encoder as a dict of text, numbers and arrays."""
    label = encoder.label_
    return {
        "columns": [str(name) for name in encoder.feature_names_in_],
        "kinds": list(encoder.kinds_),
        "categories": [None if words is None else list(words) for words in encoder.categories_],
        **{name: getattr(encoder, f"{name}_") for name in _NUMBERS},
        "indicator": [bool(flag) for flag in encoder.indicator_],
        "label": None
        if label is None
        else {
            "name": label.name,
            "words": list(label.words),
            "positive": None if label.positive is None else list(label.positive),
        },
        "reading": encoder.reading_,
        "params": {
            name: list(value) if isinstance(value := getattr(encoder, name), tuple) else value
            for name in _PARAMS
        },
    }


def encoder_from_plain(plain: Any) -> "TableEncoder":
    """Return the encoder of a dict; the file that it is from is not trusted."""
    from dask_s3vm.features.table_encoder import TableEncoder

    if not isinstance(plain, Mapping) or set(plain) != _FIELDS:
        raise ValueError("encoder_ is not an encoder of tables")
    columns, kinds, categories = plain["columns"], plain["kinds"], plain["categories"]
    params = plain["params"]
    if not isinstance(params, Mapping) or set(params) != set(_PARAMS):
        raise ValueError("encoder_ does not have its parameters")
    if not _are_words(columns) or not columns or len(set(columns)) < len(columns):
        raise ValueError("encoder_ has columns that are not distinct names")
    if not isinstance(categories, list) or len(categories) != len(columns):
        raise ValueError("encoder_ does not have categories for its columns")
    if not _are_words(kinds) or len(kinds) != len(columns) or not set(kinds) <= set(_KINDS):
        raise ValueError(f"encoder_ does not have a kind for each of its columns: {kinds!r:.80}")
    for kind, words in zip(kinds, categories, strict=True):
        if (words is None) != (kind != "category"):
            raise ValueError("encoder_ does not have categories for its columns")
        if words is not None and (not _are_words(words) or len(set(words)) < len(words)):
            raise ValueError("encoder_ has categories that are not distinct words")
    encoder = TableEncoder(
        categorical=_of_kind(columns, kinds, "category"),
        text=_of_kind(columns, kinds, "text"),
        **params,
    )
    encoder.check()
    encoder.null_values = tuple(encoder.null_values)
    encoder.feature_names_in_ = np.array(columns, dtype=object)
    encoder.n_features_in_ = len(columns)
    encoder.categories_ = [None if words is None else tuple(words) for words in categories]
    encoder.kinds_ = list(kinds)
    for name in _NUMBERS:
        setattr(encoder, f"{name}_", _numbers(plain[name], len(columns)))
    encoder.indicator_ = _flags(plain["indicator"], len(columns))
    encoder.label_ = _label(plain["label"])
    encoder.reading_ = _reading(plain["reading"])
    return encoder


def _of_kind(columns: list[str], kinds: list[str], kind: str) -> list[str]:
    return [name for name, own in zip(columns, kinds, strict=True) if own == kind]


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _numbers(value: Any, count: int) -> np.ndarray:
    fits = isinstance(value, np.ndarray) and value.shape == (count,) and value.dtype == np.float64
    if not fits or not np.isfinite(value).all():
        raise ValueError("encoder_ has a scale that does not fit its columns")
    return value


def _flags(value: Any, count: int) -> np.ndarray:
    fits = isinstance(value, list) and len(value) == count
    if not fits or not all(isinstance(flag, bool) for flag in value):
        raise ValueError("encoder_ has indicators that do not fit its columns")
    return np.array(value, dtype=bool)


def _label(plain: Any) -> "LabelCode | None":
    from dask_s3vm.features.table_labels import LabelCode

    if plain is None:
        return None
    if not isinstance(plain, Mapping) or set(plain) != {"name", "words", "positive"}:
        raise ValueError("encoder_ has a label column that is none")
    name, words, positive = plain["name"], plain["words"], plain["positive"]
    if not isinstance(name, str) or not _are_words(words) or not words:
        raise ValueError("encoder_ has labels that are not words")
    if positive is not None and (not _are_words(positive) or not set(positive) <= set(words)):
        raise ValueError("encoder_ has positive labels that are not among its labels")
    return LabelCode(name, tuple(words), None if positive is None else tuple(positive))


def _reading(plain: Any) -> dict[str, Any] | None:
    if plain is None:
        return None
    if not isinstance(plain, Mapping) or not set(plain) <= set(_READING):
        raise ValueError("encoder_ does not say how its file was read")
    for key, value in plain.items():
        if not isinstance(value, _READING[key]):
            raise ValueError(f"encoder_ has the {key} {value!r:.80}")
    if not _are_words(plain.get("columns", [])):
        raise ValueError("encoder_ has columns that are not names")
    return dict(plain)
