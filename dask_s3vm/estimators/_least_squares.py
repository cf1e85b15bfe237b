"""What RLSC, S2RLSC and maximum margin clustering share: kernels, seeds, wide rows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dask_s3vm.estimators._kernel import KernelParameters
from dask_s3vm.features import KernelMap, fit_kernel_map

#: The largest matrix to be decomposed for the linear kernel, unless landmarks are chosen.
LARGEST = 4096


class LeastSquaresParameters(KernelParameters):
    """Least squares decompose a square matrix with a row for each column of X, or for each row.

    With ``kernel="linear"`` the model is exact as long as X has up to 4,096 columns, or up to 4,096
    rows. If it has more of both, as large text has, landmarks are chosen as with other kernels:
    `n_components` rows. In all cases `coef_` is over the columns of X.
    """

    coef_: np.ndarray

    def _fit_kernel_map(self, X: Any) -> KernelMap | None:
        if not self._is_linear:
            return super()._fit_kernel_map(X)
        n_rows, n_columns = X.shape
        # all rows as landmarks: a matrix of the size of their number
        if n_rows <= min(LARGEST, 3 * n_columns // 4):
            return fit_kernel_map(X, "linear", n_components=None)
        if n_columns <= LARGEST:
            return None
        return fit_kernel_map(
            X, "linear", n_components=self.n_components, random_state=self.random_state
        )

    def _to_columns(self) -> None:
        """Bring a linear model of features back to the columns of X."""
        if self._is_linear and self.kernel_map_ is not None:
            of_landmarks = self.coef_ @ self.kernel_map_.basis.T
            self.coef_ = np.ascontiguousarray((self.kernel_map_.landmarks.T @ of_landmarks.T).T)
            self.kernel_map_ = None


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
