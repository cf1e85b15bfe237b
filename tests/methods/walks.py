"""A method that is made up: a chaotic walk.

Its numbers depend on every bit of those before: what is lost between two steps would show.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dask_s3vm.methods.run import Method
from dask_s3vm.methods.state_fields import to_fields

IDENTITY = {"estimator": "Walk"}
N_STEPS = 6


class Stop(KeyboardInterrupt):
    """Someone pressed a key."""


class Range(NamedTuple):
    low: float
    high: np.ndarray


@dataclass(frozen=True)
class Place:
    w: np.ndarray
    value: float


@dataclass(frozen=True)
class WalkState:
    place: Place
    ends: Range
    last: Place | None
    trail: list[np.ndarray]
    by_number: dict[int, Range]
    counts: tuple[int, int]
    least: float
    scale: float | None
    n_taken: int
    anything: Any
    done: bool


@dataclass(frozen=True)
class Walked:
    w: np.ndarray
    trail: list[np.ndarray]
    by_number: dict[int, Range]
    least: float
    n_iter: int = field(default=0, kw_only=True)


class Walk(Method[WalkState, Walked]):
    """Steps of the logistic map; `stop_at` is the step in the middle of which it is stopped."""

    State = WalkState
    Result = Walked
    starting = "first step"

    def __init__(self, n_steps=N_STEPS, stop_at=None, error=Stop):
        self._n_steps = n_steps
        self._stop_at = stop_at
        self._error = error
        self.called = []

    def start(self):
        self.called.append("start")
        self._fail("start")
        w = np.array([0.3, 0.7, 1 / 3])
        self.report(event="start", value=1.0)
        ends = Range(float(w[0]), w[:1])
        return WalkState(
            Place(w, np.inf), ends, None, [], {}, (0, 0), np.inf, None, 0, None, self._n_steps == 0
        )

    def advance(self, state):
        self.called.append("advance")
        w, number = state.place.w, state.n_taken
        self.report(event="half", step=number)
        self._fail(number)
        w = 3.9 * w * (1.0 - w)
        self.report(event="step", step=number)
        return WalkState(
            Place(w, np.float64(w.sum())),
            Range(np.float32(w.min()), w[w > 0.5]),
            state.place,
            [*state.trail, w.astype(np.float32)],
            {**state.by_number, number: Range(float(w[1]), np.packbits(w > 0.5))},
            (number, np.int64(2 * number)),
            min(state.least, float(w.min())),
            None if number % 2 else float(w[2]),
            number + 1,
            {"state": [number, w]},
            number + 1 == self._n_steps,
        )

    def finish(self, state):
        self.called.append("finish")
        self._fail("finish")
        return Walked(state.place.w, state.trail, state.by_number, state.least)

    def restore(self, state):
        self.called.append("restore")
        return state

    def progress(self, state):
        return f"step {state.n_taken + 1}", state.n_taken / self._n_steps

    def close(self):
        self.called.append("close")

    def _fail(self, where):
        if where == self._stop_at:
            raise self._error


class CostlyWalk(Walk):
    """A walk whose state is not all there until it is collected."""

    costly = True

    def collect(self, state):
        self.called.append("collect")
        return replace(state, anything="collected")

    def restore(self, state):
        assert state.anything == "collected"
        return super().restore(state)


class Clock:
    """Seconds that a test sets; they go on by `tick` whenever someone looks."""

    def __init__(self, tick=0.0):
        self.now = 0.0
        self.tick = tick

    def perf_counter(self):
        self.now += self.tick
        return self.now


def same(one, other):
    """Compare values of all kinds, arrays bit by bit, types included."""
    one, other = to_fields(one), to_fields(other)
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            same(*pair)
    else:
        assert one == other


def without_times(rows):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
