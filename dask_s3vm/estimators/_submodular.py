"""S-QP-S3VM: labels by a greedy choice of the positive rows."""

import os
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils._param_validation import StrOptions

from dask_s3vm import _config
from dask_s3vm.estimators._base import Placed
from dask_s3vm.estimators._labelling import LabellingS3VM
from dask_s3vm.methods.base import History, TransductiveTask
from dask_s3vm.methods.found_labels import FoundLabels, found_once
from dask_s3vm.methods.submodular import PickedLabels, SubmodularSettings, pick_labels


class SubmodularS3VM(LabellingS3VM):
    """Semi-supervised SVM whose positive rows are picked greedily (S-QP-S3VM).

    The programme of `QPS3VM` over sets A of r u rows that are labelled +1, the others -1, as the
    maximum of a set function (Emara & Kantardzic, Problem 4)::

        S(A) = -1/2 C*^2 sum_{j in A, k in U} K_jk + C C* sum_{j in A, i in L} y_i K_ij
               + 1/2 C*^2 sum_{j, k in A} K_jk + Q5(|A|)

    Q5 depends on the size of A alone and makes S monotone and submodular (Theorem 3), with bounds
    of the kernel that are taken from the data, negative kernel values included. Greedy reaches at
    least 1 - 1/e of the largest S (Theorem 2).

    A linear SVM with squared hinge loss is then trained on all rows with these labels::

        1/2 |w|^2 + C sum_lab max(0, 1 - y o)^2 + C* sum_unl max(0, 1 - y o)^2

    and predicts new rows. The paper asks for columns in [0, 1]: see `UnitScaler`.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a labelled row.
    C_unlabeled : float or None, default=None
        Cost C* of an unlabelled row. None: C l / u, where both kinds of rows weigh alike.
    positive_ratio : float or None, default=None
        r, the share of `classes_[1]` among the unlabelled rows. None: its share among the labelled
        rows, which for few labels is a rough guess. For more than two classes always that.
    pick : {"fewer", "positive"}, default="fewer"
        Which rows are picked: those of the class that has fewer of the unlabelled rows, or, as in
        the paper, those of `classes_[1]`. The programme is the same, but not what greedy makes of
        it.
    scheme : {"auto", "exact", "greedi"}, default="auto"
        "exact": the distinct unlabelled rows come together in the client, and the set is that of
        plain greedy, ties by row number. "greedi": the shards pick from their own rows first, and
        greedy picks among these: less memory and a weaker bound. "auto": exact up to
        `s3vm.greedy-bytes` of distinct rows (dask's configuration; 2 GiB).
    center : bool, default=True
        Whether the kernel is taken about the mean of the unlabelled rows, on the fly: sparse rows
        stay sparse. False is the paper's form, in which the mean of rows that are not negative
        outweighs what tells them apart.
    fit_intercept : bool, default=True
        Whether the SVM has a bias.
    kernel : str or callable, default="linear"
        "linear", "rbf", "poly", "laplacian", ...: see `dask_s3vm.features.fit_kernel_map`, also for
        the parameters after it. Other kernels than the linear one are computed with landmark rows.
    n_components : int or None, default=500
        Landmarks; None: all rows, the exact kernel.
    sigma : float or "scale", default="scale"
        Width of the RBF kernel; "scale": a fifth of the diagonal of the ranges of the columns.
    gamma : float or None, default=None
        1 / (2 sigma^2), and the like for other kernels.
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1.0
        Constant of the polynomial and the sigmoid kernel.
    kernel_params : dict or None, default=None
        Parameters of a callable kernel.
    random_state : int, numpy Generator or RandomState, or None, default=None
        Draws the landmarks.
    unlabeled : int, str or None, default=-1
        Mark of rows without a label.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, on labelled rows.
    tol : float, default=1e-6
        Relative gap of the objective at which the SVM stops.
    max_iter : int, default=100
        Most Newton steps of the SVM.
    callbacks : callable, sequence of callables or None, default=None
        Called with every row of `history_` as it comes.
    checkpoint : str, path or None, default=None
        Directory in which the fit keeps its state, to be gone on with after an interruption; see
        the README. The state is removed when the fit is done.
    verbose : bool, default=False
        Show a line of progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    transduction_ : array of shape (n,)
        Labels of the training rows: those given, and those found. A dask array if X is one. With
        more than two classes, a row goes to the class that claims it; if several or none do, to the
        one for which it lies farthest on the positive side of the threshold.
    objective_ : float or ndarray of shape (n_classes,)
        F, eq. (11), of the labels found; without unlabelled rows the objective of the SVM.
    set_value_ : float or ndarray of shape (n_classes,)
        S of the rows that were picked; with classes swapped if these are of `classes_[0]`.
    proven_share_ : float or ndarray of shape (n_classes,)
        The part of the largest S that `set_value_` is at least, proven for these data.
    scheme_ : str
        "exact" or "greedi"; "none" without unlabelled rows.
    coef_ : ndarray of shape (1, d) or (n_classes, d)
        Weights of the SVM, of features if there is a kernel; one row for two classes, one-vs-rest
        for more.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Biases.
    positive_ratio_ : float or ndarray of shape (n_classes,)
        The share of positive rows that was used.
    n_iter_ : int
        Rows picked, the most over the binary problems.
    n_rounds_ : int
        Rounds over the rows, all of them counted.
    termination_ : str
        How the SVM ended: "converged", "precision" or "max_iter".
    history_ : list of dict
        One row per choice of a set (class, scheme as event, objective, value, proven share,
        distinct rows, picks, gains computed, seconds), and one per SVM (event "train").
    kernel_map_ : KernelMap or None
        Makes the features that `coef_` is over; None for the linear kernel.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X has them.

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

    pick: str
    scheme: str

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LabellingS3VM._parameter_constraints,
        "pick": [StrOptions({"fewer", "positive"})],
        "scheme": [StrOptions({"auto", "exact", "greedi"})],
    }

    def __init__(
        self,
        C: float = 1.0,
        C_unlabeled: float | None = None,
        *,
        positive_ratio: float | None = None,
        pick: str = "fewer",
        scheme: str = "auto",
        center: bool = True,
        fit_intercept: bool = True,
        kernel: str | Callable[..., float] = "linear",
        n_components: int | None = 500,
        sigma: float | str = "scale",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        random_state: Any = None,
        unlabeled: int | str | None = -1,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-6,
        max_iter: int = 100,
        callbacks: Callable[..., None] | Iterable[Callable[..., None]] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.C_unlabeled = C_unlabeled
        self.positive_ratio = positive_ratio
        self.pick = pick
        self.scheme = scheme
        self.center = center
        self.fit_intercept = fit_intercept
        self.kernel = kernel
        self.n_components = n_components
        self.sigma = sigma
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.random_state = random_state
        self.unlabeled = unlabeled
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _find(
        self, rows: Placed, task: TransductiveTask, cost: float, history: History
    ) -> FoundLabels:
        settings = SubmodularSettings(
            cost, self.center, self.pick, self.scheme, _config.greedy_bytes()
        )
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
        self.scheme_ = picked[0].scheme if picked else "none"
