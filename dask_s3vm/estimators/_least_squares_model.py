"""What RLSC, S2RLSC and MaxMarginClustering share: features of kernels, settings of searches."""

from typing import Any, ClassVar

import numpy as np

from dask_s3vm.engine.computing import compute_all
from dask_s3vm.engine.ingest import is_dask
from dask_s3vm.estimators._linear import LinearModel
from dask_s3vm.exceptions import warn
from dask_s3vm.features import KernelMap, fit_kernel_map
from dask_s3vm.features.landmarks import narrow_rows, take_rows
from dask_s3vm.labels import Tally, as_labels, find_classes, is_unlabeled
from dask_s3vm.methods.restarts import SearchSettings
from dask_s3vm.numerics.random import seed_sequence
from dask_s3vm.parameters.facts import MethodFacts
from dask_s3vm.parameters.fields import parametrized
from dask_s3vm.parameters.shared import LeastSquaresKernel
from dask_s3vm.problems.spectrum import is_graded

#: The largest matrix to be decomposed for the linear kernel, unless landmarks are chosen.
LARGEST = 4096

#: Most labeled rows, and most numbers of features (1 GiB), for which these rows are landmarks.
MOST_LABELED = 2048
MOST_FEATURES = 1 << 27

#: Of columns whose squares together are below this part of the largest one's, products of rows keep
#: fewer than four digits.
LOST = 1e-12


@parametrized
class LeastSquaresModel(LeastSquaresKernel, LinearModel):
    """Least squares decompose a square matrix with a row for each column of X, or for each row.

    With ``kernel="linear"`` the model is exact as long as X has up to 4,096 columns, or up to 4,096
    rows. If it has more of both, as large text has, landmarks are chosen as with other kernels:
    `n_components` rows, and the labeled ones beside them where memory allows it. The supervised
    model is a sum of these: without them it is another one, and a worse one. A model that depends
    on the labeled rows alone takes them, and no others, and is exact. In all cases `coef_` is over
    the columns of X.
    """

    facts: ClassVar[MethodFacts]

    _in_lanes = False  # one decomposition, and reduced rows in the shards, serve all classes

    def _fit_kernel_map(self, X: Any, y: Any = None) -> KernelMap | None:
        if not self._is_linear:
            return super()._fit_kernel_map(X, y)
        n_rows, n_columns = X.shape
        most = min(LARGEST, 3 * n_columns // 4)
        alone = None
        if self.facts.supervised and not self.safe and (n_rows <= most or n_columns > LARGEST):
            alone = self._labeled_rows(X, y, min(MOST_FEATURES // max(n_rows, 1), most))
        # all rows as landmarks: a matrix of the size of their number
        if n_rows <= most or alone is not None:
            rows = X if alone is None else take_rows(X, alone)
            kernel_map = fit_kernel_map(rows, "linear", n_components=None)
            if n_columns > LARGEST:
                return _told_of_lost_columns(kernel_map)
            if not _has_graded_columns(kernel_map.landmarks):
                return kernel_map
        if n_columns <= LARGEST:
            return None
        return _told_of_lost_columns(
            fit_kernel_map(
                X, "linear", n_components=self.n_components, random_state=self.random_state,
                always=self._labeled_landmarks(X, y),
            )
        )  # fmt: skip

    def _labeled_landmarks(self, X: Any, y: Any) -> np.ndarray | None:
        """Numbers of the labeled rows, if there is room for these as landmarks; else None."""
        if self.n_components is None:
            return None
        return self._labeled_rows(X, y, MOST_FEATURES // X.shape[0] - self.n_components)

    def _labeled_rows(self, X: Any, y: Any, most: float) -> np.ndarray | None:
        """Numbers of the labeled rows, if there are at most so many; else None.

        Costs: y is computed.
        """
        if y is None or not most >= 1:  # NaN where the number of rows is not known
            return None
        blocks = compute_all(list(y.to_delayed().ravel())) if is_dask(y) else [y]
        labels = as_labels(np.concatenate([np.asarray(block) for block in blocks]))
        mark = getattr(self, "unlabeled", None)
        classes = find_classes(Tally.of(labels), mark, self.facts.supervised)
        labeled = np.flatnonzero(~is_unlabeled(labels, mark, classes))
        return labeled if 0 < len(labeled) <= min(most, MOST_LABELED) else None

    def _to_columns(self) -> None:
        """Bring a linear model of features back to the columns of X."""
        if self._is_linear and self.kernel_map_ is not None:
            of_landmarks = self.coef_ @ self.kernel_map_.basis.T
            self.coef_ = np.ascontiguousarray((self.kernel_map_.landmarks.T @ of_landmarks.T).T)
            self.kernel_map_ = None


def _has_graded_columns(rows: Any) -> bool:
    """Whether products of rows lose the small columns; those of columns do not."""
    rows = narrow_rows(rows)
    squares = np.asarray((rows * rows).sum(axis=0), dtype=np.float64) / rows.shape[0]
    means = np.asarray(rows.mean(axis=0, dtype=np.float64))
    return is_graded(squares, squares - np.square(means))


def _told_of_lost_columns(kernel_map: KernelMap) -> KernelMap:
    """Warn if one column is so large that products of rows keep nothing of the others."""
    rows = narrow_rows(kernel_map.landmarks)
    squares = np.asarray((rows * rows).sum(axis=0), dtype=np.float64).ravel()
    largest = int(squares.argmax())
    others = float(np.add.reduce(np.delete(squares, largest)))
    if others < LOST * squares[largest]:
        warn(
            f"column {largest} of X is so large that the others are lost to rounding: with more "
            f"than {LARGEST:,} columns, least squares work on products of rows; divide the columns "
            "by their ranges, for example by dask_s3vm.features.UnitScaler",
            UserWarning,
        )
    return kernel_map


def search_settings(parameters: Any) -> SearchSettings:
    """How to search."""
    population = check_population(parameters.population)
    seed = seed_sequence(parameters.random_state)
    return SearchSettings(parameters.n_restarts, population, parameters.patience, seed)


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
