"""Running the fits of a search.

The candidates of a search are divided into pieces: the candidates of one path (those that differ in
`lam` alone) on one fold. All pieces whose rows are placed alike share the placed rows. Small rows
are sent to every worker, and pieces run side by side; large rows stay in their shards, and several
pieces run at once on all workers, with shared rounds.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from dask_s3vm import _config
from dask_s3vm.engine.computing import run_pool
from dask_s3vm.engine.lanes import KERNEL_BYTES, run_together
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import hold_out
from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.estimators._paths import (
    OF_PLACING,
    PlacedRows,
    Seeds,
    SharedRows,
    facts_of,
    fit_models,
    fit_path,
    placed_once,
    shared_rows,
    shares_path,
)
from dask_s3vm.exceptions import quiet
from dask_s3vm.features.kernel_columns import all_rows
from dask_s3vm.model_selection._results import Score, Scoring
from dask_s3vm.model_selection._splits import Fold, Labeled
from dask_s3vm.numerics.linalg import one_blas_thread


class Piece(NamedTuple):
    """Numbers of the candidates that are fitted together on a fold."""

    fold: int
    candidates: tuple[int, ...]


@dataclass(frozen=True)
class Job:
    """A search: its data, its candidates and its folds.

    Attributes
    ----------
    X, y, sample_weight : array
        Arguments of `fit` of the search.
    models : dict
        Unfitted models by number of the candidate.
    labeled : Labeled
        The labeled rows.
    folds : list of Fold
        The splits.
    test_set : tuple or None
        Rows and labels to score on in place of held-out rows.
    scoring : Scoring
        The scorers.
    seeded : bool
        Whether a solution may be the seed of the next one, see `estimators._paths`.
    catch : bool
        Whether a failed fit is recorded rather than raised.
    """

    X: Any
    y: Any
    sample_weight: Any
    models: dict[int, Any]
    labeled: Labeled
    folds: list[Fold]
    test_set: tuple[Any, np.ndarray] | None
    scoring: Scoring
    seeded: bool
    catch: bool

    def pieces(self) -> list[list[Piece]]:
        """Return all pieces, in groups that share placed rows."""
        return [
            pieces_of(self.models, numbers, len(self.folds), self.seeded)
            for numbers in placements(self.models)
        ]


class Result(NamedTuple):
    """Scores of a piece; of a part of a piece, with the seeds for its remaining candidates."""

    piece: Piece
    scores: list[Score]
    seeds: Seeds | None = None


@dataclass(frozen=True)
class Shared:
    """What all pieces of a group have in common; it is sent to each worker once.

    Attributes
    ----------
    models, labeled, test_set, scoring, seeded, catch
        See `Job`.
    rows : object
        The placed rows, without their engine; for estimators of other packages, (X, y).
    held : SharedRows or None
        The rows of the engine, if they are in this process.
    known : dict
        By fold: what fits have found that does not depend on candidates, see `PlacedRows`.
    """

    models: dict[int, Any]
    rows: Any
    held: SharedRows | None
    labeled: Labeled
    test_set: tuple[Any, np.ndarray] | None
    scoring: Scoring
    seeded: bool
    catch: bool
    known: dict[int, dict[Any, Any]] = field(default_factory=dict)

    def on_test_rows(self, fold: Fold) -> tuple[Any, np.ndarray]:
        """Return the rows and labels to score a fold on."""
        if fold.test is None:
            assert self.test_set is not None, "there is no fold and no test set"
            return self.test_set
        return _rows(self.labeled.X, fold.test), self.labeled.y[fold.test]

    def on_train_rows(self, fold: Fold) -> tuple[Any, np.ndarray]:
        """Return the labeled rows that a fold trains on, and their labels."""
        inside = np.flatnonzero(~np.isin(self.labeled.numbers, fold.held_out))
        return _rows(self.labeled.X, inside), self.labeled.y[inside]


def run(
    job: Job, done: set[tuple[int, int]], seeds_of: Callable[[Piece], Seeds | None]
) -> Iterator[Result]:
    """Run the pieces that are not done, and yield their scores as they finish.

    Parameters
    ----------
    job : Job
        The search.
    done : set
        Pairs (candidate, fold) that are done.
    seeds_of : callable
        Returns the saved seeds of a piece that was done in part when the search was stopped, or
        None. Without seeds the whole piece is run again.
    """
    for group in job.pieces():
        missing = [
            piece for piece in group if not {(one, piece.fold) for one in piece.candidates} <= done
        ]
        if missing:
            yield from _run_group(job, missing, done, seeds_of)


def _run_group(
    job: Job,
    pieces: list[Piece],
    done: set[tuple[int, int]],
    seeds_of: Callable[[Piece], Seeds | None],
) -> Iterator[Result]:
    """Place the rows once, and run pieces on them.

    Rows of up to `s3vm.local-bytes` are sent to every worker, and pieces are independent tasks.
    Without a client, pieces run in threads of this process, or one after the other if the fits run
    mostly outside kernels. Larger rows stay in their shards on all workers, and pieces run on
    them with shared rounds.
    """
    guide = job.models[pieces[0].candidates[0]]
    if not isinstance(guide, LinearS3VM):
        yield from _run_foreign(job, pieces)
        return
    with quiet():
        placing = placed_once(guide, job.X, job.y, job.sample_weight)
        with placing as rows:
            held = shared_rows(rows)
            shared = _shared(job, pieces, replace(rows, engine=None), held)  # type: ignore[arg-type]
            if held is not None and held.nbytes <= _config.local_bytes():
                yield from _side_by_side(shared, job.folds, pieces)
                return
            by_candidate = job.seeded and guide.facts.takes_seeds and not guide.facts.shares_path
            at_once = _config.solves_at_once() if guide._in_lanes else 1
            for low in range(0, len(pieces), at_once):
                batch = pieces[low : low + at_once]
                if by_candidate:
                    yield from _in_turn(rows, shared, job.folds, batch, done, seeds_of)
                else:
                    yield from _at_once(rows, shared, job.folds, batch)


def _at_once(
    rows: PlacedRows, shared: Shared, folds: list[Fold], pieces: list[Piece]
) -> Iterator[Result]:
    """Run pieces at the same time, each with row state of its own."""

    def work(piece: Piece, engine: Engine) -> list[Score]:
        fold = folds[piece.fold]
        return run_on(replace(rows, engine=engine), shared, piece.fold, fold, piece.candidates)

    found = run_together(rows.engine, [partial(work, piece) for piece in pieces])
    yield from map(Result, pieces, found)


def _in_turn(
    rows: PlacedRows,
    shared: Shared,
    folds: list[Fold],
    pieces: list[Piece],
    done: set[tuple[int, int]],
    seeds_of: Callable[[Piece], Seeds | None],
) -> Iterator[Result]:
    """Run paths candidate by candidate: on many rows the scores of each are worth saving."""
    seeds: dict[Piece, Seeds] = {}
    left: dict[Piece, list[int]] = {}
    for piece in pieces:
        saved = seeds_of(piece)
        seeds[piece] = saved or {}
        again = saved is None
        left[piece] = [one for one in piece.candidates if again or (one, piece.fold) not in done]

    def work(piece: Piece, engine: Engine) -> list[Score]:
        own, fold = replace(rows, engine=engine), folds[piece.fold]
        return run_one(own, shared, piece.fold, fold, left[piece].pop(0), seeds[piece])

    while under_way := [piece for piece in pieces if left[piece]]:
        found = run_together(rows.engine, [partial(work, piece) for piece in under_way])
        for piece, scores in zip(under_way, found, strict=True):
            yield Result(piece, scores, seeds[piece])


def _run_foreign(job: Job, pieces: list[Piece]) -> Iterator[Result]:
    """Run pieces of an estimator of another package, which needs its rows in memory."""
    if job.sample_weight is not None:
        raise ValueError("sample_weight is for estimators of dask_s3vm only")
    rows = job.X if hasattr(job.X, "iloc") else all_rows(job.X)
    shared = _shared(job, pieces, (rows, job.labeled.all_labels()), None)
    with quiet():
        yield from _side_by_side(shared, job.folds, pieces)


def _shared(job: Job, pieces: list[Piece], rows: Any, held: Any) -> Shared:
    numbers = {number for piece in pieces for number in piece.candidates}
    models = {number: job.models[number] for number in sorted(numbers)}
    return Shared(models, rows, held, job.labeled, job.test_set, job.scoring, job.seeded, job.catch)


def _side_by_side(shared: Shared, folds: list[Fold], pieces: list[Piece]) -> Iterator[Result]:
    jobs = [(piece.fold, folds[piece.fold], piece.candidates) for piece in pieces]
    facts = facts_of(next(iter(shared.models.values())))
    in_kernels = facts is not None and facts.in_kernels
    in_kernels |= shared.held is not None and shared.held.nbytes >= KERNEL_BYTES
    with closing(run_pool(run_piece, shared, jobs, in_kernels)) as results:
        for number, scores in results:
            yield Result(pieces[number], scores)


def placements(models: dict[int, Any]) -> list[list[int]]:
    """Group the candidates whose rows are placed alike; those of other packages are one group."""
    return _grouped(models, lambda model: [repr(getattr(model, name, None)) for name in OF_PLACING])


def pieces_of(
    models: dict[int, Any], numbers: Sequence[int], n_folds: int, seeded: bool
) -> list[Piece]:
    """Divide candidates into pieces: paths of those that differ in lam alone, largest lam first."""
    paths: list[list[int]] = []
    alone = [number for number in numbers if not _on_path(models[number], seeded)]
    others = {number: models[number] for number in numbers if number not in set(alone)}
    for path in _grouped(others, _without_lam):
        paths.append(sorted(path, key=lambda number: (-float(models[number].lam), number)))
    paths += [[number] for number in alone]
    return [Piece(fold, tuple(path)) for fold in range(n_folds) for path in paths]


def _on_path(model: Any, seeded: bool) -> bool:
    return shares_path(model, seeded)


def _without_lam(model: Any) -> list[str]:
    params = model.get_params(deep=False)
    return [f"{name}={value!r}" for name, value in sorted(params.items()) if name != "lam"]


def _grouped(models: dict[int, Any], key: Any) -> list[list[int]]:
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, model in models.items():
        groups.setdefault(tuple(key(model)), []).append(number)
    return list(groups.values())


def run_piece(shared: Shared, number: int, fold: Fold, candidates: Sequence[int]) -> list[Score]:
    """Run a piece as a task: in one thread, with its own state of the rows."""
    with quiet(), _config.one_thread():
        if shared.held is None:
            return run_foreign(shared, number, fold, candidates)
        engine = shared.held.engine()
        try:
            rows = replace(shared.rows, engine=engine)
            with one_blas_thread():  # here once, rather than in every fit
                return run_on(rows, shared, number, fold, candidates)
        finally:
            engine.close()


def run_on(
    rows: PlacedRows, shared: Shared, number: int, fold: Fold, candidates: Sequence[int]
) -> list[Score]:
    """Run a piece on the rows of an engine; held-out rows get weight 0."""
    rows = _held_out(rows, shared, number, fold)
    models = [clone(shared.models[candidate]) for candidate in candidates]

    def fit() -> None:
        if len(models) > 1:
            fit_models(models, rows, shared.seeded)
        else:
            models[0].fit(rows, None)

    return _fit_and_score(fit, models, shared, number, fold, candidates)


def run_one(
    rows: PlacedRows, shared: Shared, number: int, fold: Fold, candidate: int, seeds: Seeds
) -> list[Score]:
    """Run one candidate of a path from the seeds of the previous one; updates the seeds."""
    rows = _held_out(rows, shared, number, fold)
    model = clone(shared.models[candidate])
    fit = lambda: fit_path([model], rows, None, seeds=seeds)  # noqa: E731
    return _fit_and_score(fit, [model], shared, number, fold, [candidate])


def run_foreign(shared: Shared, number: int, fold: Fold, candidates: Sequence[int]) -> list[Score]:
    """Run a piece of an estimator of another package on a copy of the training rows."""
    X, y = shared.rows
    train = np.ones(len(y), dtype=bool)
    train[fold.held_out] = False
    inside = np.flatnonzero(train)
    (candidate,) = candidates
    model = clone(shared.models[candidate])
    fit = lambda: model.fit(_rows(X, inside), y[inside])  # noqa: E731
    return _fit_and_score(fit, [model], shared, number, fold, candidates)


def _fit_and_score(
    fit: Any, models: list[Any], shared: Shared, number: int, fold: Fold, candidates: Sequence[int]
) -> list[Score]:
    """Fit and score models; each candidate of a path gets an even share of both times."""
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
    began = time.perf_counter()
    tests = shared.scoring.of_path(models, *shared.on_test_rows(fold))
    seconds = (time.perf_counter() - began) / len(models)
    trains: list[dict[str, float]] = [{} for _ in models]
    if shared.scoring.train:
        trains = shared.scoring.of_path(models, *shared.on_train_rows(fold))
    return [
        Score(candidate, number, test, train, each, seconds)
        for candidate, test, train in zip(candidates, tests, trains, strict=True)
    ]


def _held_out(rows: PlacedRows, shared: Shared, number: int, fold: Fold) -> PlacedRows:
    """Give the rows that a fold holds out weight 0; return what its fits are given."""
    rows.engine.forget()
    rows.engine.each(hold_out, fold.held_out)
    return replace(rows, known=shared.known.setdefault(number, {}))


def _rows(X: Any, numbers: np.ndarray) -> Any:
    return X.iloc[numbers] if hasattr(X, "iloc") else X[numbers]
