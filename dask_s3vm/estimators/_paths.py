"""Many fits on the same rows: rows placed once, and fits that share work.

Candidates that differ in `lam` alone make a *path*. What is shared along it:

RLSC, S2RLSC           one eigendecomposition
L2SVM                  one set-up of the rows; each solution is the seed of the next smaller lam
TSVM, DA, QN, S2RLSC   with `seeded`: see `methods.seeds`

A path is walked from the largest lam to the smallest, whatever the order of the candidates. Without
seeds the results are those of single fits, to rounding and `tol`. The last four end in one of many
local minima, and a seed may lead to another one than a single fit finds.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone

from dask_s3vm.engine.local import HeldRows, LocalEngine
from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.estimators._inputs import take_in
from dask_s3vm.estimators._l2svm import L2SVM, fit_l2svm_path
from dask_s3vm.estimators._labels import find_classes
from dask_s3vm.estimators._resident import Resident
from dask_s3vm.estimators._rlsc import RLSC, fit_rlsc_path
from dask_s3vm.estimators._s2rlsc import S2RLSC, fit_s2rlsc_path
from dask_s3vm.estimators._transductive import TransductiveS3VM
from dask_s3vm.features.columns import all_rows
from dask_s3vm.methods.seeds import Seed, Seeds

#: Parameters that decide how rows are placed.
OF_PLACING = (
    "kernel",
    "n_components",
    "sigma",
    "gamma",
    "degree",
    "coef0",
    "kernel_params",
    "random_state",
    "unlabeled",
    "sharded",
)

__all__ = ["OF_PLACING", "HeldRows", "Resident", "Seed", "Seeds", "fit_path", "placed_once"]


def is_supervised(estimator: Any) -> bool:
    """Whether an estimator leaves unlabeled rows out."""
    return isinstance(estimator, (L2SVM, RLSC))


@contextmanager
def placed_once(estimator: LinearS3VM, X: Any, y: Any, sample_weight: Any) -> Iterator[Resident]:
    """Have rows in an engine, for many fits of estimators that place them alike."""
    guide: Any = clone(estimator)
    guide._validate_params()
    guide._check_kernel()
    source, kernel_map = take_in(guide, X, y, sample_weight, guide._resident_map)
    try:
        classes = find_classes(source.summary.labels, guide.unlabeled, is_supervised(guide))
        engine = source.place(classes)
    finally:
        source.close()
    try:
        rows = all_rows(X) if guide._wants_rows(X) else None
        yield Resident(
            engine,
            classes,
            guide.n_features_in_,
            getattr(guide, "feature_names_in_", None),
            kernel_map,
            source.summary.block_rows,
            rows,
        )
    finally:
        engine.close()


def held_rows(rows: Resident) -> HeldRows | None:
    """Rows of this process, to be shared by engines; None if they are on workers."""
    return rows.engine.held() if isinstance(rows.engine, LocalEngine) else None


def has_seeds(estimator: Any) -> bool:
    """Whether the model found with a seed may be another one than without."""
    return isinstance(estimator, (S2RLSC, TransductiveS3VM))


def goes_in_turn(estimator: Any) -> bool:
    """Whether the fits of a seeded path come one by one, and hand on seeds."""
    return isinstance(estimator, TransductiveS3VM)


def is_in_kernels(estimator: Any) -> bool:
    """Whether fits on small data spend their time in kernels, and so can share a process."""
    return isinstance(estimator, S2RLSC)


def has_path(estimator: Any, seeded: bool) -> bool:
    """Whether candidates that differ in lam alone are better fitted together."""
    if isinstance(estimator, (L2SVM, S2RLSC, RLSC)):
        return np.ndim(estimator.lam) == 0
    return seeded and isinstance(estimator, TransductiveS3VM)


def fit_path(models: Sequence[Any], rows: Any, seeded: bool) -> None:
    """Fit models of one estimator that differ in lam alone, on placed rows."""
    models = list(models)
    if isinstance(models[0], L2SVM):
        fit_l2svm_path(models, rows, None, None)
    elif isinstance(models[0], RLSC):
        fit_rlsc_path(models, rows, None, None)
    elif isinstance(models[0], S2RLSC):
        fit_s2rlsc_path(clone(models[0]), models, rows, None, None, seeded)
    elif seeded:
        _fit_in_turn(models, rows)
    else:
        for model in models:
            model.fit(rows, None)


def _fit_in_turn(models: list[Any], rows: Resident) -> None:
    """Fit models from the largest lam to the smallest, each with the seeds of the last."""
    seeds: Seeds = {}
    for model in sorted(models, key=lambda model: -model.lam):
        fit_seeded(model, rows, seeds)


def fit_seeded(model: Any, rows: Resident, seeds: Seeds) -> None:
    """Fit a model with seeds of a larger lam, which it replaces by its own."""
    model._seeds = seeds
    try:
        model.fit(rows, None)
    finally:
        del model._seeds


def refit_path(models: Sequence[Any], X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit a path on all rows and return its last model, as it was found in the search."""
    models = list(models)
    last = models[-1]
    if isinstance(last, S2RLSC):
        fit_s2rlsc_path(clone(last), models, X, y, sample_weight, True)
        return last
    with placed_once(last, X, y, sample_weight) as rows:
        fit_path(models, rows, True)
    last.transduction_ = last._complete(X, y, rows.block_rows)
    return last
