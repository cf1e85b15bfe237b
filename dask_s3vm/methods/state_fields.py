"""States field by field: dataclasses as dicts and lists, and back, without running any code."""

import dataclasses
import functools
import types
import typing
from typing import Any

import numpy as np

#: What a number of a type may be made of.
_NUMBERS: dict[Any, Any] = {bool: np.bool_, int: np.integer, float: (int, np.integer, np.floating)}


def to_fields(value: Any) -> Any:
    """Turn dataclasses and named tuples, however deep, into dicts and lists of their fields."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in dataclasses.fields(value)]
        return {name: to_fields(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: to_fields(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_fields(item) for item in value]
    return value


def from_fields(kind: Any, value: Any) -> Any:
    """Make a value of a type from its fields; one that is of that type already stays.

    Raises
    ------
    ValueError
        If the fields are not those of the type: they come from a file.
    """
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in parts:
            return None
        (kind,) = [part for part in parts if part is not type(None)]
        return from_fields(kind, value)
    if origin in (list, tuple) and isinstance(value, (list, tuple)):
        item_kinds = parts if origin is tuple and Ellipsis not in parts else [parts[0]] * len(value)
        return origin(from_fields(k, item) for k, item in zip(item_kinds, value, strict=True))
    if origin is dict and isinstance(value, dict):
        pairs = value.items()
        return {from_fields(parts[0], key): from_fields(parts[1], item) for key, item in pairs}
    if origin is None and isinstance(value, kind):
        return value
    fields = getattr(kind, "__dataclass_fields__", None)
    if fields is not None and isinstance(value, dict) and value.keys() == fields.keys():
        hints = _hints(kind)
        return kind(**{name: from_fields(hints[name], item) for name, item in value.items()})
    if hasattr(kind, "_fields") and isinstance(value, list) and len(value) == len(kind._fields):
        hints = _hints(kind)
        named = zip(kind._fields, value, strict=True)
        return kind(*(from_fields(hints[name], item) for name, item in named))
    if isinstance(value, _NUMBERS.get(kind, ())):
        return _number(kind, value)
    raise ValueError(f"wanted the fields of {kind}, got {type(value).__name__}")


def _number(kind: Any, value: Any) -> Any:
    try:
        return kind(value)
    except OverflowError as error:  # a whole number beyond all floats
        raise ValueError(f"wanted a {kind.__name__}: {error}") from error


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)
