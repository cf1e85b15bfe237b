"""Root of an increasing function that is given by rounds."""

import math
from collections.abc import Callable


def increasing_root(
    function: Callable[[float], tuple[float, float]],
    start: float,
    width: float,
    tol: float,
    max_rounds: int = 200,
) -> float:
    """Find x with |f(x)| <= tol for an increasing f, by Newton's method kept in a bracket.

    Parameters
    ----------
    function : x -> (f(x), f'(x)).
    start : first guess.
    width : scale on which f changes; steps outwards begin with it and double.
    tol : bound on |f(x)|.
    max_rounds : most calls of `function`; the bracket has then shrunk to nothing.
    """
    low, high = -math.inf, math.inf
    x, reach = start, width
    for _ in range(max_rounds):
        value, slope = function(x)
        if abs(value) <= tol:
            break
        low, high = (low, x) if value > 0 else (x, high)
        if math.isfinite(high - low) and high - low <= 1e-15 * max(abs(low), abs(high)):
            break
        x = _next(x, value, slope, low, high, reach)
        reach *= 2.0
    return x


def _next(x: float, value: float, slope: float, low: float, high: float, reach: float) -> float:
    """Newton's point where it can be trusted, else the middle, else a step outwards."""
    newton = x - value / slope if slope > 0 else math.nan
    if low > -math.inf and high < math.inf:
        return newton if low < newton < high else 0.5 * (low + high)
    if abs(newton - x) <= reach:  # false for nan
        return newton
    return x - math.copysign(reach, value)
