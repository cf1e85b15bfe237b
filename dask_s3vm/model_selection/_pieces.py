"""Pieces of a search: the candidates of one path on one fold, trained and scored where rows are."""

import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from dask_s3vm import _config
from dask_s3vm.engine.shard import hold_out
from dask_s3vm.estimators._paths import HeldRows, Resident, Seeds, fit_path, fit_seeded
from dask_s3vm.features.blas import one_blas_thread
from dask_s3vm.model_selection._folds import Fold, Labeled
from dask_s3vm.model_selection._scoring import Scoring


class Piece(NamedTuple):
    """Candidates, by number, that are fitted together on a fold."""

    fold: int
    candidates: tuple[int, ...]


@dataclass(frozen=True)
class Score:
    """What came out for one candidate on one fold; a failed fit has an `error`."""

    candidate: int
    fold: int
    test: dict[str, float]
    train: dict[str, float]
    fit_time: float
    score_time: float
    error: str | None = None


@dataclass(frozen=True)
class Shared:
    """What all pieces have in common: it goes to each worker once.

    models : unfitted models, by number of the candidate.
    rows : placed rows, without an engine if they are `held`.
    held : the rows themselves, in this process.
    labeled : rows to score on.
    test_set : others to score on.
    seeded : whether a solution may be the seed of the next one, see `estimators._paths`.
    catch : whether a failed fit is noted rather than raised.
    """

    models: dict[int, Any]
    rows: Any
    held: HeldRows | None
    labeled: Labeled
    test_set: tuple[Any, np.ndarray] | None
    scoring: Scoring
    seeded: bool
    catch: bool

    def on_test_rows(self, fold: Fold) -> tuple[Any, np.ndarray]:
        """Rows and labels to score a fold on."""
        if fold.test is None:
            assert self.test_set is not None, "there is no fold and no test set"
            return self.test_set
        return _rows(self.labeled.X, fold.test), self.labeled.y[fold.test]

    def on_train_rows(self, fold: Fold) -> tuple[Any, np.ndarray]:
        """Labeled rows that a fold trains on."""
        inside = np.flatnonzero(~np.isin(self.labeled.numbers, fold.held))
        return _rows(self.labeled.X, inside), self.labeled.y[inside]


def run_piece(shared: Shared, number: int, fold: Fold, candidates: Sequence[int]) -> list[Score]:
    """Run a piece beside others: in one thread, with row state of its own."""
    with quiet(), _config.one_thread():
        if shared.held is None:
            return run_foreign(shared, number, fold, candidates)
        engine = shared.held.engine()
        try:
            rows = replace(shared.rows, engine=engine)
            with one_blas_thread():  # once for all that is inside
                return run_on(rows, shared, number, fold, candidates)
        finally:
            engine.close()


def run_on(
    rows: Resident, shared: Shared, number: int, fold: Fold, candidates: Sequence[int]
) -> list[Score]:
    """Run a piece on rows in an engine, of which those held out get weight 0."""
    _hold_out(rows, fold)
    models = [clone(shared.models[candidate]) for candidate in candidates]

    def fit() -> None:
        if len(models) > 1:
            fit_path(models, rows, shared.seeded)
        else:
            models[0].fit(rows, None)

    return _fit_and_score(fit, models, shared, number, fold, candidates)


def run_one(
    rows: Resident, shared: Shared, number: int, fold: Fold, candidate: int, seeds: Seeds
) -> list[Score]:
    """Run one candidate of a path, with the seeds of those before; these become its own."""
    _hold_out(rows, fold)
    model = clone(shared.models[candidate])
    fit = lambda: fit_seeded(model, rows, seeds)  # noqa: E731
    return _fit_and_score(fit, [model], shared, number, fold, [candidate])


def _hold_out(rows: Resident, fold: Fold) -> None:
    rows.engine.forget()
    rows.engine.each(hold_out, fold.held)


def run_foreign(shared: Shared, number: int, fold: Fold, candidates: Sequence[int]) -> list[Score]:
    """Run a piece of an estimator of another package, which is given its rows as a copy."""
    X, y = shared.rows
    train = np.ones(len(y), dtype=bool)
    train[fold.held] = False
    inside = np.flatnonzero(train)
    (candidate,) = candidates
    model = clone(shared.models[candidate])
    fit = lambda: model.fit(_rows(X, inside), y[inside])  # noqa: E731
    return _fit_and_score(fit, [model], shared, number, fold, candidates)


def _fit_and_score(
    fit: Any, models: list[Any], shared: Shared, number: int, fold: Fold, candidates: Sequence[int]
) -> list[Score]:
    """Seconds of a fit are shared out evenly among the candidates of a path."""
    began = time.perf_counter()
    try:
        fit()
    except Exception as error:
        if not shared.catch:
            raise
        nothing = dict.fromkeys(shared.scoring.names, np.nan)
        each = (time.perf_counter() - began) / len(models)
        what = f"{type(error).__name__}: {error}"
        train = nothing if shared.scoring.train else {}
        return [Score(one, number, nothing, train, each, 0.0, what) for one in candidates]
    each = (time.perf_counter() - began) / len(models)
    found = []
    for candidate, model in zip(candidates, models, strict=True):
        began = time.perf_counter()
        test = shared.scoring(model, *shared.on_test_rows(fold))
        seconds = time.perf_counter() - began
        train = {}
        if shared.scoring.train:
            train = shared.scoring(model, *shared.on_train_rows(fold))
        found.append(Score(candidate, number, test, train, each, seconds))
    return found


def _rows(X: Any, numbers: np.ndarray) -> Any:
    return X.iloc[numbers] if hasattr(X, "iloc") else X[numbers]


# Warnings of hundreds of fits say nothing; those of the final one do ------------------------

_lock = threading.Lock()
_silenced: list[Any] = []


@contextmanager
def quiet() -> Iterator[None]:
    """Have no warning of a fit shown, in any thread, while one is inside.

    `warnings.catch_warnings` alone is not for threads: the filters are the process's, and the
    first to leave would bring back those of the others.
    """
    with _lock:
        if not _silenced:
            _silenced.append(warnings.catch_warnings())
            _silenced[0].__enter__()
            warnings.simplefilter("ignore", UserWarning)
        _silenced.append(None)
    try:
        yield
    finally:
        with _lock:
            _silenced.pop()
            if len(_silenced) == 1:
                _silenced.pop().__exit__(None, None, None)
