"""Many fits on the same rows: rows placed once, and fits that share work.

Candidates that differ in `lam` alone make a *path*. What is shared along it:

RLSC, S2RLSC           one eigendecomposition
L2SVM                  each solution is the start of the next smaller lam
TSVM, DA, QN, S2RLSC   with `seeded`: see `methods.base`

A path is walked from the largest lam to the smallest, whatever the order of the candidates. Without
seeds the results are those of single fits, to rounding and `tol`. The last four end in one of many
local minima, and a seed may lead to another one than a single fit finds.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone

from dask_s3vm.engine.local import LocalEngine, SharedRows
from dask_s3vm.estimators._base import LinearS3VM, Seeds, fit_path
from dask_s3vm.estimators._fit_rows import place_rows
from dask_s3vm.estimators._rows import PlacedRows, open_rows
from dask_s3vm.parameters.methods import MethodFacts
from dask_s3vm.parameters.shared import KernelParameters

#: Parameters that decide how rows are placed.
OF_PLACING = (
    *KernelParameters.__dataclass_fields__,
    "unlabeled",
    "sharded",
    "scale",
    "fit_intercept",
)

__all__ = [
    "OF_PLACING",
    "PlacedRows",
    "Seeds",
    "SharedRows",
    "facts_of",
    "fit_models",
    "fit_path",
    "placed_once",
    "refit_path",
    "shared_rows",
    "shares_path",
]  # fmt: skip


def facts_of(estimator: Any) -> MethodFacts | None:
    """Facts of an estimator's method; None for an estimator of another package."""
    return getattr(estimator, "facts", None)


@contextmanager
def placed_once(estimator: LinearS3VM, X: Any, y: Any, sample_weight: Any) -> Iterator[PlacedRows]:
    """Have rows in an engine, for many fits of estimators that place them alike."""
    guide: Any = clone(estimator)
    guide._validate_params()
    guide._check_kernel()
    with place_rows(guide, X, y, sample_weight) as placed:
        yield placed


def shared_rows(rows: PlacedRows) -> SharedRows | None:
    """Rows of this process, to be shared by engines; None if they are on workers."""
    return rows.engine.shared_rows() if isinstance(rows.engine, LocalEngine) else None


def shares_path(estimator: Any, seeded: bool) -> bool:
    """Whether candidates that differ in lam alone are better fitted together."""
    facts = facts_of(estimator)
    if facts is None or getattr(estimator, "lam", None) is None:
        return False
    if facts.shares_path:
        return np.ndim(estimator.lam) == 0
    return seeded and facts.takes_seeds


def fit_models(models: Sequence[Any], rows: PlacedRows, seeded: bool) -> None:
    """Fit models of one estimator that differ in lam alone, on placed rows."""
    facts = models[0].facts
    seeds: Seeds | None = {} if seeded and facts.takes_seeds else None
    if facts.shares_path:
        fit_path(models, rows, None, seeds=seeds)
        return
    for model in sorted(models, key=lambda model: -model.lam):
        fit_path([model], rows, None, seeds=seeds)


def refit_path(models: Sequence[Any], X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit a path on all rows and return its last model, as it was found in the search."""
    last = models[-1]
    if last.facts.shares_path:
        fit_path(models, X, y, sample_weight, seeds={})
        return last
    opened = open_rows(X, y)
    with placed_once(last, opened.X, opened.y, sample_weight) as rows:
        fit_models(models, rows, True)
    last.transduction_ = last._complete(opened.X, opened.y, rows.block_rows)
    opened.set_names_on(last)
    return last
