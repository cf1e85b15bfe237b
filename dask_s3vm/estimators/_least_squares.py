"""RLSC, S2RLSC: least squares in closed form, and with labels that are searched."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dask_s3vm.estimators._base import LinearS3VM, Seeds, Solver, fit_path
from dask_s3vm.estimators._fit_rows import FitRows
from dask_s3vm.estimators._least_squares_model import (
    LeastSquaresModel,
    check_population,
    search_settings,
)
from dask_s3vm.estimators._safe import GuardedS3VM
from dask_s3vm.exceptions import warn
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.base import BinaryJob, BinaryTask
from dask_s3vm.methods.projected import Projection, reduce_all
from dask_s3vm.methods.rlsc import (
    ChosenLam,
    RLSCModel,
    RLSCTraining,
    choose_lam,
    fewest_errors,
    lams_to_scale,
)
from dask_s3vm.methods.run import HistoryRow
from dask_s3vm.methods.s2rlsc import (
    LabeledSolution,
    LabelSearch,
    Projected,
    Window,
    label_array,
    prepare_rows,
    window_of,
)
from dask_s3vm.parameters.fields import fitted, parametrized
from dask_s3vm.parameters.methods import RLSCParameters, S2RLSCParameters
from dask_s3vm.parameters.shared import ShardedSearch

#: balance_tol=None with balance="paper".
PAPER_TOL = 0.1


@parametrized
class RLSC(RLSCParameters, LeastSquaresModel, LinearS3VM):
    """Regularized least-squares classification, in closed form.

    Minimizes, over the labeled rows (Gieseke et al., eq. 1, with the square loss)::

        1/l sum_i (y_i - w.x_i)^2 + lam |w|^2,    y_i in {-1, +1}

    with sample weights, their shares in the sum stand for 1/l; class weights multiply it. The bias
    is a component of w like the others, and regularized with them. One pass over the rows and one
    eigendecomposition serve every lam; a second pass gives the leave-one-out errors of all of them.

    This is the problem of ``Ridge(alpha=lam * l)`` on y in {-1, +1}, with a column of ones in place
    of its intercept.

    With ``safe=True`` unlabeled rows are used, without a guess of their labels (Krijthe & Loog). Of
    the models that minimize, over all n rows::

        J(w; q) = 1/n (sum_lab (y_i - w.x_i)^2 + sum_unl (q_j - w.x_j)^2) + lam |w|^2

    for some labels -1 <= q_j <= 1, the one nearest to the supervised model is taken, in the metric
    of J. Then J is not larger than that of the supervised model, for any labels q, the true ones
    included. This is a statement about the quadratic loss; classes may still come out worse.

    References
    ----------
    F. Gieseke, O. Kramer, A. Airola, T. Pahikkala. Efficient Recurrent Local Search Strategies for
    Semi- and Unsupervised Regularized Least-Squares Classification.
    J. H. Krijthe, M. Loog. Projected estimators for robust semi-supervised classification. Machine
    Learning 106, 2017.

    Examples
    --------
    >>> from dask_s3vm import RLSC
    >>> from dask_s3vm.datasets import make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = RLSC(lam=[0.01, 0.1, 1.0]).fit(X, y)
    >>> bool(model.loo_errors_.min() < 0.05)
    True
    """

    lam_: float = fitted("float", "The lam that was taken.")
    lams_: np.ndarray = fitted("ndarray of shape (n_lams,)", "All values of lam.")
    loo_errors_: np.ndarray = fitted(
        "ndarray of shape (n_lams,)",
        "Share of labeled rows that a model of the other rows puts into a wrong class. Left out is "
        "the term of the row: the others keep their 1/l.",
    )
    loo_losses_: np.ndarray = fitted(
        "ndarray of shape (n_lams,)",
        "Mean squared residual of these predictions, added over the binary problems.",
    )

    def _train(self, rows: FitRows, models: Sequence[Any], seeds: Seeds | None) -> list[Any]:
        lams = [
            lam
            for model in models
            for lam in (lams_to_scale(rows.engine) if model.lam is None else check_lams(model.lam))
        ]
        training = RLSCTraining(rows.engine, rows.positives, rows.costs, lams, self.fit_intercept)
        found = rows.record.run("models", training).models
        chosen = [fewest_errors(found)] if len(models) == 1 else found
        if self.safe and rows.totals.unlabeled_weight > 0:
            moved = self._projected(rows, chosen)
            found = [moved.get(one.lam, one) for one in found]
        return [found] if len(models) == 1 else [[one] for one in found]

    def _uses_unlabeled(self, rows: FitRows) -> bool:
        return bool(self.safe)

    def _projected(self, rows: FitRows, models: Sequence[RLSCModel]) -> dict[float, RLSCModel]:
        """Project models, by lam; see `methods.projected`. All rows weigh alike in it."""
        reduced = reduce_all(
            rows.engine, rows.totals, rows.costs, rows.positives, self.fit_intercept
        )
        moved = {}
        for model in models:
            solved = []
            for number, (positive, one) in enumerate(
                zip(rows.positives, model.solved, strict=True)
            ):
                projection = Projection(reduced, number, one, model.lam)
                name = f"projection, class {positive}, lam {model.lam!r}"
                solved.append(rows.record.run(name, projection, {"class": positive}))
            moved[model.lam] = replace(model, solved=solved)
        return moved

    def _keep(self, solved: list[Any], rows: FitRows, history: list[HistoryRow]) -> None:
        chosen = fewest_errors(solved)
        self.lams_ = np.array([one.lam for one in solved], dtype=np.float64)
        self.lam_ = float(chosen.lam)
        self.loo_errors_ = np.array([one.loo_error for one in solved])
        self.loo_losses_ = np.array([one.loo_loss for one in solved])
        super()._keep(chosen.solved, rows, history)
        self._to_columns()

    def _keep_course(self, solved: list[Any], history: list[HistoryRow]) -> None:
        ended = [replace(one, termination="converged") for one in solved]
        super()._keep_course(ended, history)
        if any(one.termination == "max_iter" for one in solved):
            self.termination_ = "max_iter"
            warn(
                "RLSC: the projection did not converge, and the supervised model was kept; a "
                "larger lam makes it easier",
                ConvergenceWarning,
            )


@interruptible
def rlsc_path(
    X: Any, y: Any, lams: Sequence[float], *, sample_weight: Any = None, **params: Any
) -> list[RLSC]:
    """Train an `RLSC` for each of several `lam`, from one eigendecomposition.

    Parameters
    ----------
    X, y, sample_weight : see `RLSC.fit`.
    lams : values of lam, in any order.
    **params : other parameters of `RLSC`.

    Returns
    -------
    Fitted estimators, in the order of `lams`, each with its own leave-one-out error.
    """
    models = [RLSC(lam=lam, **params) for lam in check_lams(lams, "lams")]
    fit_path(models, X, y, sample_weight)
    return models


def check_lams(lam: Any, name: str = "lam") -> list[float]:
    """Values of lam as a list, checked."""
    if isinstance(lam, (str, bytes, dict)):
        raise ValueError(f"{name} must be a number > 0, or several, got {lam!r}")
    values = np.atleast_1d(np.asarray(lam, dtype=object)).ravel()
    if len(values) == 0:
        raise ValueError(f"{name} is empty; wanted at least one value")
    for value in values:
        if not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(f"{name} must be finite and > 0, got {value!r}")
    return [float(value) for value in values]


@parametrized
class S2RLSC(S2RLSCParameters, ShardedSearch, LeastSquaresModel, GuardedS3VM):
    """Semi-supervised regularized least squares, by local search with restarts.

    The model is a mean of what the method finds and of `L2SVM`; see `supervised_part`.

    Looks for labels of the unlabeled rows and a model that minimize (Gieseke et al., eq. 10)::

        1/l sum_lab (y_i - w.x_i)^2 + lam_unlabeled/u sum_unl (y_j - w.x_j)^2 + lam |w|^2

    with about a share `positive_ratio` of the unlabeled rows positive. For given labels the best w
    is known in closed form; the labels are searched by flips of single rows, each of which costs
    O(r) for r columns or landmarks, whatever the number of rows (Theorem 2). Searches start from
    random labels, `n_restarts` times, in parallel; the best one wins. With ``lam_unlabeled=0`` this
    is exactly `RLSC`.

    The searches work on a factor of u x r numbers. With ``sharded=False`` it is given to every
    worker, and restarts are tasks. With ``sharded=True`` it stays where the rows are; restarts
    advance together, and each shard makes sweeps of a (1+1)-EA over its own rows between
    synchronizations, whatever `population` says. "auto" shards a factor of more than 256 MiB, which
    takes longer to send than to search.

    Notes
    -----
    With a dask client restarts are tasks on its workers; a worker that dies costs its restarts,
    which others run again. For an int as `random_state` the result does not depend on the number of
    workers or threads.

    References
    ----------
    F. Gieseke, O. Kramer, A. Airola, T. Pahikkala. Efficient Recurrent Local Search Strategies for
    Semi- and Unsupervised Regularized Least-Squares Classification.

    Examples
    --------
    >>> from dask_s3vm import S2RLSC
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = S2RLSC(positive_ratio=0.5, n_restarts=10, random_state=0)
    >>> model = model.fit(X, hide_labels(y, 20))
    >>> bool((model.transduction_ == y).mean().compute() > 0.95)
    True
    """

    transduction_: Any = fitted(
        "array of shape (n,)",
        "Labels of the training rows: those given, and those found by the search; `predict`, by a "
        "model that is partly the supervised SVM, may say otherwise. Predictions for more than two "
        "classes, and where `supervised_part_` is 1. A dask array if X is one.",
    )
    lam_: float = fitted("float", "The lam that was used.")

    _solution = LabeledSolution

    def _train(self, rows: FitRows, models: Sequence[Any], seeds: Seeds | None) -> list[list[Any]]:
        check_population(self.population)  # a mistake is found before anything is computed
        for model in models:
            model.lam_ = self._chosen_lam(rows) if model.lam is None else float(model.lam)
        if not rows.supervised:
            return super()._train(rows, models, seeds)
        lams = [model.lam_ for model in models]
        training = RLSCTraining(rows.engine, rows.positives, rows.costs, lams, self.fit_intercept)
        return [one.solved for one in rows.record.run("models", training).models]

    def _chosen_lam(self, rows: FitRows) -> float:
        n_labeled = int(rows.totals.counts.sum())
        choose = partial(
            choose_lam, rows.engine, rows.positives, rows.costs, self.fit_intercept, n_labeled
        )
        return rows.record.once("lam", ChosenLam, choose).lam

    def _alone(self) -> Any:
        # a lam for each fold would cost a decomposition as large as that of the search
        return super()._alone().set_params(lam=self.lam_)

    def _window(self, task: BinaryTask) -> Window:
        """Numbers of positive labels that a search may have."""
        if self.balance_tol is None and self.balance == "predictions":
            return Window(task.ratio, *task.count_window)
        tol = PAPER_TOL if self.balance_tol is None else self.balance_tol
        return window_of(task.n_unlabeled, task.ratio, tol)

    def _solver(self, rows: FitRows, models: Sequence[Any]) -> Solver:
        totals, settings = rows.totals, search_settings(self)
        reduced = prepare_rows(
            rows.engine,
            rows.costs,
            self.lam_unlabeled / totals.unlabeled_weight,
            self.fit_intercept,
            rows.positives,
            self.center,
        )
        projected = Projected(reduced, self.dtype)

        def solve(rows: FitRows, job: BinaryJob) -> LabeledSolution:
            window = self._window(job.task)
            search = LabelSearch(
                reduced,
                models[job.place].lam_,
                totals.n_unlabeled,
                self.sharded,
                self.dtype,
                projected,
            )
            return search.run(
                job.record, job.name, job.tags, job.number, window, settings, job.start
            )

        return solve

    def _found_labels(self, rows: FitRows, solved: list[Any]) -> Any:
        if rows.supervised or len(solved) > 1:
            return None
        return label_array(rows.engine, solved[0], rows.weighted)

    def _keep(self, solved: list[Any], rows: FitRows, history: list[HistoryRow]) -> None:
        super()._keep(solved, rows, history)
        self._to_columns()
        self.sharded_ = not rows.supervised and solved[0].sharded


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
    fit_path(models, X, y, sample_weight)
    return models
