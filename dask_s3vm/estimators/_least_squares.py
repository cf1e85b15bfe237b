"""What RLSC, S2RLSC and maximum margin clustering share: kernels, seeds, wide rows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dask_s3vm.estimators._kernel import KernelParameters
from dask_s3vm.features import KernelMap, fit_kernel_map

#: The linear kernel is computed in the space of the columns up to this many, with landmarks beyond.
MOST_COLUMNS = 4096


class LeastSquaresParameters(KernelParameters):
    """Least squares decompose a (d + 1) x (d + 1) matrix, so rows must not be too wide.

    With ``kernel="linear"`` the columns of X are used as they are, exactly, up to 4,096 of them.
    Wider rows, as of text, go through landmarks as with other kernels: `n_components` rows, or all
    of them (None), which is exact again.
    """

    def _fit_kernel_map(self, X: Any) -> KernelMap | None:
        if self._is_linear and X.shape[1] > MOST_COLUMNS:
            return fit_kernel_map(
                X, "linear", n_components=self.n_components, random_state=self.random_state
            )
        return super()._fit_kernel_map(X)


def seed_of(random_state: Any) -> np.random.SeedSequence:
    """The root of all random streams of a fit."""
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(2**31)))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63)))
    return np.random.SeedSequence(int(random_state))


def check_population(population: Any) -> tuple[int, int]:
    """(mu, nu) of a search, checked."""
    try:
        mu, nu = (int(number) for number in population)
    except (TypeError, ValueError):
        mu = nu = 0
    if mu < 1 or nu < 1:
        raise ValueError(
            f"population must be two numbers >= 1, parents and children, got {population!r}"
        )
    return mu, nu


Callbacks = Callable[..., None] | list[Callable[..., None]] | None
