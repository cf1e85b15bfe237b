"""What RLSC, S2RLSC and maximum margin clustering share: kernels, seeds, wide rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from dask_s3vm.estimators._kernel import CHOICES, KernelParameters
from dask_s3vm.estimators._linear import LinearModel
from dask_s3vm.estimators._parameters import COUNT, parameter, parametrized, redeclared
from dask_s3vm.estimators._shared import ShardedParameters
from dask_s3vm.features import KernelMap, fit_kernel_map

#: The largest matrix to be decomposed for the linear kernel, unless landmarks are chosen.
LARGEST = 4096

#: What `sharded` was called.
PLACEMENT = {"placement": ("sharded", "with False for 'pool' and True for 'shards'")}


@parametrized
class LeastSquaresParameters(KernelParameters, LinearModel):
    """Least squares decompose a square matrix with a row for each column of X, or for each row.

    With ``kernel="linear"`` the model is exact as long as X has up to 4,096 columns, or up to 4,096
    rows. If it has more of both, as large text has, landmarks are chosen as with other kernels:
    `n_components` rows. In all cases `coef_` is over the columns of X.
    """

    kernel: str | Callable[..., float] = redeclared(
        KernelParameters,
        "kernel",
        about=f"{CHOICES} Kernels other than the linear one are computed with landmark rows, and "
        "so is the linear one if X has more than 4,096 columns and more than 4,096 rows; otherwise "
        "it is exact.",
        default="linear",
    )

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


@parametrized
class SearchParameters(ShardedParameters):
    """Parameters of a local search with restarts."""

    n_restarts: int = parameter(
        "int", "Number of searches; in a clustering, per split.", [COUNT], default=50
    )
    population: tuple[int, int] = parameter(
        "(int, int)",
        "Parents and children of the (mu+nu)-EA; (1, 1) takes the rows in turn instead of at "
        "random, which is the fastest.",
        [tuple, list],
        default=(5, 25),
    )
    patience: int | None = parameter(
        "int or None",
        "Stop when so many restarts in a row, by number, have not improved on the best before.",
        [COUNT, None],
        default=None,
    )
    dtype: str = parameter(
        '{"float64", "float32"}',
        'Type of the factor. With "float32" it takes half the memory; sums, and the final model, '
        "are float64 all the same.",
        [StrOptions({"float32", "float64"})],
        default="float64",
    )


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
