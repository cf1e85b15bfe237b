"""Who remembers the state of a fit between two steps.

A method offers its state at a step boundary, under a name of its own; the last one offered is the
one to go on from. States are dicts of numbers, texts, arrays, and lists and dicts of these. Arrays
that were offered are not written to afterwards.
"""

import time
from dataclasses import dataclass, field
from typing import Any

State = dict[str, Any]

#: Keeping states takes at most this part of the time.
SHARE = 0.01


@dataclass(frozen=True)
class Snapshot:
    """All that is needed to go on: states by name, rows of the history, rounds made."""

    states: dict[str, State] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    rounds: int = 0


class Keeper:
    """Remembers in memory: enough to start a step again after a worker was lost.

    interval : least seconds between states that take some work to collect.
    """

    def __init__(self, interval: float = 5.0) -> None:
        self._interval = interval
        self.last = Snapshot()
        self._cost = 0.0
        self._kept_at = time.perf_counter()

    @property
    def due(self) -> bool:
        """Whether it is time for a state that takes some work to collect."""
        waited = time.perf_counter() - self._kept_at
        return waited >= max(self._interval, self._cost / SHARE)

    def offer(self, snapshot: Snapshot, began: float | None = None) -> None:
        """Remember a state; `began`: when its collection began, if that took some work."""
        self.last = snapshot
        if began is not None:
            self._charge(began)

    def _charge(self, began: float) -> None:
        """Take note of what keeping a state has cost."""
        self._kept_at = time.perf_counter()
        self._cost = self._kept_at - began

    def rescue(self) -> None:
        """Bring the last state to safety: the fit is about to end before its time."""

    def finish(self) -> None:
        """Forget all: the fit is done."""
        self.last = Snapshot()
