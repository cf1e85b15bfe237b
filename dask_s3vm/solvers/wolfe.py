"""A step along a direction that lowers a smooth function enough (Nocedal & Wright, section 3.1)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dask_s3vm.solvers.cg import dot

#: Wolfe's conditions on a step: enough decrease, and a slope that has become flatter.
DECREASE = 1e-4
FLATTER = 0.9

#: Values that differ by less than this part of themselves are the same but for rounding.
ROUNDING = 1e-14

#: Most trials in one direction.
MAX_TRIALS = 25

#: Evaluates a function: value and gradient, an array of its own each time.
Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Trial:
    """What is known at a step t along the direction."""

    t: float
    value: float
    gradient: np.ndarray
    slope: float


def wolfe_step(
    function: Function,
    x: np.ndarray,
    here: Trial,
    direction: np.ndarray,
    slope: float,
    max_trials: int,
) -> tuple[Trial | None, int]:
    """Find t with f(x + t p) <= f + c1 t slope and slope(t) >= c2 slope, 1 if it can be.

    Where the difference of the values is lost in rounding, the slopes decide (the approximate
    conditions of Hager and Zhang).

    Parameters
    ----------
    function : see `Function`.
    x, here : the point, and what is known there.
    direction, slope : p, and the slope of f along it, negative.
    max_trials : most evaluations.

    Returns
    -------
    The trial that was accepted, or None; and the number of evaluations. Where trials run out, a
    step that meets the first condition only is accepted.
    """
    low = Trial(0.0, here.value, here.gradient, slope)
    high: Trial | None = None
    t = 1.0
    most = min(max_trials, MAX_TRIALS)
    for n in range(1, most + 1):
        value, gradient = function(x + t * direction)
        trial = Trial(t, value, gradient, dot(direction, gradient))
        if not _is_lower(trial, here.value, slope):
            high = trial
        elif trial.slope < FLATTER * slope:
            low = trial
        else:
            return trial, n
        t = _next_step(low, high)
        if t <= low.t or (high is not None and t >= high.t):
            return _progress(low), n
    return _progress(low), most


def _progress(low: Trial) -> Trial | None:
    """The best trial so far, if it is lower than the start: too steep, but not to be wasted."""
    return low if low.t > 0.0 else None


def _is_lower(trial: Trial, value: float, slope: float) -> bool:
    """Whether the value is low enough; NaN and infinity are not."""
    if trial.value <= value + DECREASE * trial.t * slope:
        return True
    near = trial.value <= value + ROUNDING * abs(value)
    return near and trial.slope <= (2.0 * DECREASE - 1.0) * slope


def _next_step(low: Trial, high: Trial | None) -> float:
    """Between the brackets by a cubic, kept off their ends; beyond `low` if there is no `high`."""
    if high is None:
        return 4.0 * low.t
    width = high.t - low.t
    t = low.t + width * _cubic_minimum(low, high, width)
    return min(max(t, low.t + 0.1 * width), high.t - 0.1 * width)


def _cubic_minimum(low: Trial, high: Trial, width: float) -> float:
    """Minimum of the cubic with the values and slopes of both ends, as a part of the width."""
    if not (math.isfinite(high.value) and math.isfinite(high.slope)):
        return 0.1
    a, b = low.slope * width, high.slope * width
    d = a + b - 3.0 * (high.value - low.value)
    root = math.sqrt(max(d * d - a * b, 0.0))
    bottom = b - a + 2.0 * root
    return 1.0 - (b + root - d) / bottom if bottom > 0.0 else 0.5
