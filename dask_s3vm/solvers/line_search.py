"""Exact line search on a piecewise quadratic."""

from collections.abc import Callable

#: step -> (phi'(step), phi''(step))
Slope = Callable[[float], tuple[float, float]]


def exact_step(
    slope: Slope, slope_at_0: float, slope_at_1: float, tol: float = 1e-9, max_rounds: int = 60
) -> tuple[float, int]:
    """Minimize a strictly convex phi whose phi' is continuous and piecewise linear.

    Newton's method on phi' lands on the root as soon as it starts on the root's own piece;
    kept between points of known sign, it needs a handful of rounds. Sorting all break points,
    as the papers do, costs more than a product with X.

    Parameters
    ----------
    slope : step -> (phi'(step), phi''(step)).
    slope_at_0 : phi'(0) < 0.
    slope_at_1 : phi'(1).
    tol : stop at |phi'(step)| <= tol |phi'(0)|.
    max_rounds : most calls of `slope`.

    Returns
    -------
    step, number of rounds.
    """
    low, high = (0.0, 1.0) if slope_at_1 > 0 else (1.0, float("inf"))
    # start from the secant: exact if phi' is linear between 0 and 1
    step = slope_at_0 / (slope_at_0 - slope_at_1) if slope_at_1 > slope_at_0 else 2.0
    for n_rounds in range(1, max_rounds + 1):
        if not low < step < high:
            step = 2.0 * low if high == float("inf") else 0.5 * (low + high)
        value, curvature = slope(step)
        if abs(value) <= tol * abs(slope_at_0):
            return step, n_rounds
        low, high = (low, step) if value > 0 else (step, high)
        if high < float("inf") and high - low <= 1e-15 * high:
            return step, n_rounds
        step -= value / curvature
    return step, max_rounds
