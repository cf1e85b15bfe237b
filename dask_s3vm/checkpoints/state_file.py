"""The file of a state: written all or nothing, read with distrust, free of code.

One uncompressed ``.npz`` archive: a JSON header, and the arrays of the state beside it.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from dask_s3vm.checkpoints.identity import Identity, differences
from dask_s3vm.exceptions import CheckpointError
from dask_s3vm.io.archive import BROKEN, open_arrays, write_atomically
from dask_s3vm.io.encoding import decode, encode

_NAME = "fit.npz"
_FORMAT = "dask-s3vm-checkpoint"
_VERSION = 1
_HEADER = "header"
_LARGEST_HEADER = 256 << 20

#: What the parts of a state are.
_PARTS = {"states": dict, "history": list, "rounds": int}


def holds_state(directory: str | os.PathLike[str]) -> bool:
    """Whether there is a state in a directory that a fit could go on from."""
    return (Path(directory) / _NAME).is_file()


def write_state(directory: Path, identity: Identity, state: dict[str, Any]) -> None:
    """Write a state in the place of the last one."""
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "identity": encode(identity, "identity", arrays),
        "state": encode(state, "state", arrays),
    }
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), dtype=np.uint8)
    directory.mkdir(parents=True, exist_ok=True)
    with write_atomically(directory / _NAME) as stream:
        np.savez(stream, **{_HEADER: text}, **arrays)  # type: ignore[arg-type]


def read_state(directory: Path, identity: Identity) -> dict[str, Any] | None:
    """Read the state of a fit; None if there is none.

    Raises
    ------
    CheckpointError
        If the file is damaged, or belongs to another fit.
    """
    path = directory / _NAME
    if not path.is_file():
        return None
    try:
        with open_arrays(path, {_HEADER: _LARGEST_HEADER}) as arrays:
            header = json.loads(bytes(arrays[_HEADER]).decode())
            _check_header(header)
            there = decode(header["identity"], arrays)
            other = differences(there, identity)
            if other:
                raise CheckpointError(
                    str(path),
                    "is the state of another fit: "
                    + "; ".join(other[:5])
                    + ("; ..." if len(other) > 5 else "")
                    + ". Remove it, or give another directory",
                )
            return _checked(decode(header["state"], arrays))
    except CheckpointError:
        raise
    except BROKEN as error:
        raise CheckpointError(str(path), f"cannot be read: {error!r}") from error


def remove_state(directory: Path) -> None:
    """Remove the state; the directory stays."""
    (directory / _NAME).unlink(missing_ok=True)


def _check_header(header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError("is not a checkpoint")
    if header.get("version") != _VERSION:
        raise ValueError(f"is of version {header.get('version')!r}, wanted {_VERSION}")
    if not isinstance(header.get("identity"), dict):
        raise ValueError("does not say what it belongs to")


def _checked(state: Any) -> dict[str, Any]:
    if not isinstance(state, dict) or state.keys() != _PARTS.keys():
        raise ValueError("has other parts than a checkpoint")
    for name, kind in _PARTS.items():
        if not isinstance(state[name], kind):
            raise ValueError(f"{name} is a {type(state[name]).__name__}, wanted {kind.__name__}")
    if not all(isinstance(row, dict) for row in state["history"]):
        raise ValueError("history has rows that are not dicts")
    return state
