"""What the supervised SVM does with labeled rows that it has not seen.

Both models of a blend have seen the labels, and few labels are fitted by nearly every model. Folds
of the labeled rows tell more: the supervised SVM is trained without each of them, and makes e
mistakes on the rows held out. Few rows are divided into folds several times, and e is the mean: of
three labels of a class, one division may miss one more than another. Two rules use that number.
Mistakes count by sample weights and by costs of classes.

A method that makes more than e mistakes on labels that it *has* seen is not believed at all; see
`methods.blend`.

Where one class is rare and e is more than the number of its labels, fewer mistakes are made by
predicting the other class always. The order of the rows is then worth little, and a share of
predictions that agrees with the ratio r costs up to 2r in error. So as few rows are predicted to be
of the rare class as the interval of the ratio allows; where it allows none, half of the ratio at
most. An interval that has 1/2 in it does not tell which class is rare. With two or three labels of
a class, folds of them miss it easily: e must be more by a row and a half.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import hold_out
from dask_s3vm.methods.base import BinaryTask
from dask_s3vm.methods.l2svm import train_beside
from dask_s3vm.methods.labeled_rows import place_labeled
from dask_s3vm.numerics.linalg import one_blas_thread
from dask_s3vm.problems.fold_scores import LabeledRows, gather_labeled
from dask_s3vm.problems.folds import N_FOLDS, assign_folds
from dask_s3vm.problems.hinge import outputs_at
from dask_s3vm.solvers.few_rows import outputs_of_svms

#: Up to so many labeled rows, all folds are trained at once, by the inner products of the rows. Of
#: 40 rows and 256 columns, that took 0.9-1.4 ms for lam from 1e-6 to 1e3, and Newton steps on the
#: columns 4-28 ms; of 100 rows of text 4-5 ms, and 5-53 ms.
FEW_ROWS = 100

#: Relative gap of the models of the folds, and most Newton steps: only signs of outputs count.
FOLD_TOL = 1e-3
FOLD_STEPS = 50

#: Labeled rows that should be gained, how far from that a gain leaves the choice open, and what is
#: clear: here of one class that is always predicted, in `methods.safe` of a method.
LEAST_GAIN = 1.0
OPEN = 0.5
CLEAR_GAIN = LEAST_GAIN + OPEN

#: Costs that differ by less than this part are equal: they are sums in different orders.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Mistakes:
    """Mistakes on labeled rows that a model has not seen.

    wrong : what they cost.
    positive, negative : what it costs to have all labeled rows of a class wrong.
    n_rows : number of labeled rows.
    """

    wrong: float
    positive: float
    negative: float
    n_rows: int

    def are_fewer_than(self, cost: float) -> bool:
        """Whether these mistakes cost less than others."""
        return self.wrong * (1.0 + ROUNDING) < cost

    def speaks_for_one_class(self, interval: tuple[float, float]) -> bool:
        """Whether the class that is not rare, always predicted, makes clearly fewer mistakes.

        interval : of the share of positive rows; it and the labels must agree on what is rare.
        """
        low, high = interval
        if high < 0.5:
            rare, other = self.positive, self.negative
        elif low > 0.5:
            rare, other = self.negative, self.positive
        else:
            return False
        gain = CLEAR_GAIN * (rare + other) / self.n_rows
        return rare < other and (rare + gain) * (1.0 - ROUNDING) <= self.wrong


def unseen_mistakes(
    engine: Engine,
    task: BinaryTask,
    *,
    lam: float,
    fit_intercept: bool,
    labeled: LabeledRows | None = None,
) -> Mistakes:
    """Mistakes of the supervised SVM, trained on the other folds.

    Parameters
    ----------
    engine : rows with class numbers.
    task : what is positive, and what labeled rows cost.
    lam, fit_intercept : see `estimators.L2SVM`.
    labeled : the labeled rows, if they are here already.

    Costs: if not, 1 round, and they come to the client; the folds are trained in this process.
    """
    labeled = gather_labeled(engine) if labeled is None else labeled
    weights = labeled.weights
    costs = weights * task.costs[labeled.codes]
    positive = labeled.codes == task.positive
    divisions = assign_folds(positive, np.arange(len(positive)))
    held = [folds == fold for folds, fold in product(divisions, range(N_FOLDS))]
    # costs are shares of the weight of all labeled rows: here, of those that are left
    total = float(np.add.reduce(weights))
    left = [float(np.add.reduce(weights[~out])) / total for out in held]
    train = _outputs_of_few if len(positive) <= FEW_ROWS else _outputs_of_many
    found = train(labeled, task, held, left, lam, fit_intercept)
    wrong = np.zeros(len(costs))
    for out, outputs in zip(held, found, strict=True):
        wrong[out] += ((outputs > 0.0) != positive)[out] / len(divisions)
    totals = [float(np.add.reduce(costs * which)) for which in (wrong, positive, ~positive)]
    return Mistakes(totals[0], totals[1], totals[2], len(costs))


def _outputs_of_few(
    labeled: LabeledRows,
    task: BinaryTask,
    held: list[np.ndarray],
    left: list[float],
    lam: float,
    fit_intercept: bool,
) -> Iterable[np.ndarray]:
    """Outputs of all labeled rows without each fold `held`, all folds at the same time."""
    costs = labeled.weights * task.costs[labeled.codes]
    of_folds = np.array([~out * costs / share for out, share in zip(held, left, strict=True)])
    y = np.where(labeled.codes == task.positive, 1.0, -1.0)
    with one_blas_thread():
        K = labeled.products + float(fit_intercept)
        return outputs_of_svms(K, y, of_folds, lam, FOLD_TOL, FOLD_STEPS)


def _outputs_of_many(
    labeled: LabeledRows,
    task: BinaryTask,
    held: list[np.ndarray],
    left: list[float],
    lam: float,
    fit_intercept: bool,
) -> Iterable[np.ndarray]:
    """The same, one fold after the other."""
    with closing(place_labeled(labeled, len(task.costs))[0].engine()) as here:
        for out, share in zip(held, left, strict=True):
            here.forget()
            here.each(hold_out, np.flatnonzero(out))
            own = replace(task, costs=task.costs / share)
            w = train_beside(
                here, own, lam=lam, fit_intercept=fit_intercept, tol=FOLD_TOL, max_iter=FOLD_STEPS
            ).w
            yield np.concatenate(here.each(outputs_at, w, float(fit_intercept)))
