"""What all linear estimators of this package do alike: take rows in, start, keep what was found."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.estimators._inputs import take_in
from dask_s3vm.estimators._kernel import KernelParameters
from dask_s3vm.estimators._labels import class_costs, find_classes
from dask_s3vm.estimators._linear import LinearClassifier
from dask_s3vm.estimators._record import check_resumable, recorded
from dask_s3vm.estimators._resident import Resident
from dask_s3vm.estimators._shared import LabelParameters
from dask_s3vm.features import KernelMap
from dask_s3vm.interrupts import warn
from dask_s3vm.methods.base import ClassTotals, History, LinearSolution, class_totals


@dataclass(frozen=True)
class Placed:
    """Rows in an engine, and what is known of their labels.

    costs : cost of a labeled row by its class.
    start : (k, d + 1) weights to start from, in the user's column order, or None.
    block_rows : number of rows of each block of X.
    history : of this fit; knows the state of an earlier one to go on from, if there is one.
    """

    engine: Engine
    classes: np.ndarray
    totals: ClassTotals
    costs: np.ndarray
    start: np.ndarray | None
    block_rows: tuple[int, ...]
    history: History

    @property
    def positives(self) -> list[int]:
        """Class numbers that are +1 in turn: one for two classes, else each of them."""
        return [1] if len(self.classes) == 2 else list(range(len(self.classes)))

    def internal_start(self, problem: int) -> np.ndarray | None:
        """Weights to start binary problem number `problem` from, in internal order."""
        return None if self.start is None else self.engine.layout.to_internal(self.start[problem])


def n_problems(classes: np.ndarray) -> int:
    """Number of binary problems: one for two classes, else one for each."""
    return 1 if len(classes) == 2 else len(classes)


class LinearS3VM(KernelParameters, LabelParameters, LinearClassifier):
    """Base of the classifiers; parameters are those that all of them have.

    With a kernel the methods are linear in the features of the rows; see `features.kernel_map`.
    """

    class_weight: dict[Any, float] | str | None
    warm_start: bool
    max_iter: int

    #: what `max_iter` counts
    _counted = "Newton steps"

    @contextmanager
    def _placed(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        supervised: bool = False,
        make_map: Callable[[Any], KernelMap | None] | None = None,
        lams: Sequence[float] = (),
    ) -> Iterator[Placed]:
        """Check parameters and data, and have the rows in an engine for a while.

        `make_map` is for estimators that have their own way to make a kernel map of checked rows;
        `lams` tell a path of models from a single one.

        Sets: n_features_in_, feature_names_in_, classes_, n_rounds_, kernel_map_.
        """
        self._validate_params()
        self._check_kernel()
        check_resumable(self)
        if isinstance(X, Resident):
            with self._placed_already(X, make_map, lams) as placed:
                yield placed
            return
        start = self._start()
        if make_map is None:
            make_map = self._fit_kernel_map if start is None else self._last_kernel_map
        source, kernel_map = take_in(self, X, y, sample_weight, make_map)
        try:
            classes = find_classes(source.summary.labels, self.unlabeled, supervised)
            if start is not None:
                self._check_start(classes, self.n_features_in_)
            engine = source.place(classes)
        finally:
            source.close()
        try:
            totals = class_totals(engine, len(classes))
            costs = class_costs(classes, totals, self.class_weight)
            about = {"lams": list(lams), "weights": start}
            with recorded(self, engine, about, n_problems(classes)) as history:
                yield Placed(
                    engine, classes, totals, costs, start, source.summary.block_rows, history
                )
        finally:
            engine.close()
        self.classes_ = classes
        self.kernel_map_ = kernel_map
        self.n_rounds_ = engine.rounds

    @contextmanager
    def _placed_already(
        self,
        X: Resident,
        make_map: Callable[[Any], KernelMap | None] | None,
        lams: Sequence[float],
    ) -> Iterator[Placed]:
        """As `_placed`, on rows that are in an engine and stay there."""
        X.tell(self)
        if make_map is not None and X.rows is not None:
            make_map(X.rows)
        engine, rounds = X.engine, X.engine.rounds
        totals = class_totals(engine, len(X.classes))
        costs = class_costs(X.classes, totals, self.class_weight)
        about = {"lams": list(lams), "weights": None}
        with recorded(self, engine, about, n_problems(X.classes)) as history:
            yield Placed(engine, X.classes, totals, costs, None, X.block_rows, history)
        self.classes_ = X.classes
        self.kernel_map_ = X.kernel_map
        self.n_rounds_ = engine.rounds - rounds

    def _resident_map(self, X: Any) -> KernelMap | None:
        """Kernel map with which rows are placed for many fits."""
        return self._fit_kernel_map(X)

    def _wants_rows(self, X: Any) -> bool:
        """Whether a fit needs the rows themselves beside the placed ones."""
        return False

    def _start(self) -> np.ndarray | None:
        """Weights of the last fit, if they are wanted."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        return np.column_stack([self.coef_, self.intercept_])

    def _last_kernel_map(self, X: Any) -> KernelMap | None:
        """Return the map of the last fit: its weights mean nothing with another one."""
        last = getattr(self, "kernel_map_", None)
        last_kernel = "linear" if last is None else last.kernel
        if last_kernel != self.kernel:
            raise ValueError(
                f"warm_start: the last fit had kernel={last_kernel!r}, this one has "
                f"{self.kernel!r}; set warm_start=False or keep the kernel"
            )
        if last is not None and X.shape[1] != last.n_features:
            self._check_start(self.classes_, X.shape[1])
        return last

    def _check_start(self, classes: np.ndarray, n_features: int) -> None:
        """Refuse to start from a model of other data, which stays as it was."""
        last = getattr(self, "kernel_map_", None)
        self.n_features_in_ = self.coef_.shape[1] if last is None else last.n_features
        if n_features != self.n_features_in_ or not np.array_equal(self.classes_, classes):
            raise ValueError(
                f"warm_start: the last fit had classes {self.classes_.tolist()} and "
                f"{self.n_features_in_} features, this one has {classes.tolist()} and "
                f"{n_features}; set warm_start=False or keep the data's form"
            )

    def _keep(self, solution: LinearSolution, history: list[dict[str, Any]]) -> None:
        """Set the fitted attributes, and warn where a fit did not converge.

        Sets: coef_, intercept_, objective_, n_iter_, termination_, history_.
        """
        self.coef_ = np.ascontiguousarray(solution.w[:, :-1])
        self.intercept_ = solution.w[:, -1].copy()
        binary = len(solution.w) == 1
        self.objective_ = float(solution.objective[0]) if binary else solution.objective
        self.n_iter_ = max(1, int(solution.n_iter.max()))
        worst = max(solution.termination, key=("converged", "precision", "max_iter").index)
        self.termination_ = worst
        self.history_ = history
        if worst == "max_iter":
            warn(
                f"{type(self).__name__} did not converge in max_iter={self.max_iter} "
                f"{self._counted}; increase max_iter, tol or lam",
                ConvergenceWarning,
            )
