"""Semi-supervised regularised least-squares classification."""

import os
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.estimators._least_squares import (
    Callbacks,
    LeastSquaresParameters,
    check_population,
    seed_of,
)
from dask_s3vm.estimators._ratio import has_unlabeled, positive_ratios
from dask_s3vm.estimators._resident import Resident
from dask_s3vm.estimators._rlsc import check_lams, copy_facts
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.base import LinearSolution, collect
from dask_s3vm.methods.restarts import SearchSettings, window_of
from dask_s3vm.methods.rlsc import train_rlsc
from dask_s3vm.methods.s2rlsc import (
    LabelSearch,
    Placement,
    Projected,
    label_array,
    prepare_rows,
)


class S2RLSC(LeastSquaresParameters, LinearS3VM):
    """Semi-supervised regularised least squares, by local search with restarts.

    Looks for labels of the unlabelled rows and a model that minimise (Gieseke et al., eq. 10)::

        1/l sum_lab (y_i - w.x_i)^2 + lam_unlabeled/u sum_unl (y_j - w.x_j)^2 + lam |w|^2

    with about a share `positive_ratio` of the unlabelled rows positive. For given labels the best w
    is known in closed form; the labels are searched by flips of single rows, each of which costs
    O(r) for r columns or landmarks, whatever the number of rows (Theorem 2). Searches start from
    random labels, `n_restarts` times, in parallel; the best one wins.

    Parameters
    ----------
    lam : float, default=1.0
        Weight of the regulariser.
    lam_unlabeled : float, default=1.0
        Weight of the unlabelled rows (lambda'). 0 is exactly `RLSC` on the labelled rows.
    positive_ratio : float or None, default=None
        Share b_c of `classes_[1]` among the unlabelled rows. None: its share among the labelled
        rows. For more than two classes always the shares of the labelled rows.
    balance_tol : float, default=0.1
        The share of positive labels stays within `positive_ratio` +- this, at all times. If no
        number of rows does, the nearest one is kept.
    n_restarts : int, default=50
        Searches.
    population : (int, int), default=(5, 25)
        Parents and children of the (mu+nu)-EA; (1, 1) takes the rows in turn instead of at random,
        which is the fastest.
    patience : int or None, default=None
        Stop when so many restarts in a row, by number, have not improved on the best before.
    fit_intercept : bool, default=True
        Whether to have a bias.
    center : bool, default=False
        Whether to take the mean off the rows first. The paper does not.
    kernel : str or callable, default="linear"
        "linear", "rbf", "poly", ...: see `dask_s3vm.features.fit_kernel_map`, also for the
        parameters after it. Kernels are computed with landmark rows, and so is the linear one if X
        has more than 4,096 columns and rows; else it is exact.
    n_components : int or None, default=500
        Landmarks, r of the paper; None: all rows, the exact kernel.
    sigma : float or "scale", default="scale"
        Width of the RBF kernel.
    gamma : float or None, default=None
        1 / (2 sigma^2), and the like for other kernels.
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1.0
        Constant of the polynomial and the sigmoid kernel.
    kernel_params : dict or None, default=None
        Parameters of a callable kernel.
    random_state : int, numpy Generator or RandomState, or None, default=0
        Draws the starts of the searches and the landmarks.
    placement : {"auto", "pool", "shards"}, default="auto"
        "pool": the u x r factor is given to every worker, and restarts are tasks. "shards": it
        stays where the rows are; restarts advance together, each shard making sweeps of a
        (1+1)-EA over its own rows between synchronisations, whatever `population` says. "auto": the
        pool up to 256 MiB, beyond which it takes longer to send than to search.
    dtype : {"float64", "float32"}, default="float64"
        Type of the factor. With "float32" it takes half the memory; sums, and the final model, are
        float64 all the same.
    unlabeled : int, str or None, default=-1
        Mark of rows without a label.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, on labelled rows.
    callbacks : callable, sequence of callables or None, default=None
        Called with a row of `history_` as each restart finishes.
    checkpoint : str, path or None, default=None
        Directory in which the fit keeps its state, to be gone on with after an interruption; see
        the README. The state is removed when the fit is done.
    verbose : bool, default=False
        Show a line of progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    coef_ : ndarray of shape (1, d) or (n_classes, d)
        Weights, of features if the kernel is not linear; one row for two classes, else one-vs-rest.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Biases.
    objective_ : float or ndarray of shape (n_classes,)
        The objective above.
    positive_ratio_ : float or ndarray of shape (n_classes,)
        The share of positive rows that was aimed at.
    transduction_ : array of shape (n,)
        Labels of the training rows: those given, and those found by the search (for more than two
        classes: predicted by the model). A dask array if X is one.
    n_iter_ : int
        Restarts, the most over the binary problems.
    n_rounds_ : int
        Rounds over the rows.
    termination_ : str
        "converged".
    history_ : list of dict
        One row per restart, in their order: fitness, fitness of its start, flips looked at and
        carried out, seconds.
    kernel_map_ : KernelMap or None
        Makes the features that `coef_` is over; None for the linear kernel.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X has them.

    Notes
    -----
    With a dask client restarts are tasks on its workers; a worker that dies costs its restarts,
    which others run again. The result does not depend on the number of workers or threads.

    References
    ----------
    F. Gieseke, O. Kramer, A. Airola, T. Pahikkala. Efficient Recurrent Local Search Strategies for
    Semi- and Unsupervised Regularized Least-Squares Classification.

    Examples
    --------
    >>> from dask_s3vm import S2RLSC
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = S2RLSC(positive_ratio=0.5, n_restarts=10).fit(X, hide_labels(y, 20))
    >>> bool((model.transduction_ == y).mean().compute() > 0.95)
    True
    """

    warm_start = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearS3VM._kernel_constraints,
        "lam": [Interval(Real, 0, None, closed="neither")],
        "lam_unlabeled": [Interval(Real, 0, None, closed="left")],
        "positive_ratio": [Interval(Real, 0, 1, closed="both"), None],
        "balance_tol": [Interval(Real, 0, None, closed="left")],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "population": [tuple, list],
        "patience": [Interval(Integral, 1, None, closed="left"), None],
        "fit_intercept": ["boolean"],
        "center": ["boolean"],
        "placement": [StrOptions({"auto", "pool", "shards"})],
        "dtype": [StrOptions({"float32", "float64"})],
        "unlabeled": [Integral, str, None],
        "class_weight": [dict, str, None],
        "callbacks": [callable, list, tuple, None],
        "checkpoint": [str, os.PathLike, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        lam: float = 1.0,
        lam_unlabeled: float = 1.0,
        *,
        positive_ratio: float | None = None,
        balance_tol: float = 0.1,
        n_restarts: int = 50,
        population: tuple[int, int] = (5, 25),
        patience: int | None = None,
        fit_intercept: bool = True,
        center: bool = False,
        kernel: Any = "linear",
        n_components: int | None = 500,
        sigma: float | str = "scale",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        random_state: Any = 0,
        placement: str = "auto",
        dtype: str = "float64",
        unlabeled: int | str | None = -1,
        class_weight: dict[Any, float] | str | None = None,
        callbacks: Callbacks = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
        self.lam_unlabeled = lam_unlabeled
        self.positive_ratio = positive_ratio
        self.balance_tol = balance_tol
        self.n_restarts = n_restarts
        self.population = population
        self.patience = patience
        self.fit_intercept = fit_intercept
        self.center = center
        self.kernel = kernel
        self.n_components = n_components
        self.sigma = sigma
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.random_state = random_state
        self.placement = placement
        self.dtype = dtype
        self.unlabeled = unlabeled
        self.class_weight = class_weight
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.verbose = verbose

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "S2RLSC":
        """Train on labelled and unlabelled rows.

        Parameters
        ----------
        X : array of shape (n, d)
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
        y : array of shape (n,), numpy or dask
            Labels; `unlabeled` marks rows without one.
        sample_weight : array of shape (n,), numpy or dask, or None
            Weights of the rows, within the labelled and within the unlabelled ones.

        Returns
        -------
        self
        """
        fit_s2rlsc_path(self, [self], X, y, sample_weight)
        return self


@interruptible
def s2rlsc_path(
    X: Any, y: Any, lams: Sequence[float], *, sample_weight: Any = None, **params: Any
) -> list[S2RLSC]:
    """Train an `S2RLSC` for each of several `lam`, from one eigendecomposition.

    Parameters
    ----------
    X, y, sample_weight : see `S2RLSC.fit`.
    lams : values of lam, in any order.
    **params : other parameters of `S2RLSC`; for model selection the paper takes 10 restarts.

    Returns
    -------
    Fitted estimators, in the order of `lams`: the same as if each were fitted alone.
    """
    models = [S2RLSC(lam=lam, **params) for lam in check_lams(lams, "lams")]
    fit_s2rlsc_path(clone(models[0]), models, X, y, sample_weight)
    return models


def fit_s2rlsc_path(
    guide: S2RLSC,
    models: list[S2RLSC],
    X: Any,
    y: Any,
    sample_weight: Any,
    seeded: bool = False,
) -> None:
    """Fit models that differ in lam, on the rows that `guide` takes in.

    With `seeded`, a restart begins with the labels that the one of the same number has found for
    the model before, in place of random ones.
    """
    population = check_population(guide.population)
    solved: list[tuple[LinearSolution, np.ndarray | None, list[dict[str, Any]]]] = []
    lams = [model.lam for model in models]
    with guide._placed(X, y, sample_weight, lams=lams) as rows:
        supervised = not has_unlabeled(guide, rows) or guide.lam_unlabeled == 0
        ratios = positive_ratios(guide, rows)
        history = rows.history
        if supervised:
            for solution in train_rlsc(rows.engine, rows.costs, lams, guide.fit_intercept):
                solved.append((solution.linear, None, []))
        else:
            settings = SearchSettings(
                guide.n_restarts, population, guide.patience, seed_of(guide.random_state)
            )
            totals = rows.totals
            reduced = prepare_rows(
                rows.engine,
                rows.costs,
                guide.lam_unlabeled / totals.unlabeled_weight,
                guide.fit_intercept,
                rows.positives,
                guide.center,
            )
            where = Placement(guide.placement, guide.dtype)
            projected = Projected(reduced, guide.dtype)
            starts: list[dict[int, np.ndarray]] = [{} for _ in ratios]
            for place, model in enumerate(models):
                search = LabelSearch(reduced, model.lam, totals.n_unlabeled, where, projected)
                found = []
                for number, ratio in enumerate(ratios):
                    window = window_of(totals.n_unlabeled, ratio, guide.balance_tol)
                    about = {"class": int(rows.positives[number]), "lam": float(model.lam)}
                    name = f"model {place}, class {rows.positives[number]}"
                    given = starts[number] if seeded else None
                    found.append(search.run(number, window, settings, about, history, name, given))
                labels = None
                if len(found) == 1 and not isinstance(X, Resident):
                    labels = label_array(rows.engine, found[0], sample_weight is not None)
                linear = collect(rows.engine, [one.solution for one in found])
                own = [row for row in history.rows if row["lam"] == model.lam]
                solved.append((linear, labels, own))
    for model, (linear, labels, own) in zip(models, solved, strict=True):
        if model is not guide:
            copy_facts(guide, model)
        model._keep(linear, own)
        model._to_columns()
        model.positive_ratio_ = ratios[0] if len(ratios) == 1 else np.array(ratios)
        found_classes = None if labels is None else model.classes_[labels]
        model.transduction_ = model._complete(X, y, rows.block_rows, found_classes)
