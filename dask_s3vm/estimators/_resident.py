"""Rows that are in an engine already: what many fits on the same rows are given in place of X."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.features import KernelMap


@dataclass(frozen=True)
class Resident:
    """Checked rows in an engine; `fit(resident, None)` trains on them and leaves them there.

    Rows of weight 0 count for nothing, so a part of the rows is chosen by weights in the shards.
    A model fitted so has no `transduction_`: it is None.

    engine : the rows, or features of them, with class numbers.
    classes : the classes.
    n_features : columns of X.
    names : names of the columns, where X has them.
    kernel_map : what made the features, or None.
    block_rows : number of rows of each block of X.
    rows : the rows themselves, for estimators with exact kernel columns; None for all others.
    """

    engine: Engine
    classes: np.ndarray
    n_features: int
    names: np.ndarray | None
    kernel_map: KernelMap | None
    block_rows: tuple[int, ...]
    rows: Any = None

    def tell(self, estimator: Any) -> None:
        """Set what an estimator knows of X.

        Sets: n_features_in_, feature_names_in_.
        """
        estimator.n_features_in_ = self.n_features
        if self.names is not None:
            estimator.feature_names_in_ = self.names
