"""Progress of a search, for people and for callbacks."""

import sys
import time
from typing import Any

import numpy as np

from dask_s3vm.model_selection._pieces import Score


class SearchProgress:
    """Tells callbacks of every fit, and shows a line: fits done, the best candidate so far.

    One line that is written over on a terminal, log lines elsewhere.
    """

    def __init__(
        self, search: Any, candidates: list[dict[str, Any]], n_splits: int, kept: list[Score]
    ) -> None:
        given = search.callbacks
        self._callbacks = [given] if callable(given) else list(given or [])
        self._verbose = bool(search.verbose)
        self._candidates = candidates
        self._total = len(candidates) * n_splits
        self._began = time.perf_counter()
        self._scores = np.full((len(candidates), n_splits), np.nan)
        self._is_done = np.zeros(self._scores.shape, dtype=bool)
        for score in kept:
            self._note(score)
        if kept and self._verbose:
            self._show(f"{len(kept)} of {self._total} fits were kept by the checkpoint")

    def add(self, scores: list[Score]) -> None:
        """Take finished fits."""
        for score in scores:
            self._note(score)
            row = {
                "candidate": score.candidate,
                "fold": score.fold,
                "params": self._candidates[score.candidate],
                "score": _first(score),
                "seconds": score.fit_time + score.score_time,
                "done": int(self._is_done.sum()),
                "total": self._total,
            }
            for callback in self._callbacks:
                callback(row)
        if self._verbose:
            self._show(f"{self._is_done.sum()}/{self._total} fits{self._leader()}")

    def close(self) -> None:
        """End the line."""
        if self._verbose and sys.stderr.isatty():
            sys.stderr.write("\n")

    def _note(self, score: Score) -> None:
        self._scores[score.candidate, score.fold] = _first(score)
        self._is_done[score.candidate, score.fold] = True

    def _leader(self) -> str:
        """Best of the candidates that have been through all folds."""
        complete = np.flatnonzero(self._is_done.all(axis=1))
        means = self._scores[complete].mean(axis=1)
        if len(complete) == 0 or np.isnan(means).all():
            return ""
        best = complete[np.nanargmax(means)]
        facts = ", ".join(f"{name}={value!r}" for name, value in self._candidates[best].items())
        return f"  best so far {np.nanmax(means):.4g}: {facts}"

    def _show(self, text: str) -> None:
        line = f"[{time.perf_counter() - self._began:7.1f} s] {text}"
        sys.stderr.write(f"\r\x1b[2K{line}" if sys.stderr.isatty() else f"{line}\n")
        sys.stderr.flush()


def _first(score: Score) -> float:
    return next(iter(score.test.values()))
