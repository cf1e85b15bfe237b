"""Parameters of estimators that choose a kernel, and what is made of them."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from dask_s3vm.features import KernelMap, check_kernel, fit_kernel_map
from dask_s3vm.features.kernel_map import KERNELS


class KernelParameters:
    """Base of estimators with a kernel: they have these parameters, and `kernel_map_` once fitted.

    See `dask_s3vm.features.fit_kernel_map` for what the parameters mean. An estimator adds
    `_kernel_constraints` to its own, and the names to its `__init__`.
    """

    kernel: str | Callable[..., float]
    n_components: int | None
    sigma: float | str
    gamma: float | None
    degree: float
    coef0: float
    kernel_params: dict[str, Any] | None
    random_state: Any

    kernel_map_: KernelMap | None

    _kernel_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions({*KERNELS}), callable],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "sigma": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "random_state": ["random_state", np.random.Generator],
    }

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
