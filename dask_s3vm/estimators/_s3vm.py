"""S3VM: the estimator for those who do not want to choose."""

from typing import Any

import numpy as np

from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.estimators._fit_rows import FitRows
from dask_s3vm.estimators._safe import GuardedS3VM
from dask_s3vm.estimators._transductive import TSVM
from dask_s3vm.exceptions import warn
from dask_s3vm.features.unit_scaler import far_apart, narrow_width
from dask_s3vm.methods.base import BinaryJob
from dask_s3vm.methods.safe import Sample
from dask_s3vm.parameters.fields import fitted, parametrized
from dask_s3vm.parameters.s3vm import S3VMParameters


@parametrized
class S3VM(S3VMParameters, GuardedS3VM):
    """Semi-supervised SVM that is not worse than the labels alone, as far as these can tell.

    Trains the supervised `L2SVM` and a `TSVM`, which minimize, o = w.x::

        1/2l sum_lab max(0, 1 - y o)^2 + 1/2u sum_unl max(0, 1 - |o|)^2 + lam/2 |w|^2

    without and with the second term, on folds of the labeled rows, and compares them on the rows
    held out. A row counts by its margin: as right or wrong, or as partly both where it is near the
    boundary. The TSVM is kept only if it gains a row and a half, if it puts no more rows wrong
    than right, and if the model of all rows predicts a share of positives that `positive_ratio`
    allows. Otherwise the result is the supervised model. Either way it is one linear model, or one
    of the kernel's features. `decision_` tells which.

    With few labels the folds are drawn again, up to four times, while the gain is within half a row
    of one. A fold has all labeled rows and up to 10,000 unlabeled ones, in this process, so that
    all folds together take little of the time of a fit on many rows. Which fold a row
    is in depends on what is in it, not on its place: up to 10,000 unlabeled rows, the same rows in
    any order are decided on alike.

    References
    ----------
    V. Sindhwani, S. S. Keerthi. Newton Methods for Fast Solution of Semi-supervised Linear SVMs.
    J. H. Krijthe, M. Loog. The pessimistic limits and possibilities of margin-based losses in
    semi-supervised learning. NeurIPS 2018.

    Examples
    --------
    >>> from dask_s3vm import S3VM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = S3VM(lam=1e-2, positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> model.decision_
    'tsvm'
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    n_labeled_: int = fitted("int", "Number of labeled rows.")

    @property
    def _is_guarded(self) -> bool:
        return True

    def _variants(self) -> dict[str, LinearS3VM]:
        # the folds say whether it is believed, and then wholly
        shared = {"supervised_part": 0.0, **self.get_params(deep=False)}
        return {"tsvm": TSVM(**{name: shared[name] for name in shared if hasattr(TSVM(), name)})}

    def _solve(self, rows: FitRows, job: BinaryJob) -> Any:
        return self._variants()["tsvm"]._solve(rows, job)

    def _looked_at(self, sample: Sample, rows: FitRows) -> None:
        """Warn of columns that were left as they are, and whose ranges lie far apart."""
        layout = rows.engine.layout
        if not self._is_linear or layout.scale is not None:
            return
        width = layout.to_external(np.append(sample.widths(), 0.0))[:-1]
        if far_apart(width):
            warn(
                f"{type(self).__name__}: column {int(width.argmax())} has values over a range of "
                f"{width.max():.3g}, others of {narrow_width(width):.3g} or less: the widest "
                "columns will outweigh all others; divide the columns by their ranges "
                "(dask_s3vm.features.UnitScaler)",
                UserWarning,
            )

    def _keep(self, solved: list[Any], rows: FitRows, history: list[Any]) -> None:
        """Set the model; sets n_labeled_ beside what all estimators set."""
        super()._keep(solved, rows, history)
        self.n_labeled_ = int(rows.totals.counts.sum())
