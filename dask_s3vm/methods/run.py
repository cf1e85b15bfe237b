"""One loop for every method: start, advance until done, finish.

A method is mathematics alone. The `Record` of a fit drives it, and does for all methods alike what
is not mathematics: rows of the history, the progress line, checkpoints, interruption, resuming.

    state = method.start()
    while not state.done:
        state = method.advance(state)       # one outer iteration
    result = method.finish(state)

States and results are frozen dataclasses of numbers, texts, arrays, and lists, dicts, named tuples
and dataclasses of these. They are saved and read back field by field (`to_fields`, `from_fields`),
never as code. Between two states a fit can be stopped and resumed, in this process or another one.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from dask_s3vm import interrupts
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.state_fields import from_fields

#: One row of `history_`: flat, numbers and strings only.
HistoryRow = dict[str, Any]

#: Called with every row of the history as it comes.
Callback = Callable[[HistoryRow], None]

#: Saving states takes at most this part of the time.
SAVING_SHARE = 0.01


S = TypeVar("S", bound=Any)
R = TypeVar("R")


class Method(Generic[S, R]):
    """One training: of one binary problem, or of a part of it.

    `start`, `advance` and `finish` are all that a method has to have. A state says by its field or
    property `done` whether there is more to do. `report(event=..., ...)` adds
    a row to the history, with the seconds since the last one. A result that has a field `n_iter` of
    0 gets the number of iterations there.
    """

    #: types of its states and of its result, by which they are read back
    State: ClassVar[Any]
    Result: ClassVar[Any]

    #: what is done before the first state, for the progress line
    starting = ""
    #: whether a state needs arrays from the shards; then `collect` is not called at every step
    costly = False
    #: adds a row to the history; the record sets it
    report: Callable[..., None] = staticmethod(lambda **row: None)

    def start(self) -> S:
        """Return the first state."""
        raise NotImplementedError

    def advance(self, state: S) -> S:
        """Make one outer iteration."""
        raise NotImplementedError

    def finish(self, state: S) -> R:
        """Return what was found."""
        raise NotImplementedError

    def collect(self, state: S) -> S:
        """Return the state with all that is needed to resume from it."""
        return state

    def restore(self, state: S) -> S:
        """Bring the rows to a state that was read back, and return it."""
        return state

    def progress(self, state: S) -> tuple[str, float | None]:
        """What `advance` will do next, in words, and the fraction that is done.

        None where that is unknown: how many Newton steps it takes shows only at the end.
        """
        return "training", None

    def arrange(self, rows: list[HistoryRow]) -> list[HistoryRow]:
        """Put the rows that were reported into their final order."""
        return rows

    def close(self) -> None:
        """Release resources that are not part of a state, whether the method has ended or not."""


# Checkpoints --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Saved:
    """A state, or the result of what is done.

    value : a dataclass; or the dict of its fields, if it was read from a file.
    n_iter : outer iterations so far.
    first_row : number of rows of the history before it.
    """

    value: Any
    done: bool
    n_iter: int
    first_row: int


@dataclass(frozen=True)
class Snapshot:
    """All that is needed to resume a fit: states by name, rows of the history, rounds made."""

    states: dict[str, Saved] = field(default_factory=dict)
    history: list[HistoryRow] = field(default_factory=list)
    rounds: int = 0


class Checkpoint:
    """Remembers the last snapshot, in memory: see `checkpoints.FileCheckpoint` for files.

    interval : least seconds between states that take work to collect or to write.
    """

    def __init__(self, interval: float = 5.0) -> None:
        self._interval = interval
        self.last = Snapshot()
        self._cost = 0.0
        self._saved_at = time.perf_counter()

    @property
    def due(self) -> bool:
        """Whether it is time for a state that takes work."""
        waited = time.perf_counter() - self._saved_at
        return waited >= max(self._interval, self._cost / SAVING_SHARE)

    def save(self, snapshot: Snapshot, began: float | None = None) -> None:
        """Remember a snapshot; `began`: when its collection began, if that took work."""
        self.last = snapshot
        if began is not None:
            self._charge(began)

    def _charge(self, began: float) -> None:
        """Note what it cost to save a snapshot."""
        self._saved_at = time.perf_counter()
        self._cost = self._saved_at - began

    def flush(self) -> None:
        """Write the last snapshot now: the fit is being aborted."""

    def clear(self) -> None:
        """Forget everything: the fit is done."""
        self.last = Snapshot()

    def close(self) -> None:
        """Release resources, whether the fit is done or not."""


# The record of a fit ------------------------------------------------------------------------------


#: Told where a fit is: what its rows are tags, what it does next, and the fraction done.
ProgressListener = Callable[[HistoryRow, str, float | None], None]


class Record:
    """Drives methods, and holds what they have done.

    Parameters
    ----------
    callbacks : called with each row of the history.
    checkpoint : remembers states; holds those of an interrupted fit that is to be resumed.
    engine : tells how many rounds were made.
    rounds_before : rounds of the engine that were not made for this fit.
    progress : told where the fit is.

    Attributes
    ----------
    history : its rows.
    callbacks : a list; more can be added.
    checkpoint : see above.
    """

    def __init__(
        self,
        callbacks: Iterable[Callback] = (),
        checkpoint: Checkpoint | None = None,
        engine: Engine | None = None,
        rounds_before: int = 0,
        progress: ProgressListener | None = None,
    ) -> None:
        self.callbacks = list(callbacks)
        self.checkpoint = Checkpoint() if checkpoint is None else checkpoint
        self._engine = engine
        self._progress = progress
        self._rounds_offset = self.checkpoint.last.rounds - rounds_before
        self.history: list[HistoryRow] = list(self.checkpoint.last.history)

    @property
    def rounds(self) -> int:
        """Rounds of this fit, those before it was interrupted included."""
        return self._rounds_offset + (0 if self._engine is None else self._engine.rounds)

    def add(self, row: HistoryRow) -> None:
        """Add a row to the history."""
        self.history.append(row)
        self.announce(row)

    def announce(self, row: HistoryRow) -> None:
        """Call the callbacks with a row."""
        for callback in self.callbacks:
            callback(row)

    def run(self, name: str, method: Method[S, R], tags: HistoryRow | None = None) -> R:
        """Run a method to its end, from its start or from where an earlier fit was stopped.

        Parameters
        ----------
        name : of its states; unique within the fit.
        method : the method.
        tags : columns that all of its rows begin with, such as the class that is positive.
        """
        saved = self.checkpoint.last.states.get(name)
        if saved is not None and saved.done:
            return from_fields(method.Result, saved.value)
        tags = tags or {}
        method.report = _Reporter(self, tags)
        first_row, n_iter = len(self.history), 0
        try:
            if saved is None:
                self.report_progress(tags, method.starting, None)
                state = method.start()
            else:
                first_row, n_iter = saved.first_row, saved.n_iter
                state = method.restore(from_fields(method.State, saved.value))
            while not state.done:
                self.report_progress(tags, *method.progress(state))
                self._save(name, method, state, n_iter, first_row)
                interrupts.check()
                state = method.advance(state)
                n_iter += 1
            result = method.finish(state)
        finally:
            method.close()
        if getattr(result, "n_iter", None) == 0:  # not counted by the method itself
            result = dataclasses.replace(result, n_iter=n_iter)  # type: ignore[type-var]
        self.history[first_row:] = method.arrange(self.history[first_row:])
        self.keep(name, Saved(result, True, n_iter, first_row))
        return result

    def once(self, name: str, kind: type[R], compute: Callable[[], R]) -> R:
        """Compute something, unless that was done before the fit was interrupted.

        What is saved inside under `name`/... is dropped when it is done.
        """
        saved = self.checkpoint.last.states.get(name)
        if saved is not None and saved.done:
            return from_fields(kind, saved.value)
        first_row = len(self.history)
        result = compute()
        self.keep(name, Saved(result, True, 0, first_row))
        return result

    def ended(self, tags: HistoryRow) -> None:
        """Tell the progress line that the problem with these tags is solved."""
        if self._progress is not None:
            self._progress(tags, "", 1.0)

    def report_progress(self, tags: HistoryRow, what: str, done: float | None = None) -> None:
        """Say what the fit does next, and the fraction that is done, where that is known."""
        if self._progress is not None and what:
            self._progress(tags, what, done)

    def _save(self, name: str, method: Method[S, R], state: S, n_iter: int, first_row: int) -> None:
        """Save a state; one that is costly only if it is time."""
        if not method.costly:
            self.keep(name, Saved(state, False, n_iter, first_row))
        elif self.checkpoint.due:
            began = time.perf_counter()
            self.keep(name, Saved(method.collect(state), False, n_iter, first_row), began)

    def keep(self, name: str, saved: Saved, began: float | None = None) -> None:
        """Put a state or result into a new snapshot; see `Checkpoint.save` for `began`."""
        states = {
            key: value
            for key, value in self.checkpoint.last.states.items()
            if not (saved.done and key.startswith(f"{name}/"))
        }
        marks, history = self.so_far()
        snapshot = Snapshot({**states, name: saved, **marks}, history, self.rounds)
        self.checkpoint.save(snapshot, began)

    def so_far(self) -> tuple[dict[str, Saved], list[HistoryRow]]:
        """Row counts of problems that are solved side by side (see there), and all rows so far."""
        return {}, list(self.history)


class RecordPart(Record):
    """A record within another one, for fits of which one fit is made.

    Parameters
    ----------
    whole : the record that keeps states and rows.
    name : what names of states begin with here.
    tags : what rows of the history begin with here.
    """

    def __init__(self, whole: Record, name: str, tags: HistoryRow | None = None) -> None:
        super().__init__(checkpoint=whole.checkpoint)
        self.whole = whole
        self.name = name
        self.tags = tags or {}
        self.history = whole.history

    @property
    def rounds(self) -> int:
        """Rounds of the whole fit."""
        return self.whole.rounds

    def add(self, row: HistoryRow) -> None:
        """Add a row to the history."""
        self.whole.add({**self.tags, **row})

    def announce(self, row: HistoryRow) -> None:
        """Call the callbacks of the whole fit with a row."""
        self.whole.announce({**self.tags, **row})

    def run(self, name: str, method: Method[S, R], tags: HistoryRow | None = None) -> R:
        """See `Record.run`."""
        return self.whole.run(f"{self.name}/{name}", method, {**self.tags, **(tags or {})})

    def once(self, name: str, kind: type[R], compute: Callable[[], R]) -> R:
        """See `Record.once`."""
        return self.whole.once(f"{self.name}/{name}", kind, compute)

    def ended(self, tags: HistoryRow) -> None:
        """See `Record.ended`."""
        self.whole.ended({**self.tags, **tags})

    def report_progress(self, tags: HistoryRow, what: str, done: float | None = None) -> None:
        """See `Record.report_progress`."""
        self.whole.report_progress({**self.tags, **tags}, what, done)

    def keep(self, name: str, saved: Saved, began: float | None = None) -> None:
        """See `Record.keep`."""
        self.whole.keep(f"{self.name}/{name}", saved, began)


class _Reporter:
    """Adds rows of one method to a record; `seconds` are those since its last row."""

    def __init__(self, record: Record, tags: HistoryRow) -> None:
        self._record = record
        self._tags = tags
        self._began = time.perf_counter()

    def __call__(self, **row: Any) -> None:
        now = time.perf_counter()
        self._record.add({**self._tags, **row, "seconds": row.get("seconds", now - self._began)})
        self._began = now
