"""What a state belongs to: an estimator, its parameters, and the rows that it was fitted on."""

import functools
import hashlib
import zlib
from collections import Counter
from types import CodeType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from dask_s3vm._version import __version__
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.rows import CSR

#: Facts by name, texts and numbers.
Identity = dict[str, Any]

#: How a fit reports, and where it keeps its state, make no difference to the model.
_IGNORED = ("callbacks", "verbose", "checkpoint")


def identity_of(estimator: BaseEstimator, rows: dict[str, Any], extra: dict[str, Any]) -> Identity:
    """Tell a fit from others.

    Parameters
    ----------
    estimator : its class and parameters count, but for `callbacks`, `verbose`, `checkpoint`.
    rows : facts about the rows; see `engine.fingerprint`.
    extra : what else it depends on; arrays count by their bytes.
    """
    parameters = {
        f"parameter {name}": _text(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _IGNORED
    }
    return {
        "dask-s3vm": __version__,
        "estimator": type(estimator).__name__,
        **parameters,
        **{f"rows: {name}": value for name, value in rows.items()},
        **{name: _text(value) for name, value in extra.items()},
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
    parts = [code.co_code.hex(), repr(code.co_names), _constants(code)]
    parts += [_text(function.__defaults__), _text(held)]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return f"{function.__module__}.{name} {digest}"


def _constants(code: CodeType) -> str:
    """Constants of a function, and of functions inside it."""
    return repr(
        [_constants(part) if isinstance(part, CodeType) else part for part in code.co_consts]
    )


# Facts about placed rows by which they are known again ----------------------------------------


#: Entries at either end of a shard's arrays that are looked at.
SAMPLE = 1 << 13


def fingerprint(engine: Engine) -> dict[str, Any]:
    """Shape, stored entries, labels, cuts between shards, and a sample of the values.

    Costs: 1 round, no pass over the rows: of their arrays both ends are looked at, of labels and
    weights all.
    """
    found = engine.each(digest)
    layout = engine.layout
    whole = hashlib.sha256(repr(layout.starts).encode())
    if layout.order is not None:
        whole.update(layout.order.tobytes())
    whole.update(repr([code for _, _, code in found]).encode())
    labels: Counter[int] = Counter()
    for _, counts, _ in found:
        labels.update(counts)
    return {
        "shape": [int(layout.n_rows), int(layout.n_features_in)],
        "stored entries": sum(stored for stored, _, _ in found),
        "labels": {str(code): labels[code] for code in sorted(labels)},
        "digest": whole.hexdigest()[:32],
    }


def digest(shard: Shard) -> tuple[int, dict[int, int], int]:
    """(stored entries, rows of each class number, checksum) of a shard.

    The checksum is of numbers, whatever the types that hold them: rows that were sent to workers
    have narrower ones.
    """
    rows = shard.rows
    code = 0
    for array in rows if isinstance(rows, CSR) else (rows,):
        flat = array.reshape(-1)
        for part in (flat[:SAMPLE], flat[-SAMPLE:]):
            code = zlib.crc32(part.astype(np.float64).tobytes(), code)
    counts: dict[int, int] = {}
    if shard.codes is not None:
        code = zlib.crc32(shard.codes.tobytes(), code)
        values, numbers = np.unique(shard.codes, return_counts=True)
        counts = dict(zip(values.tolist(), numbers.tolist(), strict=True))
    if shard.weights is not None:
        code = zlib.crc32(shard.weights.tobytes(), code)
    stored = len(rows.indices) if isinstance(rows, CSR) else rows.size
    return int(stored), counts, code
