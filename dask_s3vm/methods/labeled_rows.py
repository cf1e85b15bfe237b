"""The labeled rows alone, in this process: all that the supervised SVM depends on.

They are few as a rule. In an engine of all rows, every step of conjugate gradients works on vectors
of all columns, and is a round; on a cluster it waits for the workers. Here it has the columns in
which labeled rows have entries, and is part of a compiled loop. At the minimum the weights of all
other columns are 0.
"""

from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from dask_s3vm.engine.blocks import make_block
from dask_s3vm.engine.local import SharedRows
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.sources import Columns, LocalSource
from dask_s3vm.methods.base import BinarySolution, BinaryTask
from dask_s3vm.methods.l2svm import train_beside
from dask_s3vm.problems.fold_scores import LabeledRows, gather_labeled, used_columns


@dataclass(frozen=True)
class LabeledAlone:
    """The labeled rows that count, for several solves at the same time.

    rows : the rows, with the columns that occur in them.
    columns : internal numbers of these columns in the engine of all rows.
    n_features : internal columns of that engine.
    """

    rows: SharedRows
    columns: np.ndarray
    n_features: int

    def train(
        self, task: BinaryTask, *, lam: float, fit_intercept: bool, tol: float, max_iter: int
    ) -> BinarySolution:
        """Train the supervised SVM; weights are those of the engine of all rows.

        See `estimators.L2SVM` for the parameters.
        """
        with closing(self.rows.engine()) as engine:
            found = train_beside(
                engine, task, lam=lam, fit_intercept=fit_intercept, tol=tol, max_iter=max_iter
            )
        own = self.rows.layout.to_external(found.w)
        w = np.zeros(self.n_features + 1)
        w[self.columns], w[-1] = own[:-1], own[-1]
        return replace(found, w=w, seed=None)


def labeled_alone(engine: Engine, n_classes: int) -> LabeledAlone:
    """Bring the labeled rows together. Costs: see `gather_labeled`."""
    rows, columns = place_labeled(gather_labeled(engine), n_classes)
    return LabeledAlone(rows, columns, engine.layout.n_features)


def place_labeled(labeled: LabeledRows, n_classes: int) -> tuple[SharedRows, np.ndarray]:
    """Place gathered rows in this process: (the rows, the columns that they have)."""
    columns, rows = used_columns(labeled.rows)
    if len(columns) == 0:  # rows without any entry: their weights are 0
        columns, rows = np.arange(1), labeled.rows[:, :1]
    block = make_block(rows, labeled.codes, labeled.weights)
    source = LocalSource([block], Columns(None, None), own=True)
    return source.place(np.arange(n_classes), whole=True).shared_rows(), columns
