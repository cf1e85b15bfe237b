"""L-BFGS: quasi-Newton steps from the last m changes of point and gradient (Nocedal & Wright, 7.2).

Directions come from inner products of the kept vectors rather than from the usual two loops over
them: a step reads each kept vector twice, once for its products with the new gradient and the
step, once for the direction.

scipy's L-BFGS-B is not used: on wide data it takes longer than a pass over the rows (it keeps
account of bounds that are not there), and its bits depend on the threads of BLAS.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dask_s3vm.numerics.linalg import combine, products, two_loops
from dask_s3vm.solvers.newton import dot, norm

# A step along a direction that lowers a smooth function enough (Nocedal & Wright, section 3.1) ---


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


#: A pair is kept if s.y is above this part of y.y: the curvature along s is positive for sure.
POSITIVE = 1e-12

#: A step that is shorter than this part of x is lost in rounding.
SMALLEST_STEP = 1e-15


@dataclass(frozen=True)
class LBFGSResult:
    """Where the iteration ended.

    termination : "converged"; "precision" where rounding allowed no further step; "max_iter".
    """

    x: np.ndarray
    value: float
    gradient: np.ndarray
    n_iter: int
    n_evaluations: int
    termination: str


def memory_size(n: int) -> int:
    """Pairs to keep for vectors of length n: 50, or 10 where more would not fit a cache.

    On wide data, where steps are dear, fewer pairs take hardly more of them. At most 1 GiB, but
    for 3 pairs.
    """
    return min(50, max(10, (1 << 18) // n), max(3, (1 << 26) // n))


class Memory:
    """The last `size` changes s of the point and y of the gradient, with their inner products.

    Row 2 i of `_vectors` is an s, row 2 i + 1 its y; pairs are written over in turn. H0 = scale I.
    """

    def __init__(self, size: int, n: int) -> None:
        self._vectors = np.empty((2 * size, n))
        self._inner = np.zeros((2 * size, 2 * size))
        self._order: list[int] = []
        self._size = size
        self.scale: float | None = None

    def __len__(self) -> int:
        return len(self._order)

    def clear(self) -> None:
        """Forget all pairs, but not the scale."""
        self._order = []

    def products_with(self, gradient: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Products of all kept vectors with a gradient and with a step, (2 k, 2)."""
        out = np.zeros((2 * len(self), 2))
        products(self._vectors, gradient, step, out)
        return out

    def direction(self, gradient: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Return -H gradient, given the products of the kept vectors with the gradient."""
        scale = self.scale
        if scale is None:  # nothing is known yet: a step of length 1 at most
            scale = min(1.0, 1.0 / norm(gradient))
        a = np.zeros(2 * len(self))
        two_loops(self._inner, slopes, np.array(self._order, dtype=np.int64), scale, a)
        out = -scale * gradient
        combine(self._vectors, -a, out)
        return out

    def add(
        self,
        s: np.ndarray,
        y: np.ndarray,
        with_s: np.ndarray,
        slopes: np.ndarray,
        new_slopes: np.ndarray,
        gradient: np.ndarray,
    ) -> np.ndarray:
        """Keep a pair, in the place of the oldest if need be.

        Parameters
        ----------
        s, y : changes of point and gradient.
        with_s, slopes, new_slopes : products of the vectors kept so far with s, and with the
            gradient before and after the step.
        gradient : the gradient after it.

        Returns
        -------
        Products of the vectors kept from now on with the gradient after the step.
        """
        curvature, square = dot(s, y), dot(y, y)
        if not curvature > POSITIVE * square:
            return new_slopes
        place = len(self) if len(self) < self._size else self._order.pop(0)
        self._order.append(place)
        i, j, n = 2 * place, 2 * place + 1, len(with_s)
        self._vectors[i], self._vectors[j] = s, y
        self._inner[i, :n] = self._inner[:n, i] = with_s
        self._inner[j, :n] = self._inner[:n, j] = new_slopes - slopes
        self._inner[i, i], self._inner[j, j] = dot(s, s), square
        self._inner[i, j] = self._inner[j, i] = curvature
        self.scale = curvature / square
        kept = new_slopes if j < n else np.append(new_slopes, (0.0, 0.0))
        kept[i], kept[j] = dot(s, gradient), dot(y, gradient)
        return kept


def minimize(
    function: Function,
    x: np.ndarray,
    memory: Memory,
    tol: float,
    enough: Callable[[float, np.ndarray], bool],
    max_evaluations: int,
    known: tuple[float, np.ndarray] | None = None,
    least_steps: int = 0,
) -> LBFGSResult:
    """Look for a local minimum from x.

    Stops where the last step brought, and the next one promises, a relative decrease of at most
    `tol`; where value and gradient are good enough; or where rounding allows no further step.
    Steps obey Wolfe's conditions, so the value never rises.

    Parameters
    ----------
    function : see `wolfe.Function`.
    x : where to start.
    memory : the scale of a similar function, if there is one, is made use of; pairs are not. They
        are there to be looked at after it.
    tol : see above.
    enough : tells by value and gradient of a point whether to stop there.
    max_evaluations : most evaluations.
    known : value and gradient at x, where they are known; counted as one evaluation.
    least_steps : steps before a small decrease counts: a first step along the gradient promises
        little where the function is much flatter in other directions.
    """
    memory.clear()
    here = Trial(0.0, *(function(x) if known is None else known), 0.0)
    slopes = np.zeros(0)
    decrease = math.inf if memory.scale is None else 0.0
    n_iter, n_evaluations = 0, 1
    termination = "max_iter"
    while n_evaluations < max_evaluations:
        if enough(here.value, here.gradient):
            termination = "converged"
            break
        direction = memory.direction(here.gradient, slopes)
        slope = dot(direction, here.gradient)
        small = max(-0.5 * slope, decrease) <= tol * abs(here.value)
        if small and n_iter >= least_steps:
            termination = "converged"
            break
        if norm(direction) <= SMALLEST_STEP * norm(x):
            termination = "precision"
            break
        found, trials = wolfe_step(
            function, x, here, direction, slope, max_evaluations - n_evaluations
        )
        n_evaluations += trials
        if found is None:
            if n_evaluations < max_evaluations and len(memory):
                memory.clear()  # once more, along the gradient itself
                slopes, decrease = np.zeros(0), math.inf
                continue
            if n_evaluations < max_evaluations:
                termination = "precision"
            break
        step = found.t * direction
        with_both = memory.products_with(found.gradient, step)
        change = found.gradient - here.gradient
        slopes = memory.add(
            step, change, with_both[:, 1], slopes, with_both[:, 0].copy(), found.gradient
        )
        decrease = here.value - found.value
        x, here = x + step, found
        n_iter += 1
    return LBFGSResult(x, here.value, here.gradient, n_iter, n_evaluations, termination)
