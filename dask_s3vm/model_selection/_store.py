"""Scores that are kept in a directory as they come, so that a search can go on after a break."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dask_s3vm._version import __version__
from dask_s3vm.model_selection._folds import Fold, Labelled
from dask_s3vm.model_selection._pieces import Piece, Score

_HEAD = "search.json"


class Store:
    """A directory with one file for each finished piece.

    Parameters
    ----------
    folder : the directory; made if it is not there.
    fingerprint : says of which search the scores are; a directory of another one is refused.
    """

    def __init__(self, folder: Any, fingerprint: dict[str, str]) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        head = self._folder / _HEAD
        if head.exists():
            _compare(json.loads(head.read_text()), fingerprint, self._folder)
        else:
            if any(self._folder.iterdir()):
                raise ValueError(
                    f"checkpoint: {self._folder} is not empty and has no {_HEAD}; wanted an empty "
                    "directory, or that of the same search"
                )
            _write(head, fingerprint)

    def scores(self) -> list[Score]:
        """Read what has been kept."""
        found = []
        for path in sorted(self._folder.glob("piece-*.json")):
            found += [Score(**row) for row in json.loads(path.read_text())]
        return found

    def keep(self, piece: Piece, scores: list[Score]) -> None:
        """Keep the scores of a piece: a file is there as a whole or not at all."""
        name = f"piece-{piece.fold}-{min(piece.candidates)}.json"
        _write(self._folder / name, [asdict(score) for score in scores])


def fingerprint_of(
    labelled: Labelled, rows: Any, weights: Any, folds: list[Fold], facts: dict[str, Any]
) -> dict[str, str]:
    """Facts and hashes that tell one search from another.

    Rows in memory are hashed as a whole; of a dask array the labelled rows, which are at hand.
    `facts` are what else the scores depend on.
    """
    data = [labelled.X, labelled.y, labelled.numbers, np.array(labelled.n_rows), rows, weights]
    splits = [part for fold in folds for part in (fold.held, fold.test)]
    return {
        "version": __version__,
        "data": _digest(data),
        "folds": _digest(splits),
        **{name: repr(value) for name, value in facts.items()},
    }


def _compare(kept: dict[str, str], wanted: dict[str, str], folder: Path) -> None:
    wrong = sorted(name for name in {*kept, *wanted} if kept.get(name) != wanted.get(name))
    if wrong:
        raise ValueError(
            f"checkpoint: {folder} is of another search, which differs in {', '.join(wrong)}; give "
            "another directory, or the same data, candidates and folds"
        )


def _write(path: Path, content: Any) -> None:
    """Write a file under another name first, and rename it."""
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    with beside.open("w") as stream:
        json.dump(content, stream)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(beside, path)


def _digest(parts: Iterable[Any]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        for array in _arrays(part):
            state.update(repr((array.shape, array.dtype.str)).encode())
            state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


def _arrays(part: Any) -> list[np.ndarray]:
    if part is None:
        return [np.zeros(0)]
    if sp.issparse(part):
        part = part.tocsr()
        return [part.data, part.indices, part.indptr]
    array = np.asarray(part)
    return [array.astype(str) if array.dtype.kind == "O" else array]
