"""Scores that are kept in a directory as they come, so that a search can go on after a break."""

import hashlib
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dask_s3vm._version import __version__
from dask_s3vm.estimators._paths import Seed, Seeds
from dask_s3vm.io.archive import write_atomically
from dask_s3vm.model_selection._folds import Fold, Labeled
from dask_s3vm.model_selection._pieces import Piece, Score

_HEAD = "search.json"


class Store:
    """Scores so far; with a directory, one file there for each piece, and seeds of unfinished ones.

    Parameters
    ----------
    folder : the directory, made if it is not there; None to keep scores in memory alone.
    fingerprint : says of which search the scores are; a directory of another one is refused.
    """

    def __init__(self, folder: Any, fingerprint: Callable[[], dict[str, str]]) -> None:
        self._folder = None if folder is None else Path(folder)
        self._kept: dict[str, dict[int, Score]] = {}
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        head = self._folder / _HEAD
        if head.exists():
            _compare(json.loads(head.read_text()), fingerprint(), self._folder)
        elif any(self._folder.iterdir()):
            raise ValueError(
                f"checkpoint: {self._folder} is not empty and has no {_HEAD}; wanted an empty "
                "directory, or that of the same search"
            )
        else:
            _write(head, json.dumps(fingerprint()).encode())
        for path in sorted(self._folder.glob("piece-*.json")):
            found = [Score(**row) for row in json.loads(path.read_text())]
            self._kept[path.stem] = {score.candidate: score for score in found}

    def scores(self) -> list[Score]:
        """Return all scores."""
        return [score for piece in self._kept.values() for score in piece.values()]

    def done(self) -> set[tuple[int, int]]:
        """(candidate, fold) of all scores."""
        return {(score.candidate, score.fold) for score in self.scores()}

    def keep(self, piece: Piece, scores: list[Score], seeds: Seeds | None) -> None:
        """Keep scores of a piece: a file is there as a whole or not at all.

        seeds : for the rest of the piece, where there is one.
        """
        name = _name(piece)
        kept = self._kept.setdefault(name, {})
        kept |= {score.candidate: score for score in scores}
        if self._folder is None:
            return
        rows = [asdict(score) for score in kept.values()]
        if seeds is not None:
            # first: scores without seeds are made again, seeds that are too new would be wrong
            marks: dict[str, Any] = {f"done{candidate}": np.zeros(0) for candidate in kept}
            buffer = io.BytesIO()
            np.savez(buffer, **marks, **_arrays_of(seeds))
            _write(self._folder / f"{name}.npz", buffer.getvalue())
        _write(self._folder / f"{name}.json", json.dumps(rows).encode())

    def seeds(self, piece: Piece) -> Seeds | None:
        """Seeds to go on with a piece, if those that were kept belong to its last score."""
        name = _name(piece)
        if self._folder is None or not (self._folder / f"{name}.npz").exists():
            return None
        with np.load(self._folder / f"{name}.npz", allow_pickle=False) as found:
            arrays = dict(found)
        belong = {int(key[4:]) for key in arrays if key.startswith("done")}
        if belong != set(self._kept.get(name, {})):
            return None
        return _seeds_of(arrays)


def _name(piece: Piece) -> str:
    return f"piece-{piece.fold}-{min(piece.candidates)}"


def _arrays_of(seeds: Seeds) -> dict[str, Any]:
    """Arrays by name: of DA a temperature beside."""
    found: dict[str, Any] = {}
    for positive, seed in seeds.items():
        if isinstance(seed, Seed):
            found[f"temperature{positive}"] = np.array(seed.temperature)
            found[f"weights{positive}"] = seed.w
        elif seed is not None:
            found[f"weights{positive}"] = seed
    return found


def _seeds_of(arrays: dict[str, np.ndarray]) -> Seeds:
    seeds: Seeds = {}
    for key, w in arrays.items():
        if not key.startswith("weights"):
            continue
        positive = key.removeprefix("weights")
        temperature = arrays.get(f"temperature{positive}")
        seeds[int(positive)] = w if temperature is None else Seed(float(temperature), w)
    return seeds


def fingerprint_of(
    labeled: Labeled, rows: Any, weights: Any, folds: list[Fold], facts: dict[str, Any]
) -> dict[str, str]:
    """Facts and hashes that tell one search from another.

    Rows in memory are hashed as a whole; of a dask array the labeled rows, which are at hand.
    `facts` are what else the scores depend on.
    """
    data = [labeled.X, labeled.y, labeled.numbers, np.array(labeled.n_rows), rows, weights]
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


def _write(path: Path, content: bytes) -> None:
    with write_atomically(path) as stream:
        stream.write(content)


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
