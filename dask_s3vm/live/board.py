"""The state of the live page: fits as their messages describe them, within fixed bounds.

Messages come from any client of a cluster, so nothing in them is trusted. `Board.take` copies the
fields that it knows, as numbers and texts of limited size, and ignores everything else.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Fits that are remembered; the oldest goes first.
MOST_FITS = 20

#: Points of a curve. When there are more, every second one goes, and so on from there.
MOST_POINTS = 500

#: Entries of a list (parameters, charts, columns of a chart or point), workers, remarks, and
#: characters of a text.
MOST_ENTRIES = 60
MOST_WORKERS = 500
MOST_REMARKS = 40
MOST_CHARACTERS = 300

#: Seconds without a message after which a fit counts as silent: its client may be gone.
SILENT = 15.0

#: How a fit can be.
STATES = ("running", "done", "stopped", "failed")


class Curve:
    """Points over time, thinned out evenly so that there are never too many.

    Of `stride` new points one is kept; the last one is always there.
    """

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._last: Any = None
        self._stride = 1
        self._count = 0

    def add(self, point: Any) -> None:
        """Add a point."""
        if self._count % self._stride == 0:
            self._kept.append(point)
        self._last = point
        self._count += 1
        if len(self._kept) > MOST_POINTS:
            del self._kept[1::2]
            self._stride *= 2

    @property
    def points(self) -> list[Any]:
        """The points that are left."""
        if self._count == 0 or self._kept[-1] is self._last:
            return list(self._kept)
        return [*self._kept, self._last]


@dataclass
class Fit:
    """What is known of a fit.

    began, heard : when it began, and when it was last heard of, by the clock of the board.
    about : method, title, parameters, facts, charts.
    now : state, what it does, seconds, time left, rounds and so on, as of the last message.
    points : rows of the history as dicts with the time `t` and the number `p` of the problem.
    pace : (time, rounds per second, shares of the time in passes, transport and client).
    """

    began: float
    heard: float
    about: dict[str, Any]
    now: dict[str, Any] = field(default_factory=dict)
    points: Curve = field(default_factory=Curve)
    pace: Curve = field(default_factory=Curve)
    remarks: list[list[Any]] = field(default_factory=list)


class Board:
    """Fits of the past and the present; messages in, JSON out.

    Parameters
    ----------
    clock : returns seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._fits: dict[str, Fit] = {}
        self._lock = threading.Lock()

    def take(self, message: Any) -> None:
        """Take in a message of a fit; what is not one is ignored."""
        if not isinstance(message, Mapping) or not isinstance(message.get("id"), str):
            return
        with self._lock:
            self._take(_text(message["id"]), message)

    def _take(self, name: str, message: Mapping[str, Any]) -> None:
        now = self._clock()
        status = _status(message)
        fit = self._fits.get(name)
        if fit is None:
            while len(self._fits) >= MOST_FITS:
                self._drop()
            fit = self._fits[name] = Fit(now - (status["seconds"] or 0.0), now, _about(message))
        fit.heard, fit.now = now, status
        for point in _list(message.get("points"), MOST_POINTS):
            if isinstance(point, Mapping):
                fit.points.add(dict(_numbers(point)))
        pace = message.get("pace")
        if isinstance(pace, list | tuple) and len(pace) == 5:
            fit.pace.add([_number(value) for value in pace])
        for remark in _list(message.get("remarks"), MOST_REMARKS):
            if isinstance(remark, list | tuple) and len(remark) == 2:
                fit.remarks.append([_number(remark[0]), _text(remark[1])])
        del fit.remarks[:-MOST_REMARKS]

    def _drop(self) -> None:
        """Forget the oldest fit that is over, else the oldest of all."""
        over = [name for name, fit in self._fits.items() if fit.now["state"] != "running"]
        del self._fits[over[0] if over else next(iter(self._fits))]

    def state(self, chosen: str | None = None) -> dict[str, Any]:
        """State of the page: all fits in short, newest first, and one of them in full.

        chosen : the fit to tell of in full; by default the newest that runs, else the newest.
        """
        with self._lock:
            now = self._clock()
            order = list(reversed(self._fits))
            if chosen not in self._fits:
                running = [name for name in order if self._fits[name].now["state"] == "running"]
                chosen = next(iter(running or order), None)
            return {
                "now": now,
                "fits": [_summary(name, self._fits[name], now) for name in order],
                "fit": None if chosen is None else _whole(chosen, self._fits[chosen], now),
            }


