"""Records of problems that are solved at the same time.

Each problem has a record of its own, so that its rows of the history stay together: in the end the
history is as if the problems had been solved one after the other. A snapshot holds the last state
of every problem, with the rows up to that state.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dask_s3vm.methods.run import HistoryRow, Record, RecordPart, Saved
from dask_s3vm.methods.state_fields import from_fields


@dataclass(frozen=True)
class RowCounts:
    """Number of rows of the history of each problem."""

    counts: list[int]


@contextmanager
def records_of(record: Record, name: str, n_problems: int) -> Iterator[list[Record]]:
    """Have a record for each of several problems; their rows then become part of `record`.

    name : of the whole; unique within the fit.
    """
    if isinstance(record, RecordPart):
        with records_of(record.whole, f"{record.name}/{name}", n_problems) as parts:
            yield [RecordPart(part, record.name, record.tags) for part in parts]
        return
    several = _Several(record, name, n_problems)
    yield list(several.records)
    several.close()


class _Several:
    """What the records of several problems share.

    records : one for each problem.
    lock : held by who changes them; problems may be solved in several threads.
    """

    def __init__(self, whole: Record, name: str, n_problems: int) -> None:
        self.whole = whole
        self.name = name
        self.lock = threading.RLock()
        saved = whole.checkpoint.last.states.get(name)
        counts, first = [0] * n_problems, len(whole.history)
        if saved is not None and not saved.done:
            counts, first = from_fields(RowCounts, saved.value).counts, saved.first_row
        self._before, rows = whole.history[:first], whole.history[first:]
        ends = [sum(counts[: number + 1]) for number in range(n_problems)]
        self.records = [
            _ProblemRecord(self, rows[end - count : end])
            for end, count in zip(ends, counts, strict=True)
        ]

    def so_far(self) -> tuple[dict[str, Saved], list[HistoryRow]]:
        """The rows up to the last state of each problem, and whose they are."""
        kept = [one.kept for one in self.records]
        mark = Saved(RowCounts([len(rows) for rows in kept]), False, 0, len(self._before))
        return {self.name: mark}, [*self._before, *(row for rows in kept for row in rows)]

    def close(self) -> None:
        """Put all rows into the history: the problems are solved."""
        rows = [row for one in self.records for row in one.history]
        self.whole.history[:] = [*self._before, *rows]
        self.whole.keep(self.name, Saved(RowCounts([]), True, 0, 0))


class _ProblemRecord(Record):
    """The record of one of several problems.

    kept : its rows up to its last state.
    """

    def __init__(self, several: _Several, history: list[HistoryRow]) -> None:
        super().__init__(checkpoint=several.whole.checkpoint)
        self._several = several
        self.history = history
        self.kept = list(history)

    @property
    def rounds(self) -> int:
        """Rounds of the whole fit."""
        return self._several.whole.rounds

    def add(self, row: HistoryRow) -> None:
        """Add a row to the history of this problem."""
        with self._several.lock:
            self.history.append(row)
            self._several.whole.announce(row)

    def ended(self, tags: HistoryRow) -> None:
        """See `Record.ended`."""
        self._several.whole.ended(tags)

    def report_progress(self, tags: HistoryRow, what: str, done: float | None = None) -> None:
        """See `Record.report_progress`."""
        self._several.whole.report_progress(tags, what, done)

    def keep(self, name: str, saved: Saved, began: float | None = None) -> None:
        """See `Record.keep`; the rows up to now belong to the state."""
        with self._several.lock:
            self.kept = list(self.history)
            super().keep(name, saved, began)

    def so_far(self) -> tuple[dict[str, Saved], list[HistoryRow]]:
        """See `Record.so_far`; of all problems."""
        return self._several.so_far()
