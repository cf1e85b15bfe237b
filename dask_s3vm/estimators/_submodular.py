"""S-QP-S3VM: labels by a greedy choice of the positive rows."""

from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils._param_validation import StrOptions

from dask_s3vm import _config
from dask_s3vm.estimators._base import Placed
from dask_s3vm.estimators._labeling import LabelingS3VM
from dask_s3vm.estimators._parameters import fitted, parameter, parametrized
from dask_s3vm.estimators._shared import ShardedSearch
from dask_s3vm.methods.base import History, TransductiveTask
from dask_s3vm.methods.found_labels import FoundLabels, found_once
from dask_s3vm.methods.submodular import PickedLabels, SubmodularSettings, pick_labels


@parametrized
class SubmodularS3VM(ShardedSearch, LabelingS3VM):
    """Semi-supervised SVM whose positive rows are picked greedily (S-QP-S3VM).

    The program of `QPS3VM` over sets A of r u rows that are labeled +1, the others -1, as the
    maximum of a set function (Emara & Kantardzic, Problem 4)::

        S(A) = -1/2 C*^2 sum_{j in A, k in U} K_jk + C C* sum_{j in A, i in L} y_i K_ij
               + 1/2 C*^2 sum_{j, k in A} K_jk + Q5(|A|)

    Q5 depends on the size of A alone and makes S monotone and submodular (Theorem 3), with bounds
    of the kernel that are taken from the data, negative kernel values included. Greedy reaches at
    least 1 - 1/e of the largest S (Theorem 2).

    With ``sharded=False`` the distinct unlabeled rows come together in the client, and the set is
    that of plain greedy, ties by row number. With ``sharded=True`` the shards pick from their own
    rows first, and greedy picks among these (GreeDi): less memory and a weaker bound. "auto" shards
    distinct rows of more than `s3vm.greedy-bytes` (dask's configuration; 2 GiB).

    A linear SVM with squared hinge loss is then trained on all rows with these labels::

        1/2 |w|^2 + C sum_lab max(0, 1 - y o)^2 + C* sum_unl max(0, 1 - y o)^2

    and predicts new rows. The paper asks for columns in [0, 1]: see `UnitScaler`.

    References
    ----------
    W. Emara, M. Kantardzic. Submodular Optimization for Efficient Semi-supervised Support Vector
    Machines.
    B. Mirzasoleiman et al. Distributed Submodular Maximization: Identifying Representative Elements
    in Massive Data.

    Examples
    --------
    >>> from dask_s3vm import SubmodularS3VM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = SubmodularS3VM(positive_ratio=0.5).fit(X, hide_labels(y, 20))
    >>> float((model.transduction_ == y).mean().compute()) > 0.95
    True
    """

    pick: str = parameter(
        '{"fewer", "positive"}',
        "Which rows are picked: those of the class that has fewer of the unlabeled rows, or, as in "
        "the paper, those of `classes_[1]`. The program is the same, but not what greedy makes of "
        "it.",
        [StrOptions({"fewer", "positive"})],
        default="fewer",
    )

    set_value_: float | np.ndarray = fitted(
        "float or ndarray of shape (n_classes,)",
        "S of the rows that were picked; with classes swapped if these are of `classes_[0]`.",
    )
    proven_share_: float | np.ndarray = fitted(
        "float or ndarray of shape (n_classes,)",
        "The part of the largest S that `set_value_` is at least, proven for these data.",
    )
    n_iter_: int = fitted("int", "Rows picked, the most over the binary problems.")
    history_: list[dict[str, Any]] = fitted(
        "list of dict",
        'One row per choice of a set (class, "exact" or "greedi" as event, objective, value, '
        "proven share, distinct rows, picks, gains computed, seconds), and one per SVM (event "
        '"train").',
    )

    _renamed: ClassVar[dict[str, tuple[str, str]]] = {
        "scheme": ("sharded", "with False for 'exact' and True for 'greedi'")
    }

    def _find(
        self, rows: Placed, task: TransductiveTask, cost: float, history: History
    ) -> FoundLabels:
        scheme = self._place("greedi", "exact")
        settings = SubmodularSettings(cost, self.center, self.pick, scheme, _config.greedy_bytes())
        return found_once(
            history,
            task.positive,
            PickedLabels,
            lambda: pick_labels(rows.engine, task, settings, history),
        )

    def _keep_found(self, found: list[FoundLabels]) -> None:
        picked = cast(list[PickedLabels], found)
        values = np.array([one.value for one in picked])
        proven = np.array([one.proven for one in picked])
        one = len(picked) == 1
        self.set_value_ = float(values[0]) if one else values
        self.proven_share_ = float(proven[0]) if one else proven
        self.sharded_ = bool(picked) and picked[0].scheme == "greedi"