def _summary(name: str, fit: Fit, now: float) -> dict[str, Any]:
    status = fit.now
    quiet = now - fit.heard
    silent = status["state"] == "running" and quiet > SILENT
    return {
        "id": name,
        "method": fit.about["method"],
        "title": fit.about["title"],
        "began": fit.began,
        **{key: value for key, value in status.items() if key not in ("shards", "totals")},
        "state": "silent" if silent else status["state"],
        "quiet": quiet,
        "workers": len(status["shards"]),
    }


def _whole(name: str, fit: Fit, now: float) -> dict[str, Any]:
    return {
        **_summary(name, fit, now),
        "parameters": fit.about["parameters"],
        "facts": fit.about["facts"],
        "charts": fit.about["charts"],
        "points": fit.points.points,
        "pace": fit.pace.points,
        "shards": fit.now["shards"],
        "totals": fit.now["totals"],
        "remarks": fit.remarks,
    }


# Fields of a message ------------------------------------------------------------------------------


def _about(message: Mapping[str, Any]) -> dict[str, Any]:
    """What does not change during a fit."""
    about = message.get("about")
    about = about if isinstance(about, Mapping) else {}
    return {
        "method": _text(about.get("method", "fit")),
        "title": _text(about.get("title", "")),
        "parameters": [_texts(row, 3) for row in _list(about.get("parameters"))],
        "facts": [_texts(row, 2) for row in _list(about.get("facts"))],
        "charts": [
            {
                "title": _text(chart.get("title", "")),
                "about": _text(chart.get("about", "")),
                "log": chart.get("log") is True,
                "columns": [_texts(column, 2) for column in _list(chart.get("columns"))],
            }
            for chart in _list(about.get("charts"))
            if isinstance(chart, Mapping)
        ],
    }


def _status(message: Mapping[str, Any]) -> dict[str, Any]:
    """What changes."""
    state, shards = message.get("state"), message.get("shards")
    totals = message.get("totals")
    return {
        "state": state if state in STATES else "running",
        "ending": _text(message.get("ending", "")),
        "what": _text(message.get("what", "")),
        **{
            name: _number(message.get(name))
            for name in ("seconds", "done", "left", "rounds", "objective", "losses")
        },
        "shards": [
            [_text(row[0]), _number(row[1]), _number(row[2])]
            for row in _list(shards, MOST_WORKERS)
            if isinstance(row, list | tuple) and len(row) == 3
        ],
        "totals": dict(_numbers(totals)) if isinstance(totals, Mapping) else {},
    }


def _text(value: Any) -> str:
    return (value if isinstance(value, str) else repr(value))[:MOST_CHARACTERS]


def _texts(row: Any, length: int) -> list[str]:
    row = list(row[:length]) if isinstance(row, list | tuple) else [row]
    return [_text(value) for value in row + [""] * (length - len(row))]


def _number(value: Any) -> float | None:
    """A finite number, else None: JSON has no other."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # a whole number of hundreds of digits
        return None


def _numbers(fields: Mapping[Any, Any]) -> list[tuple[str, float | None]]:
    return [(_text(name), _number(value)) for name, value in list(fields.items())[:MOST_ENTRIES]]


def _list(value: Any, most: int = MOST_ENTRIES) -> list[Any]:
    return list(value[:most]) if isinstance(value, list | tuple) else []
