"""TSVM, DA, CCCP and QN-S3VM: unlabeled rows are a term of the objective."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dask_s3vm.estimators._fit_rows import FitRows
from dask_s3vm.estimators._l2svm import solve_l2svm
from dask_s3vm.estimators._safe import GuardedS3VM
from dask_s3vm.methods.base import MIN_TOTAL, BinaryJob, BinarySolution, BinaryTask, Start
from dask_s3vm.methods.cccp import train_cccp
from dask_s3vm.methods.da import train_da
from dask_s3vm.methods.qn import train_qn, train_supervised_qn
from dask_s3vm.methods.tsvm import train_tsvm
from dask_s3vm.parameters.fields import fitted, parametrized
from dask_s3vm.parameters.methods import (
    CCCPParameters,
    DAParameters,
    QNParameters,
    TransductiveParameters,
    TSVMParameters,
)


@parametrized
class TransductiveS3VM(TransductiveParameters, GuardedS3VM):
    """Base of TSVM, DA, CCCP and QN-S3VM."""

    intercept_: np.ndarray = fitted(
        "ndarray of shape (1,) or (n_classes,)", "Biases, moved where `balance` asks for it."
    )
    transduction_: Any = fitted(
        "array of shape (n,)",
        "Labels of the training rows: those given, and predictions for the others. A dask array, "
        "not yet computed, if X is one.",
    )

    #: trains one binary problem: (job, parameters)
    _method: ClassVar[Callable[..., BinarySolution]]

    def _solve(self, rows: FitRows, job: BinaryJob) -> BinarySolution:
        return self._solve_supervised(job) if rows.supervised else type(self)._method(job, self)

    def _solve_supervised(self, job: BinaryJob) -> BinarySolution:
        """Train on the labeled rows alone."""
        return solve_l2svm(self, job)


@parametrized
class TSVM(TSVMParameters, TransductiveS3VM):
    """Transductive linear SVM with multiple switching.

    The model is a mean of what the method finds and of `L2SVM`; see `supervised_part`.

    Minimizes (Sindhwani & Keerthi, section 1.3), over w and over labels of the unlabeled rows of
    which a share `positive_ratio` is positive::

        1/2l sum_lab max(0, 1 - y o)^2 + lam_unlabeled/2u sum_unl max(0, 1 - |o|)^2 + lam/2 |w|^2

    with o = w.x, the bias inside w. Labels come from the supervised SVM; the weight of the
    unlabeled rows rises level by level, and at each level retraining and switching of pairs of
    labels alternate until nothing switches. Finds a local minimum.
    With ``lam_unlabeled=0`` it is exactly `L2SVM`.

    References
    ----------
    V. Sindhwani, S. S. Keerthi. Newton Methods for Fast Solution of Semi-supervised Linear SVMs.
    T. Joachims. Transductive Inference for Text Classification using Support Vector Machines.

    Examples
    --------
    >>> from dask_s3vm import TSVM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = TSVM(lam=1e-2, positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    _method = staticmethod(train_tsvm)

    @property
    def _trains_supervised(self) -> bool:
        return self.balance != "paper" or super()._trains_supervised

    def _start(self, rows: FitRows, task: BinaryTask, place: int, start: Start) -> Start:
        """Start from the supervised SVM, if it is found on the labeled rows alone."""
        if rows.labeled is None or self.balance == "paper":
            return start
        return replace(start, w=self._supervised_weights(rows, task, place), seed=None)


@parametrized
class DAS3VM(DAParameters, TransductiveS3VM):
    """Semi-supervised linear SVM by deterministic annealing.

    The model is a mean of what the method finds and of `L2SVM`; see `supervised_part`.

    Looks for a minimum of the same objective as `TSVM` (Sindhwani & Keerthi, section 1.4)::

        1/2l sum_lab max(0, 1 - y o)^2 + lam_unlabeled/2u sum_unl max(0, 1 - |o|)^2 + lam/2 |w|^2

    by way of probabilities p of the unlabeled rows, of mean `positive_ratio`, whose entropy is
    weighed by a temperature (eq. 1.6). The temperature falls from a point where the problem is
    convex to one where p is certain. From the best w along the way a last descent leads to a
    local minimum of the objective itself, among those with as many positive labels.
    With ``lam_unlabeled=0`` it is exactly `L2SVM`.

    References
    ----------
    V. Sindhwani, S. S. Keerthi. Newton Methods for Fast Solution of Semi-supervised Linear SVMs.

    Examples
    --------
    >>> from dask_s3vm import DAS3VM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = DAS3VM(lam=0.1, positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    _method = staticmethod(train_da)

    def _validate_params(self) -> None:
        super()._validate_params()
        if 0.0 < self.lam_unlabeled < MIN_TOTAL:
            raise ValueError(
                f"lam_unlabeled={self.lam_unlabeled!r}: its products with temperatures underflow; "
                f"wanted 0 or at least {MIN_TOTAL:.0e}"
            )


@parametrized
class CCCPS3VM(CCCPParameters, TransductiveS3VM):
    """Semi-supervised SVM with the ramp loss by the concave-convex procedure (CCCP).

    The model is a mean of what the method finds and of `L2SVM`; see `supervised_part`.

    Minimizes (Collobert et al., eqs. 9 and 11)::

        1/l sum_lab max(0, 1 - y f) + lam_unlabeled/u sum_unl min(1 + ramp, max(0, 1 - |f|))
            + lam |w|^2,    f(x) = w.(x - m) + 2 positive_ratio - 1

    with m the mean of the unlabeled rows, whose mean output is thereby fixed. The unlabeled loss is
    the paper's sum of two ramp losses less a constant. Its concave part is replaced by a tangent,
    the convex problem that is left is solved in the dual, and so on: the objective falls in each
    turn, and the procedure ends when no tangent changes. Finds a local minimum.

    In the paper's terms C = 1 / (2 lam l) and C* = lam_unlabeled / (2 lam u); its constraint is
    ``positive_ratio="labels"``. Without a bias (`fit_intercept`) there is no constraint: f(x) =
    w.x. With ``lam_unlabeled=0`` or without unlabeled rows it is `L2SVM`, of squared hinge loss.

    References
    ----------
    R. Collobert, F. Sinz, J. Weston, L. Bottou. Large Scale Transductive SVMs. JMLR 7, 2006.
    C. Ma et al. Adding vs. Averaging in Distributed Primal-Dual Optimization. ICML 2015.

    Examples
    --------
    >>> from dask_s3vm import CCCPS3VM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = CCCPS3VM(lam=1e-2, positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    intercept_: np.ndarray = fitted(
        "ndarray of shape (1,) or (n_classes,)",
        "2 positive_ratio - 1 - w.m, moved where `balance` asks for it.",
    )

    _counted = "rounds of one convex problem"
    _method = staticmethod(train_cccp)


@parametrized
class QNS3VM(QNParameters, TransductiveS3VM):
    """Semi-supervised SVM with smooth losses, by a quasi-Newton method (QN-S3VM).

    The model is a mean of what the method finds and of `L2SVM`; see `supervised_part`.

    Minimizes (Gieseke et al., eq. 4)::

        1/l sum_lab 1/20 log(1 + exp(20 (1 - y f))) + lam_unlabeled/u sum_unl exp(-3 f^2)
            + lam |w|^2,    f(x) = w.(x - m) + b

    with m the mean of the unlabeled rows, by L-BFGS with one round over the rows per evaluation.
    With a kernel, x stands for features whose inner products are the kernel (eq. 9), and they are
    centered the same way. Without a bias (`fit_intercept`) there is no centering: f(x) = w.x.
    The weight of the unlabeled rows rises in stages, the first of which is the supervised
    problem. Finds a local minimum. Sample and class weights enter as in `L2SVM`.

    References
    ----------
    F. Gieseke, A. Airola, T. Pahikkala, O. Kramer. Fast and Simple Gradient-Based Optimization for
    Semi-Supervised Support Vector Machines.

    Examples
    --------
    >>> from dask_s3vm import QNS3VM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = QNS3VM(lam=1e-2, positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    intercept_: np.ndarray = fitted(
        "ndarray of shape (1,) or (n_classes,)",
        "b - w.m, moved where `balance` asks for it: rows to be predicted need no centering.",
    )

    _counted = "evaluations"
    _method = staticmethod(train_qn)

    def _validate_params(self) -> None:
        super()._validate_params()
        try:
            stages = [float(part) for part in np.ravel(self.annealing)]
        except (TypeError, ValueError):
            stages = []
        rising = all(a < b for a, b in itertools.pairwise(stages))
        if not stages or not rising or not stages[0] >= 0.0 or stages[-1] != 1.0:
            raise ValueError(
                f"annealing must be numbers that rise from 0 or more to 1, got {self.annealing!r}"
            )
        if self.offset == "free" and not self.fit_intercept:
            raise ValueError("offset='free' has no effect with fit_intercept=False")

    def _solve_supervised(self, job: BinaryJob) -> BinarySolution:
        """Train on the labeled rows alone, with the method's own loss."""
        return train_supervised_qn(job, self)
