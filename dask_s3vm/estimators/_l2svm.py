"""The supervised linear SVM, l2-SVM-MFN."""

from collections.abc import Sequence
from typing import Any

from dask_s3vm.estimators._base import LinearS3VM, fit_path
from dask_s3vm.estimators._fit_rows import FitRows
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.base import BinaryJob, BinarySolution
from dask_s3vm.methods.l2svm import train_l2svm
from dask_s3vm.parameters.fields import parametrized
from dask_s3vm.parameters.methods import L2SVMParameters
from dask_s3vm.problems.manifold import Smoothness


@parametrized
class L2SVM(L2SVMParameters, LinearS3VM):
    r"""Linear SVM with squared hinge loss, trained by modified finite Newton (l2-SVM-MFN).

    Minimizes, over the labeled rows (Sindhwani & Keerthi, eq. 1.2)::

        f(w) = 1/2 sum_i c_i max(0, 1 - y_i w.x_i)^2 + lam/2 |w|^2

    with ``c_i = 1/l`` for l labeled rows, or the share of a row in the sum of their sample weights;
    class weights multiply ``c_i``. The bias is a component of w like the others, and regularized
    with them. It stops when the objective is proven to be within a factor ``1 + tol`` of the
    minimum: ``|grad f|^2 / (2 lam) <= tol f``.

    This is the problem of ``LinearSVC(loss="squared_hinge", dual=False, C=1 / (2 * lam * l))``.

    References
    ----------
    V. Sindhwani, S. S. Keerthi. Newton Methods for Fast Solution of Semi-supervised Linear SVMs.
    S. S. Keerthi, D. DeCoste. A modified finite Newton method for fast solution of large scale
    linear SVMs. JMLR 6, 2005.

    Examples
    --------
    >>> from dask_s3vm import L2SVM
    >>> from dask_s3vm.datasets import make_g2c
    >>> X, y = make_g2c(n_rows=200, n_features=20)
    >>> model = L2SVM(lam=1e-2).fit(X, y)
    >>> float((model.predict(X) == y).mean().compute()) > 0.95
    True
    """

    def _solve(self, rows: FitRows, job: BinaryJob) -> BinarySolution:
        return solve_l2svm(self, job)


def solve_l2svm(model: Any, job: BinaryJob, smoothness: Smoothness | None = None) -> BinarySolution:
    """Train on the labeled rows by the parameters of a model; see `methods.l2svm.train_l2svm`."""
    return train_l2svm(
        job,
        lam=model.lam,
        fit_intercept=model.fit_intercept,
        tol=model.tol,
        max_iter=model.max_iter,
        smoothness=smoothness,
    )


@interruptible
def l2svm_path(
    X: Any, y: Any, lams: Sequence[float], *, sample_weight: Any = None, **params: Any
) -> list[L2SVM]:
    """Train an `L2SVM` for each of several `lam`, on one resident copy of the rows.

    Solutions are walked from the largest lam to the smallest, each the start of the next.

    Parameters
    ----------
    X, y, sample_weight : see `L2SVM.fit`.
    lams : values of lam, in any order.
    **params : other parameters of `L2SVM`.

    Returns
    -------
    Fitted estimators, in the order of `lams`.
    """
    if len(lams) == 0:
        raise ValueError("lams is empty; wanted at least one value")
    models = [L2SVM(lam=lam, **params) for lam in lams]
    for model in models:
        model._validate_params()
    fit_path(models, X, y, sample_weight)
    return models
