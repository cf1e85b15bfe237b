"""Maximum margin clustering."""

import os
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils._param_validation import Interval, StrOptions

from dask_s3vm.engine.ingest import is_dask
from dask_s3vm.estimators._inputs import as_array, take_in
from dask_s3vm.estimators._least_squares import (
    Callbacks,
    LeastSquaresParameters,
    check_population,
    seed_of,
)
from dask_s3vm.estimators._linear import LinearModel, beside
from dask_s3vm.estimators._record import check_resumable, recorded
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.clustering import ClusterSettings, Split, split_rows
from dask_s3vm.methods.restarts import SearchSettings
from dask_s3vm.methods.s2rlsc import Placement


class MaxMarginClustering(LeastSquaresParameters, ClusterMixin, LinearModel):
    """Maximum margin clustering with the square loss: the unsupervised case of `S2RLSC`.

    Looks for labels y in {-1, +1} and a model that minimise (Gieseke et al., eq. 16 and 17)::

        1/n sum_i (y_i - w.x_i)^2 + lam |w|^2

    with about a share `balance` of the rows positive; see `S2RLSC` for the search. More than two
    clusters are made by splitting the largest one in two, again and again.

    Parameters
    ----------
    n_clusters : int, default=2
        Clusters.
    lam : float, default=1.0
        Weight of the regulariser.
    balance : float, default=0.5
        Share of rows in the smaller or larger part of a split, where it starts.
    balance_tol : float, default=0.2
        The share stays within `balance` +- this, at all times; no cluster is empty.
    n_restarts : int, default=50
        Searches per split.
    population : (int, int), default=(5, 25)
        Parents and children of the (mu+nu)-EA; (1, 1) takes the rows in turn.
    patience : int or None, default=None
        Stop when so many restarts in a row, by number, have not improved on the best before.
    fit_intercept : bool, default=True
        Whether to have a bias.
    center : bool, default=True
        Whether to take the mean off the rows of a cluster before it is split. Without, the mean
        direction of rows that are far from the origin outweighs all others, and draws the search
        to the edge of the balance.
    kernel : str or callable, default="linear"
        "linear", "rbf", "poly", ...: see `dask_s3vm.features.fit_kernel_map`, also for the
        parameters after it. Kernels are computed with landmark rows, and so is the linear one if X
        has more than 4,096 columns and rows; else it is exact.
    n_components : int or None, default=500
        Landmarks; None: all rows, the exact kernel.
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
        See `S2RLSC`.
    dtype : {"float64", "float32"}, default="float64"
        See `S2RLSC`.
    callbacks : callable, sequence of callables or None, default=None
        Called with a row of `history_` as each restart finishes.
    checkpoint : str, path or None, default=None
        Directory in which the fit keeps its state, to be gone on with after an interruption; see
        the README. The state is removed when the fit is done.
    verbose : bool, default=False
        Show a line of progress on standard error.

    Attributes
    ----------
    labels_ : array of shape (n,)
        Cluster of each row, 0 for that of the first; a dask array if X is one.
    coef_ : ndarray of shape (n_clusters - 1, d)
        Weights of each split, of features if the kernel is not linear.
    intercept_ : ndarray of shape (n_clusters - 1,)
        Biases.
    parents_ : ndarray of shape (n_clusters - 1,)
        The cluster that each split cuts; rows on its positive side go to a new one.
    objective_ : float or ndarray of shape (n_clusters - 1,)
        The objective above, over the rows of the cluster that is split.
    history_ : list of dict
        One row per restart: split, fitness, fitness of its start, flips looked at and carried out,
        seconds.
    n_rounds_ : int
        Rounds over the rows.
    kernel_map_ : KernelMap or None
        Makes the features that `coef_` is over; None for the linear kernel.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, where X has them.

    References
    ----------
    F. Gieseke, O. Kramer, A. Airola, T. Pahikkala. Efficient Recurrent Local Search Strategies for
    Semi- and Unsupervised Regularized Least-Squares Classification.

    Examples
    --------
    >>> from dask_s3vm import MaxMarginClustering
    >>> from dask_s3vm.datasets import make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> same = (MaxMarginClustering(n_restarts=10).fit_predict(X) == y).mean().compute()
    >>> bool(max(same, 1 - same) > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LeastSquaresParameters._kernel_constraints,
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "lam": [Interval(Real, 0, None, closed="neither")],
        "balance": [Interval(Real, 0, 1, closed="neither")],
        "balance_tol": [Interval(Real, 0, None, closed="left")],
        "n_restarts": [Interval(Integral, 1, None, closed="left")],
        "population": [tuple, list],
        "patience": [Interval(Integral, 1, None, closed="left"), None],
        "fit_intercept": ["boolean"],
        "center": ["boolean"],
        "placement": [StrOptions({"auto", "pool", "shards"})],
        "dtype": [StrOptions({"float32", "float64"})],
        "callbacks": [callable, list, tuple, None],
        "checkpoint": [str, os.PathLike, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        lam: float = 1.0,
        balance: float = 0.5,
        balance_tol: float = 0.2,
        n_restarts: int = 50,
        population: tuple[int, int] = (5, 25),
        patience: int | None = None,
        fit_intercept: bool = True,
        center: bool = True,
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
        callbacks: Callbacks = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.lam = lam
        self.balance = balance
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
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.verbose = verbose

    @interruptible
    def fit(self, X: Any, y: Any = None) -> "MaxMarginClustering":
        """Cluster the rows.

        Parameters
        ----------
        X : array of shape (n, d)
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
        y : ignored

        Returns
        -------
        self
        """
        self._validate_params()
        self._check_kernel()
        check_resumable(self)
        population = check_population(self.population)
        settings = ClusterSettings(
            self.n_clusters,
            self.lam,
            self.balance,
            self.balance_tol,
            self.fit_intercept,
            self.center,
            Placement(self.placement, self.dtype),
        )
        search = SearchSettings(
            self.n_restarts, population, self.patience, seed_of(self.random_state)
        )
        source, kernel_map = take_in(self, X, None, None, self._fit_kernel_map)
        try:
            n_rows = source.summary.n_rows
            if n_rows < max(self.n_clusters, 2):
                raise ValueError(
                    f"n_samples={n_rows} is too few for n_clusters={self.n_clusters}; wanted at "
                    f"least {max(self.n_clusters, 2)} rows"
                )
            engine = source.place(None)
        finally:
            source.close()
        try:
            with recorded(self, engine, {}, self.n_clusters - 1) as history:
                labels, splits = split_rows(engine, settings, search, history)
        finally:
            engine.close()
        self.kernel_map_ = kernel_map
        self.n_rounds_ = engine.rounds
        self.history_ = history.rows
        self._keep_splits(splits, engine.layout.n_features)
        self._to_columns()
        self.labels_ = beside(labels, as_array(X), source.summary.block_rows)
        return self

    def predict(self, X: Any) -> Any:
        """Cluster of each row by the splits: array of shape (n,), lazy if X is a dask array."""
        outputs = self.decision_function(X)
        if not is_dask(outputs):
            return clusters_of(outputs, self.parents_)
        more = {"drop_axis": 1} if outputs.ndim == 2 else {}
        return outputs.map_blocks(
            clusters_of, parents=self.parents_, dtype=np.int64, meta=np.empty(0, np.int64), **more
        )

    def _keep_splits(self, splits: list[Split], n_features: int) -> None:
        weights = np.array([split.w for split in splits]).reshape(len(splits), n_features + 1)
        self.coef_ = np.ascontiguousarray(weights[:, :-1])
        self.intercept_ = weights[:, -1].copy()
        self.parents_ = np.array([split.parent for split in splits], dtype=np.int64)
        values = np.array([split.fitness for split in splits])
        self.objective_ = float(values[0]) if len(values) == 1 else values


def clusters_of(outputs: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Cluster of each row: follow the splits in order."""
    sides = outputs.reshape(len(outputs), len(parents)) > 0
    labels = np.zeros(len(outputs), dtype=np.int64)
    for number, parent in enumerate(parents):
        labels[(labels == parent) & sides[:, number]] = number + 1
    return labels
