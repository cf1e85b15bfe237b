"""Running the pieces of a search, side by side or one after the other."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dask_s3vm import _config
from dask_s3vm.engine.pool import run_pool
from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.estimators._paths import (
    Resident,
    Seeds,
    goes_in_turn,
    held_rows,
    is_in_kernels,
    placed_once,
)
from dask_s3vm.features.columns import all_rows
from dask_s3vm.model_selection._folds import Fold, Labeled
from dask_s3vm.model_selection._pieces import (
    Piece,
    Score,
    Shared,
    quiet,
    run_on,
    run_one,
    run_piece,
)
from dask_s3vm.model_selection._plan import pieces_of, placements
from dask_s3vm.model_selection._scoring import Scoring


@dataclass(frozen=True)
class Job:
    """A search: its data, its candidates and its folds.

    models : unfitted models by number of the candidate.
    test_set : rows and labels to score on in place of held-out rows.
    seeded, catch : see `Shared`.
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
        """All pieces, in groups that share placed rows."""
        return [
            pieces_of(self.models, numbers, len(self.folds), self.seeded)
            for numbers in placements(self.models)
        ]


class Result(NamedTuple):
    """Scores of a piece, or of a part of one, and then the seeds for the rest of it."""

    piece: Piece
    scores: list[Score]
    seeds: Seeds | None = None


def run(
    job: Job, done: set[tuple[int, int]], seeds_of: Callable[[Piece], Seeds | None]
) -> Iterator[Result]:
    """Run what is not done, and yield scores as they come.

    done : (candidate, fold) that need not be run.
    seeds_of : seeds that a piece has left which was not done when a search was stopped; without
        them it is run as a whole.
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

    Rows of up to `s3vm.local-bytes` are sent to every worker, and pieces are independent tasks;
    without a client threads of this process share them, or for methods that are not all kernels on
    small data, one after the other is faster. More rows than that stay in their shards, over all
    workers, and pieces use all of these one after the other.
    """
    guide = job.models[pieces[0].candidates[0]]
    if not isinstance(guide, LinearS3VM):
        yield from _run_foreign(job, pieces)
        return
    with quiet():
        placing = placed_once(guide, job.X, job.y, job.sample_weight)
        with placing as rows:
            held = held_rows(rows)
            shared = _shared(job, pieces, replace(rows, engine=None), held)  # type: ignore[arg-type]
            if held is not None and held.nbytes <= _config.local_bytes():
                yield from _side_by_side(shared, job.folds, pieces)
                return
            for piece in pieces:
                fold = job.folds[piece.fold]
                if job.seeded and goes_in_turn(guide):
                    yield from _in_turn(rows, shared, fold, piece, done, seeds_of(piece))
                else:
                    scores = run_on(rows, shared, piece.fold, fold, piece.candidates)
                    yield Result(piece, scores)


def _in_turn(
    rows: Resident,
    shared: Shared,
    fold: Fold,
    piece: Piece,
    done: set[tuple[int, int]],
    seeds: Seeds | None,
) -> Iterator[Result]:
    """Run a path candidate by candidate: on many rows each of them is worth to be kept."""
    left = piece.candidates
    if seeds is not None:
        left = tuple(one for one in left if (one, piece.fold) not in done)
    seeds = seeds or {}
    for candidate in left:
        scores = run_one(rows, shared, piece.fold, fold, candidate, seeds)
        yield Result(piece, scores, seeds)


def _run_foreign(job: Job, pieces: list[Piece]) -> Iterator[Result]:
    """Run pieces of an estimator of another package, which wants its rows in memory."""
    if job.sample_weight is not None:
        raise ValueError("sample_weight is for estimators of dask_s3vm")
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
    in_kernels = is_in_kernels(next(iter(shared.models.values())))
    with closing(run_pool(run_piece, shared, jobs, in_kernels)) as results:
        for number, scores in results:
            yield Result(pieces[number], scores)
