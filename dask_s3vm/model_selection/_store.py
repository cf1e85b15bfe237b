"""The state of a search: scores saved in a directory, to resume from, and shown progress."""

import hashlib
import io
import json
import logging
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp

from dask_s3vm._version import __version__
from dask_s3vm.checkpoints.locks import LOCK_NAME, FolderLock
from dask_s3vm.estimators._paths import Seeds
from dask_s3vm.io import store
from dask_s3vm.io.archive import BROKEN, decode, encode, open_arrays, write_arrays
from dask_s3vm.model_selection._results import Score
from dask_s3vm.model_selection._run import Piece
from dask_s3vm.model_selection._splits import Fold, Labeled

#: File of the fingerprint of a search.
_HEAD = "search.json"

#: Seconds between two lines of progress in a log.
_LOG_EVERY = 10.0

logger = logging.getLogger(__name__)


class Store:
    """Scores so far; saved in a directory, one file per piece, with the seeds of unfinished pieces.

    Parameters
    ----------
    folder : str, path or None
        Path or URL of the directory, created if needed; None: scores are in memory only.
    fingerprint : callable
        Returns the fingerprint of the search; the directory of another search is refused.
    """

    def __init__(self, folder: Any, fingerprint: Callable[[], dict[str, str]]) -> None:
        self._folder = None if folder is None else store.address(folder)
        self._pieces: dict[str, dict[int, Score]] = {}
        self._lock: FolderLock | None = None
        if self._folder is None:
            return
        store.make_folder(self._folder)
        store.check_writable(store.join_url(self._folder, _HEAD))
        try:
            self._lock = FolderLock(self._folder)
        except BlockingIOError as error:
            raise ValueError(
                f"checkpoint: {self._folder} {error.strerror}; wait for the other search, or give "
                "another directory"
            ) from error
        try:
            self._open(self._folder, fingerprint)
        except BaseException:
            self.close()
            raise

    def _open(self, folder: str, fingerprint: Callable[[], dict[str, str]]) -> None:
        """Read the scores that are there."""
        head = store.join_url(folder, _HEAD)
        names = [name for name in store.names_in(folder) if name != LOCK_NAME]
        if _HEAD in names:
            _compare(_read_json(head), fingerprint(), folder)
        elif names:
            raise ValueError(
                f"checkpoint: {folder} is not empty and has no {_HEAD}; wanted an empty "
                "directory, or the directory of the same search"
            )
        else:
            _write_json(head, fingerprint())
        for name in names:
            if not (name.startswith("piece-") and name.endswith(".json")):
                continue
            found = [Score(**row) for row in _read_json(store.join_url(folder, name))]
            self._pieces[name.removesuffix(".json")] = {score.candidate: score for score in found}

    def close(self) -> None:
        """Let other searches have the directory."""
        if self._lock is not None:
            self._lock.release()

    def scores(self) -> list[Score]:
        """Return all scores."""
        return [score for piece in self._pieces.values() for score in piece.values()]

    def done(self) -> set[tuple[int, int]]:
        """Return the pairs (candidate, fold) of all scores."""
        return {(score.candidate, score.fold) for score in self.scores()}

    def save(self, piece: Piece, scores: list[Score], seeds: Seeds | None) -> None:
        """Save scores of a piece; each file is written completely or not at all.

        Parameters
        ----------
        piece : Piece
            The piece.
        scores : list of Score
            New scores of the piece.
        seeds : Seeds or None
            Seeds for the remaining candidates of the piece, if it is run in parts.
        """
        name = _name(piece)
        saved = self._pieces.setdefault(name, {})
        saved |= {score.candidate: score for score in scores}
        if self._folder is None:
            return
        rows = [asdict(score) for score in saved.values()]
        if seeds is not None:
            # before the scores: if the search stops in between, `seeds` sees that they do not match
            marks: dict[str, Any] = {f"done{candidate}": np.zeros(0) for candidate in saved}
            buffer = io.BytesIO()
            write_arrays(buffer, {**marks, **_arrays_of(seeds)})
            _write(store.join_url(self._folder, f"{name}.npz"), buffer.getvalue())
        _write_json(store.join_url(self._folder, f"{name}.json"), rows)

    def seeds(self, piece: Piece) -> Seeds | None:
        """Return the seeds to resume a piece from.

        None if those saved do not match its scores, or are damaged: the piece is run again.
        """
        name = _name(piece)
        if self._folder is None:
            return None
        url = store.join_url(self._folder, f"{name}.npz")
        if not store.exists(url):
            return None
        try:
            with open_arrays(url, {}) as found:
                arrays = dict(found)
            done = {int(key[4:]) for key in arrays if key.startswith("done")}
            if done != set(self._pieces.get(name, {})):
                return None
            return _seeds_of(arrays)
        except BROKEN as error:
            logger.warning("%s is damaged, and its piece is run again: %r", url, error)
            return None


def _name(piece: Piece) -> str:
    return f"piece-{piece.fold}-{min(piece.candidates)}"


def _arrays_of(seeds: Seeds) -> dict[str, Any]:
    """Seeds as arrays by name, and a text that says how they belong together."""
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(encode(seeds, "seeds", arrays))
    return {"seeds": np.array(text), **arrays}


def _seeds_of(arrays: dict[str, np.ndarray]) -> Seeds:
    return decode(json.loads(str(arrays["seeds"])), arrays)


