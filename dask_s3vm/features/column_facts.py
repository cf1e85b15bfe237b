"""What is known of a column of numbers, in a form that can be put together from pieces."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

__all__ = ["SCALES", "Moments", "moments_of", "put_together", "scaling"]

#: Ways to scale numbers; see `TableEncoder`.
SCALES = ("unit", "maxabs", "std", "none")


@dataclass(frozen=True)
class Moments:
    """Range, mean and sum of squared deviations of some numbers.

    Attributes
    ----------
    count : int
        How many numbers, missing ones left out.
    low, high : float
        Smallest and largest one.
    mean : float
        Their mean.
    squares : float
        Sum of ``(x - mean)**2``.
    """

    count: int = 0
    low: float = math.inf
    high: float = -math.inf
    mean: float = 0.0
    squares: float = 0.0


def moments_of(values: np.ndarray) -> Moments:
    """Look at some numbers; NaN stands for a missing one."""
    held = values[~np.isnan(values)]
    if held.size == 0:
        return Moments()
    mean = float(held.mean())
    squares = float(np.square(held - mean).sum())
    return Moments(int(held.size), float(held.min()), float(held.max()), mean, squares)


def put_together(parts: Iterable[Moments]) -> Moments:
    """Return the moments of all numbers from those of pieces (Chan, Golub and LeVeque 1979)."""
    count, low, high, mean, squares = 0, math.inf, -math.inf, 0.0, 0.0
    for part in parts:
        if part.count == 0:
            continue
        total = count + part.count
        step = part.mean - mean
        mean += step * part.count / total
        squares += part.squares + step * step * count * part.count / total
        count = total
        low, high = min(low, part.low), max(high, part.high)
    return Moments(count, low, high, mean, squares)


def scaling(moments: Moments, scale: str) -> tuple[float, float]:
    """Return offset and factor of a column: it becomes ``(x - offset) * factor``."""
    if moments.count == 0 or scale == "none":
        return 0.0, 1.0
    if scale == "unit":
        return moments.low, _inverse(moments.high - moments.low)
    if scale == "maxabs":
        return 0.0, _inverse(max(abs(moments.low), abs(moments.high)))
    return 0.0, _inverse(math.sqrt(moments.squares / moments.count))


def _inverse(width: float) -> float:
    """Return 1 / width; 1 where a column has one value only, or the inverse is no number."""
    return 1.0 / width if width > 0 and math.isfinite(1.0 / width) else 1.0
