"""Maximum margin clustering."""

from typing import Any

import numpy as np
from sklearn.base import ClusterMixin

from dask_s3vm.engine.ingest import is_dask
from dask_s3vm.estimators._base import one_or_all
from dask_s3vm.estimators._least_squares_model import LeastSquaresModel, search_settings
from dask_s3vm.estimators._linear import like_rows
from dask_s3vm.estimators._record import check_resumable, recorded
from dask_s3vm.estimators._rows import as_array, open_rows, take_in
from dask_s3vm.frames import like_frame
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.clustering import Split, split_rows
from dask_s3vm.parameters.fields import fitted, parametrized
from dask_s3vm.parameters.methods import ClusteringParameters


@parametrized
class MaxMarginClustering(ClusteringParameters, ClusterMixin, LeastSquaresModel):
    """Maximum margin clustering with the square loss: the unsupervised case of `S2RLSC`.

    Looks for labels y in {-1, +1} and a model that minimize (Gieseke et al., eq. 16 and 17)::

        1/n sum_i (y_i - w.x_i)^2 + lam |w|^2

    with about a share `balance` of the rows positive; see `S2RLSC` for the search, and for what
    `sharded` does. More than two clusters are made by splitting the largest one in two, again and
    again.

    References
    ----------
    F. Gieseke, O. Kramer, A. Airola, T. Pahikkala. Efficient Recurrent Local Search Strategies for
    Semi- and Unsupervised Regularized Least-Squares Classification.

    Examples
    --------
    >>> from dask_s3vm import MaxMarginClustering
    >>> from dask_s3vm.datasets import make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = MaxMarginClustering(n_restarts=10, random_state=0)
    >>> same = (model.fit_predict(X) == y).mean().compute()
    >>> bool(max(same, 1 - same) > 0.95)
    True
    """

    labels_: Any = fitted(
        "array of shape (n,)",
        "Cluster of each row, 0 for that of the first; a dask array if X is one.",
    )
    coef_: np.ndarray = fitted(
        "ndarray of shape (n_clusters - 1, d)",
        "Weights of each split, of the features that `kernel_map_` makes if there is one.",
    )
    intercept_: np.ndarray = fitted("ndarray of shape (n_clusters - 1,)", "Biases.")
    parents_: np.ndarray = fitted(
        "ndarray of shape (n_clusters - 1,)",
        "The cluster that each split cuts; rows on its positive side go to a new one.",
    )
    objective_: float | np.ndarray = fitted(
        "float or ndarray of shape (n_clusters - 1,)",
        "The objective above, over the rows of the cluster that is split.",
    )

    @interruptible
    def fit(self, X: Any, y: Any = None) -> "MaxMarginClustering":
        """Cluster the rows.

        Parameters
        ----------
        X : array of shape (n, d), or a frame
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these; or a DataFrame, as
            for the classifiers.
        y : ignored

        Returns
        -------
        self
        """
        self._validate_params()
        self._check_kernel()
        check_resumable(self)
        search = search_settings(self)
        opened = open_rows(X)
        X = opened.X
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
            with recorded(self, engine, {}, self.n_clusters - 1) as record:
                labels, splits = split_rows(record, engine, self, search)
        finally:
            engine.close()
        self.kernel_map_ = kernel_map
        self.n_rounds_ = record.rounds
        self.history_ = record.history
        self._keep_splits(splits, engine.layout.n_features)
        self._to_columns()
        self.labels_ = like_rows(labels, as_array(X), source.summary.block_rows)
        opened.set_names_on(self)
        return self

    def predict(self, X: Any) -> Any:
        """Cluster of each row by the splits: array of shape (n,), lazy if X is; see `fit`."""
        outputs = self.decision_function(X)
        if not is_dask(outputs):
            return like_frame(clusters_of(outputs, self.parents_), X)
        more = {"drop_axis": 1} if outputs.ndim == 2 else {}
        clusters = outputs.map_blocks(
            clusters_of, parents=self.parents_, dtype=np.int64, meta=np.empty(0, np.int64), **more
        )
        return like_frame(clusters, X)

    def _keep_splits(self, splits: list[Split], n_features: int) -> None:
        weights = np.array([split.w for split in splits]).reshape(len(splits), n_features + 1)
        self.coef_ = np.ascontiguousarray(weights[:, :-1])
        self.intercept_ = weights[:, -1].copy()
        self.parents_ = np.array([split.parent for split in splits], dtype=np.int64)
        self.objective_ = one_or_all([split.fitness for split in splits])


def clusters_of(outputs: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Cluster of each row: follow the splits in order."""
    sides = outputs.reshape(len(outputs), len(parents)) > 0
    labels = np.zeros(len(outputs), dtype=np.int64)
    for number, parent in enumerate(parents):
        labels[(labels == parent) & sides[:, number]] = number + 1
    return labels
