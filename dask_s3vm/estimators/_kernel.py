"""Parameters of estimators that choose a kernel, and what is made of them."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from dask_s3vm.estimators._parameters import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    fitted,
    parameter,
    parametrized,
)
from dask_s3vm.features import KernelMap, check_kernel, fit_kernel_map
from dask_s3vm.features.kernel_map import KERNELS

#: What there is to choose from.
CHOICES = (
    '"linear", "rbf", "poly", "laplacian", ...: see `dask_s3vm.features.fit_kernel_map`, also for '
    "the parameters after it."
)


@parametrized
class KernelParameters:
    """Base of estimators with a kernel.

    See `dask_s3vm.features.fit_kernel_map` for what the parameters mean.
    """

    kernel: str | Callable[..., float] = parameter(
        "str or callable",
        f"{CHOICES} Kernels other than the linear one are computed with landmark rows.",
        [StrOptions({*KERNELS}), callable],
        default="linear",
    )
    n_components: int | None = parameter(
        "int or None",
        "Number of landmarks; None: all rows, the exact kernel.",
        [COUNT, None],
        default=500,
    )
    sigma: float | str = parameter(
        'float or "scale"',
        'Width of the RBF kernel; "scale": a fifth of the diagonal of the ranges of the columns.',
        [POSITIVE, StrOptions({"scale"})],
        default="scale",
    )
    gamma: float | None = parameter(
        "float or None",
        "1 / (2 sigma^2), and the like for other kernels.",
        [POSITIVE, None],
        default=None,
    )
    degree: float = parameter(
        "float", "Degree of the polynomial kernel.", [NOT_NEGATIVE], default=3
    )
    coef0: float = parameter(
        "float",
        "Constant of the polynomial and the sigmoid kernel.",
        [Interval(Real, None, None, closed="neither")],
        default=1.0,
    )
    kernel_params: dict[str, Any] | None = parameter(
        "dict or None", "Parameters of a callable kernel.", [dict, None], default=None
    )
    random_state: Any = parameter(
        "int, numpy Generator or RandomState, or None",
        "Draws the landmarks, and the random starts of a search where there are any. An int gives "
        "the same model every time.",
        ["random_state", np.random.Generator],
        default=None,
    )

    kernel_map_: KernelMap | None = fitted(
        "KernelMap or None",
        "Makes the features that `coef_` is over; None for the linear kernel.",
    )

    @property
    def _is_linear(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "linear"

    def _check_kernel(self) -> None:
        """Refuse parameters that do not go together."""
        if not self._is_linear:
            check_kernel(self.kernel, self.sigma, self.gamma, self.kernel_params)

    def _fit_kernel_map(self, X: Any) -> KernelMap | None:
        """Make the map from rows of X; None for the linear kernel, which needs none."""
        if self._is_linear:
            return None
        return fit_kernel_map(
            X,
            self.kernel,
            n_components=self.n_components,
            sigma=self.sigma,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
            random_state=self.random_state,
        )
