"""One restart of a search for labels: what a task of the pool is given, and what it gives.

    minimize F(y) = total - |z|^2,  z = fixed + G^T y

over labels y of the unlabeled rows of which a number within a window is positive (Gieseke et al.,
eq. 10 and 13). `total` is the sum of d_i^2 over all rows, `fixed` the part of the labeled ones.
"""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.kernels.continued import search_from
from dask_s3vm.kernels.flips import row_lengths, squared
from dask_s3vm.kernels.population import search

#: A flip must gain this part of |G_j| |z|: rounding errors are smaller.
GRAIN = 1e-13


@dataclass(eq=False)
class Factor:
    """G of the unlabeled rows, (u, r), and the lengths of its rows."""

    G: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, G: np.ndarray) -> "Factor":
        """Make it of G."""
        G = frozen(np.ascontiguousarray(G))
        return cls(G, frozen(row_lengths(G)))

    def __sizeof__(self) -> int:
        """Tell dask what it really weighs."""
        return object.__sizeof__(self) + self.G.nbytes + self.lengths.nbytes

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore; arrays that came over the wire may start at odd addresses: slower."""
        for name, array in state.items():
            setattr(self, name, frozen(np.require(array, requirements="A")))


class Window(NamedTuple):
    """How many of the unlabeled rows may be positive, and with what probability one starts so."""

    share: float
    low: int
    high: int


class Task(NamedTuple):
    """A binary problem: the labeled rows' part of z, the window, the sum of d_i^2."""

    fixed: np.ndarray
    window: Window
    total: float

    @property
    def grain(self) -> float:
        """See `kernels.flips.round_robin`; |z|^2 is at most `total`."""
        return GRAIN * float(np.sqrt(self.total))


class Found(NamedTuple):
    """What a restart has found: labels as bits, z, F, F of its start, and its work."""

    bits: np.ndarray
    z: np.ndarray
    fitness: float
    start: float
    flips: int
    changes: int
    seconds: float


def window_of(n_rows: int, share: float, tolerance: float) -> Window:
    """Counts k with |k / n - share| < tolerance; the nearest one where there is none."""
    counts = np.arange(n_rows + 1)
    distance = np.abs(counts / max(n_rows, 1) - share)
    valid = np.flatnonzero(distance < tolerance)
    if len(valid) == 0:
        valid = np.array([int(distance.argmin())])
    return Window(share, int(valid[0]), int(valid[-1]))


def restart(
    factor: Factor,
    task: Task,
    population: tuple[int, int],
    seed: int,
    start: np.ndarray | None = None,
) -> Found:
    """Search from random labels by the (mu+nu)-EA, or go on from `start` (as bits).

    Depends on its arguments alone.
    """
    began = time.perf_counter()
    share, low, high = task.window
    problem, end = (factor.G, factor.lengths, task.fixed), (np.uint64(seed), task.grain)
    if start is None:
        found = search(*problem, share, low, high, *population, *end)
    else:
        bits = np.unpackbits(start, count=len(factor.lengths))
        given = np.where(bits, 1, -1).astype(np.int8)
        found = search_from(*problem, given, low, high, *end)
    labels, z, first, flips, changes = found
    return Found(
        np.packbits(labels > 0),
        z,
        task.total - squared(z),
        task.total - first,
        flips,
        changes,
        time.perf_counter() - began,
    )
