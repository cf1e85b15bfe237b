"""The file of a checkpoint: written all or nothing, read with distrust, free of code.

One uncompressed ``.npz`` archive: a JSON header, and the arrays of the state beside it, with a
checksum.
"""

import functools
import json
import time
from typing import Any

import numpy as np

from dask_s3vm.checkpoints.holding import claim
from dask_s3vm.checkpoints.identity import Identity, differences
from dask_s3vm.exceptions import CheckpointError
from dask_s3vm.io.archive import BROKEN, decode, encode, open_arrays, write_arrays
from dask_s3vm.io.store import Url, check_writable, exists, join_url, make_folder, remove, replacing
from dask_s3vm.methods.run import Checkpoint, Saved, Snapshot
from dask_s3vm.methods.state_fields import from_fields, to_fields

_NAME = "fit.npz"
_FORMAT = "dask-s3vm-checkpoint"
_VERSION = 2
_HEADER = "header"
_LARGEST_HEADER = 256 << 20

#: What the parts of a state are.
_PARTS = {"states": dict, "history": list, "rounds": int}


def holds_state(directory: Url) -> bool:
    """Whether there is a state in a directory that a fit could resume from."""
    return exists(join_url(directory, _NAME))


def check_directory(directory: Url) -> None:
    """Refuse a directory that no state could be written to; make it if it is not there.

    Raises
    ------
    ValueError
        With the directory, and what is wanted.
    """
    try:
        make_folder(directory)
        check_writable(join_url(directory, _NAME))
    except (ValueError, OSError) as error:
        raise ValueError(f"checkpoint: {error}") from error


class FileCheckpoint(Checkpoint):
    """A checkpoint in a directory, from which another process can resume.

    Not every state is written: see `Checkpoint.due`. The last one is, by `flush`.

    Parameters
    ----------
    directory : its path or URL; it is made if it is not there.
    identity : what the fit is a fit of.
    interval : least seconds between two states that are written.

    Raises
    ------
    CheckpointError
        If there is a state of something else, or one that cannot be read; if another fit has the
        directory.
    """

    def __init__(self, directory: Url, identity: Identity, interval: float = 5.0) -> None:
        super().__init__(interval)
        self._directory = directory
        self._identity = identity
        self._hold = claim(directory)
        try:
            saved = read_state(self._directory, identity)
        except BaseException:
            self._hold.leave()
            raise
        if saved is not None:
            self.last = saved
        self._written = self.last

    def save(self, snapshot: Snapshot, began: float | None = None) -> None:
        """Remember a snapshot, and write it if it is time."""
        due = began is not None or self.due
        self.last = snapshot
        if due:
            self._write(began)

    def flush(self) -> None:
        """Write the last snapshot if it is not written yet."""
        if self.last is not self._written:
            self._write()

    def clear(self) -> None:
        """Remove the file, or have it removed by the block of `held` that this fit is in."""
        if self._hold.keeps:
            self.flush()  # the state of a fit that is done: to resume from it takes no time
        super().clear()
        self._hold.finish(functools.partial(remove_state, self._directory))

    def close(self) -> None:
        """Let other fits have the directory."""
        self._hold.leave()

    def _write(self, began: float | None = None) -> None:
        began = time.perf_counter() if began is None else began
        snapshot = self.last
        write_state(self._directory, self._identity, snapshot)
        self._written = snapshot
        self._charge(began)


def write_state(directory: Url, identity: Identity, snapshot: Snapshot) -> None:
    """Write a state in the place of the last one."""
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "identity": encode(identity, "identity", arrays),
        "state": encode(to_fields(snapshot), "state", arrays),
    }
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), dtype=np.uint8)
    make_folder(directory)
    with replacing(join_url(directory, _NAME)) as stream:
        write_arrays(stream, {_HEADER: text, **arrays})


def read_state(directory: Url, identity: Identity) -> Snapshot | None:
    """Read the state of a fit; None if there is none.

    Raises
    ------
    CheckpointError
        If the file is damaged, or belongs to another fit.
    """
    path = join_url(directory, _NAME)
    if not exists(path):
        return None
    try:
        with open_arrays(path, {_HEADER: _LARGEST_HEADER}) as arrays:
            header = json.loads(bytes(arrays[_HEADER]).decode())
            _check_header(header)
            there = decode(header["identity"], arrays)
            other = differences(there, identity)
            if other:
                raise CheckpointError(
                    path,
                    "is the state of another fit: "
                    + "; ".join(other[:5])
                    + ("; ..." if len(other) > 5 else "")
                    + ". Remove it, or give another directory",
                )
            return _snapshot(decode(header["state"], arrays))
    except CheckpointError:
        raise
    except BROKEN as error:
        raise CheckpointError(path, f"cannot be read: {error!r}") from error


def remove_state(directory: Url) -> None:
    """Remove the state; the directory stays."""
    remove(join_url(directory, _NAME))


def _check_header(header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError("is not a checkpoint")
    if header.get("version") != _VERSION:
        raise ValueError(f"is of version {header.get('version')!r}, wanted {_VERSION}")
    if not isinstance(header.get("identity"), dict):
        raise ValueError("does not say what it belongs to")


def _snapshot(state: Any) -> Snapshot:
    """Make a snapshot of what was read; states stay fields until their method asks for them."""
    if not isinstance(state, dict) or state.keys() != _PARTS.keys():
        raise ValueError("has other parts than a checkpoint")
    for name, kind in _PARTS.items():
        if not isinstance(state[name], kind):
            raise ValueError(f"{name} is a {type(state[name]).__name__}, wanted {kind.__name__}")
    if not all(isinstance(row, dict) for row in state["history"]):
        raise ValueError("history has rows that are not dicts")
    states = {name: from_fields(Saved, one) for name, one in state["states"].items()}
    return Snapshot(states, state["history"], state["rounds"])