def fingerprint_of(
    labeled: Labeled, rows: Any, weights: Any, folds: list[Fold], facts: dict[str, Any]
) -> dict[str, str]:
    """Return the facts and hashes that identify a search.

    All rows in memory are hashed; of a dask array, only the labeled rows.

    Parameters
    ----------
    labeled : Labeled
        The labeled rows.
    rows, weights : array or None
        Rows and weights in memory.
    folds : list of Fold
        The splits.
    facts : dict
        What else the scores depend on.
    """
    data = [labeled.X, labeled.y, labeled.numbers, np.array(labeled.n_rows), rows, weights]
    splits = [part for fold in folds for part in (fold.held_out, fold.test)]
    return {
        "version": __version__,
        "data": _digest(data),
        "folds": _digest(splits),
        **{name: repr(value) for name, value in facts.items()},
    }


def _compare(saved: dict[str, str], wanted: dict[str, str], folder: str) -> None:
    wrong = sorted(name for name in {*saved, *wanted} if saved.get(name) != wanted.get(name))
    if wrong:
        raise ValueError(
            f"checkpoint: {folder} is of another search, which differs in {', '.join(wrong)}; give "
            "another directory, or the same data, candidates and folds"
        )


def _write(url: str, content: bytes) -> None:
    with store.replacing(url) as stream:
        stream.write(content)


def _write_json(url: str, content: Any) -> None:
    """Write a value with its checksum: a score that changes by itself would choose a model."""
    text = json.dumps(content)
    _write(url, f'{{"crc32": {zlib.crc32(text.encode())}, "content": {text}}}'.encode())


def _read_json(url: str) -> Any:
    with store.open_input(url) as stream:
        raw = stream.read()
    try:
        found = json.loads(raw)
        content = found["content"]
        if found["crc32"] == zlib.crc32(json.dumps(content).encode()):
            return content
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise ValueError(
        f"checkpoint: {url} is damaged, or of another version; remove it (its folds are run again; "
        f"with {_HEAD}, remove the whole directory)"
    )


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


class SearchProgress:
    """Calls the callbacks for every fit, and shows the fits done and the best candidate so far.

    On a terminal it is one line that is overwritten, elsewhere a first line, one every ten seconds,
    and the last.

    Parameters
    ----------
    search : S3VMSearch
        The search, for its callbacks and `verbose`.
    candidates : list of dict
        Parameters of each candidate.
    of : list of int
        Numbers of the candidates of the models that are fitted.
    n_splits : int
        Number of splits.
    saved : list of Score
        Scores from the checkpoint.
    """

    def __init__(
        self,
        search: Any,
        candidates: list[dict[str, Any]],
        of: list[int],
        n_splits: int,
        saved: list[Score],
    ) -> None:
        given = search.callbacks
        self._callbacks = [given] if callable(given) else list(given or [])
        self._verbose = bool(search.verbose)
        self._candidates = candidates
        self._of = of
        self._total = len(of) * n_splits
        self._began = time.perf_counter()
        self._shown = -_LOG_EVERY
        self._scores = np.full((len(of), n_splits), np.nan)
        self._is_done = np.zeros(self._scores.shape, dtype=bool)
        for score in saved:
            self._note(score)
        if saved and self._verbose:
            self._show(f"{len(saved)} of {self._total} fits are in the checkpoint")

    def add(self, scores: list[Score]) -> None:
        """Report finished fits."""
        for score in scores:
            self._note(score)
            row = {
                "candidate": self._of[score.candidate],
                "fold": score.fold,
                "params": self._candidates[self._of[score.candidate]],
                "score": _first(score),
                "seconds": score.fit_time + score.score_time,
                "done": int(self._is_done.sum()),
                "total": self._total,
            }
            for callback in self._callbacks:
                callback(row)
        now = time.perf_counter() - self._began
        is_due = sys.stderr.isatty() or now >= self._shown + _LOG_EVERY or self._is_done.all()
        if self._verbose and is_due:
            self._shown = now
            self._show(f"{self._is_done.sum()}/{self._total} fits{self._leader()}")

    def close(self) -> None:
        """Finish the line."""
        if self._verbose and sys.stderr.isatty():
            sys.stderr.write("\n")

    def _note(self, score: Score) -> None:
        self._scores[score.candidate, score.fold] = _first(score)
        self._is_done[score.candidate, score.fold] = True

    def _leader(self) -> str:
        """Describe the best of the candidates that are done on all folds."""
        complete = np.flatnonzero(self._is_done.all(axis=1))
        means = self._scores[complete].mean(axis=1)
        if len(complete) == 0 or np.isnan(means).all():
            return ""
        best = self._of[complete[np.nanargmax(means)]]
        facts = ", ".join(f"{name}={value!r}" for name, value in self._candidates[best].items())
        return f"  best so far {np.nanmax(means):.4g}: {facts}"

    def _show(self, text: str) -> None:
        line = f"[{time.perf_counter() - self._began:7.1f} s] {text}"
        sys.stderr.write(f"\r\x1b[2K{line}" if sys.stderr.isatty() else f"{line}\n")
        sys.stderr.flush()


def _first(score: Score) -> float:
    """Return the first of several scores, which progress is about."""
    return next(iter(score.test.values()))
