"""How far a fit has come, as its method counts: levels, temperatures, stages, restarts."""

import math
from collections.abc import Mapping
from typing import Any

from dask_s3vm.methods.annealing import COOLING, FIRST_TEMPERATURE, MAX_TEMPERATURES
from dask_s3vm.methods.base import HistoryRow
from dask_s3vm.methods.tsvm import FIRST_LEVEL, GROWTH, levels


class Course:
    """Reads the rows of a history: what is being done, and what part of all that is to be done.

    Parameters
    ----------
    parameters : parameters of the estimator, as far as it has them.
    problems : number of binary problems (one-vs-rest), or of splits.
    """

    def __init__(self, parameters: Mapping[str, Any], problems: int = 1) -> None:
        self._parameters = parameters
        self._problems = max(1, problems)
        self._met: list[Any] = []
        self._restarts = 0

    def place(self, row: HistoryRow) -> tuple[str, float | None]:
        """Say where a fit is.

        Returns
        -------
        what : a few words, such as "level 31 of 45".
        done : part of the way, in [0, 1]; None where nobody can know: how many Newton steps, or
            stages of self-training, it will take shows only at the end.
        """
        problem = self._problem(row)
        what, done = self._within(row)
        if self._problems == 1:
            return what, done
        what = f"problem {problem + 1} of {self._problems}, {what}"
        return what, None if done is None else (problem + done) / self._problems

    def _problem(self, row: HistoryRow) -> int:
        """Number the binary problems in the order in which they turn up."""
        which = row.get("class", row.get("split", 0))
        if which not in self._met:
            self._met.append(which)
            self._restarts = 0
        return min(self._met.index(which), self._problems - 1)

    def _within(self, row: HistoryRow) -> tuple[str, float | None]:
        if row.get("event") == "train":
            return "SVM on the labels found", None
        if "level" in row:
            return self._level(row["level"])
        if "temperature" in row:
            return self._temperature(row["temperature"])
        if "restart" in row:
            return self._restart()
        if "n_waiting" in row:
            return f"stage {row['stage']}", None
        if "stage" in row:
            return self._stage(row["stage"])
        if "iteration" in row:
            return f"Newton step {row['iteration']}", None
        if "start" in row:
            return self._start(row["start"])
        return (f"lam {row['lam']:g}" if "loo_error" in row else row.get("event", "training")), None

    def _level(self, level: float) -> tuple[str, float | None]:
        """Levels of TSVM grow by a factor, up to a last one that takes as long as it takes."""
        last = float(self._parameters.get("lam_unlabeled", 1.0))
        count = sum(1 for _ in levels(last))
        if level <= 0.0:
            return "labeled rows alone", None
        if level >= last:
            return f"level {count} of {count}", None
        number = round(math.log(level / FIRST_LEVEL) / math.log(GROWTH)) + 1
        return f"level {number} of {count}", (number - 1) / count

    def _temperature(self, temperature: float) -> tuple[str, float | None]:
        """Temperatures of DA fall by a factor, at most so often."""
        if temperature <= 0.0:
            return "descent", None
        first = FIRST_TEMPERATURE * float(self._parameters.get("lam_unlabeled", 1.0))
        number = round(math.log(first / temperature) / math.log(COOLING)) + 1
        what = f"temperature {temperature:.3g} ({number} of at most {MAX_TEMPERATURES})"
        return what, number / MAX_TEMPERATURES

    def _stage(self, stage: int) -> tuple[str, float | None]:
        """Stages of QN-S3VM: the weights of the unlabeled rows, one after the other."""
        count = len(self._parameters.get("annealing", ()))
        if not count:
            return f"stage {stage + 1}", None
        return f"stage {stage + 1} of {count}", stage / count if stage + 1 < count else None

    def _restart(self) -> tuple[str, float | None]:
        """Restarts end in any order; how many have is what counts."""
        count = int(self._parameters.get("n_restarts", 0))
        self._restarts += 1
        if not count:
            return f"restart {self._restarts}", None
        return f"restart {self._restarts} of {count}", min(1.0, self._restarts / count)

    def _start(self, start: int) -> tuple[str, float | None]:
        """Starts of the label program; the first one is not drawn."""
        count = int(self._parameters.get("n_restarts", 0)) + 1
        return f"start {start + 1} of {count}", start / count if count > 1 else None


class Pace:
    """Guesses the time left from the pace of the later half of the time so far.

    Early levels and stages are often quicker than later ones, so what came first tells little of
    what is to come.
    """

    def __init__(self) -> None:
        self._passed: list[tuple[float, float]] = []
        self._known = False

    def passed(self, now: float, done: float | None) -> None:
        """Note that a part `done` of the way was behind us at `now`; None: nobody knows."""
        self._known = done is not None
        if done is not None and (not self._passed or done > self._passed[-1][1]):
            self._passed.append((now, done))

    def left(self, now: float) -> float | None:
        """Seconds left; None where nothing, or too little, is known."""
        if not self._known or len(self._passed) < 3:
            return None
        half = 0.5 * (self._passed[0][0] + self._passed[-1][0])
        early = [place for place in self._passed[:-1] if place[0] <= half]
        (then, behind), (last, done) = early[-1], self._passed[-1]
        if last <= then:
            return None
        # what has gone by since the last mark belongs to what was left there
        return max(0.0, (1.0 - done) * (last - then) / (done - behind) - (now - last))
