"""What all classifiers do alike: take rows in, train each binary problem, keep what was found.

The calls of a fit, and who overrides them:

    fit                        is fit_path with one model
      _placed                  rows into an engine; classes, costs, ratios, record
      _find                    `GuardedS3VM`: what the folds of the guard decide
        _train                 `RLSC`, `S2RLSC`: what all binary problems share is computed first
          _train_class
            _solve             each estimator: one binary problem
            _solver            in place of _solve, where binary problems share work
          weighed, settled     balance, and the part of the supervised SVM: see `_settled`
        _found_labels          labels that a method has found by itself
      _keep, _keep_labels      fitted attributes; estimators add their own
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from dask_s3vm.engine.lanes import run_together
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.estimators._fit_rows import (
    FitRows,
    Found,
    last_weights,
    place_rows,
    positives_of,
)
from dask_s3vm.estimators._linear import LinearClassifier
from dask_s3vm.estimators._ratio import positive_ratios
from dask_s3vm.estimators._record import check_resumable, recorded
from dask_s3vm.estimators._rows import (
    Opened,
    PlacedRows,
    check_for_folds,
    class_costs,
    has_unlabeled,
    open_rows,
)
from dask_s3vm.estimators._settled import SettledModel, Weighed, check_steps, settled, weighed
from dask_s3vm.exceptions import warn
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.base import (
    ENDINGS,
    BinaryJob,
    BinarySolution,
    BinaryTask,
    ClassTotals,
    Start,
    class_totals,
)
from dask_s3vm.methods.ratio import RatioEstimate
from dask_s3vm.methods.run import HistoryRow
from dask_s3vm.methods.side_by_side import records_of
from dask_s3vm.parameters.methods import MethodParameters

#: What fits for smaller and smaller lam hand on, by the positive class; see `methods.base`.
Seeds = dict[int, Any]

#: Solves one binary problem for one model.
Solver = Callable[[FitRows, BinaryJob], Any]


class LinearS3VM(MethodParameters, SettledModel, LinearClassifier):
    """Base of the classifiers.

    With a kernel the methods are linear in the features of the rows; see `features.kernel_map`.
    """

    unlabeled: Any
    #: defaults of parameters that not every estimator declares
    class_weight: Any = None
    warm_start: bool = False
    balance: str = "paper"
    probability: bool = False

    #: what `max_iter` counts
    _counted = "Newton steps"
    #: type of the solution of a binary problem
    _solution: ClassVar[Any] = BinarySolution
    #: whether several binary problems can be solved at once, each with row state of its own
    _in_lanes = True

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the model.

        Parameters
        ----------
        X : array of shape (n, d), or a frame
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these; or a DataFrame of
            pandas, dask or polars, or any table that speaks Arrow. Columns that are not numbers are
            encoded by a `TableEncoder`, which becomes `encoder_`.
        y : array of shape (n,), numpy or dask, or str
            Labels; `unlabeled` marks rows without one. Or the name of a column of X, which is then
            no feature.
        sample_weight : array of shape (n,), numpy or dask, or None
            Weights of the rows, within the labeled and within the unlabeled ones.

        Returns
        -------
        self
        """
        fit_path([self], X, y, sample_weight)
        return self

    # What an estimator says ---------------------------------------------------------------------

    def _solve(self, rows: FitRows, job: BinaryJob) -> Any:
        """Solve one binary problem, by `job.run`."""
        raise NotImplementedError

    def _start(self, rows: FitRows, task: BinaryTask, place: int, start: Start) -> Start:
        """Where a binary problem starts; `place` is that of the model."""
        return start

    def _solver(self, rows: FitRows, models: Sequence[Any]) -> Solver:
        """Prepare what the binary problems share, and return what solves one of them.

        If they share row state, `_in_lanes` is False.
        """

        def solve(rows: FitRows, job: BinaryJob) -> Any:
            return models[job.place]._solve(rows, job)

        return solve

    def _task_costs(self, rows: FitRows) -> np.ndarray:
        """Cost of a labeled row by its class; `STARSVM` has its own."""
        return rows.costs

    def _is_supervised(self, totals: ClassTotals) -> bool:
        """Whether only labeled rows are trained on; warns if y was expected to have others."""
        if self.facts.supervised:
            return True
        return not has_unlabeled(self, totals) or getattr(self, "lam_unlabeled", None) == 0

    def _found_labels(self, rows: FitRows, solved: list[Any]) -> Any:
        """Class number of each row, where the method found some; None: predict them."""
        return None

    # Training -----------------------------------------------------------------------------------

    def _tasks(self, rows: FitRows) -> list[BinaryTask]:
        """The binary problems: one for two classes, else one-vs-rest."""
        totals, costs = rows.totals, self._task_costs(rows)
        size = totals.n_unlabeled, totals.unlabeled_weight
        if not rows.ratios:
            return [BinaryTask(positive, costs, *size) for positive in rows.positives]
        competes = len(rows.positives) > 1
        return [
            BinaryTask(positive, costs, *size, ratio.value, ratio.interval, competes=competes)
            for positive, ratio in zip(rows.positives, rows.ratios, strict=True)
        ]

    def _train(self, rows: FitRows, models: Sequence[Any], seeds: Seeds | None) -> list[list[Any]]:
        """Solve every binary problem for every model, each from the seed of the one before.

        Returns solutions by model, then by binary problem.

        Several problems are solved at once where they share no row state.
        """
        rows = self._with_labeled(rows)
        solve = self._solver(rows, models)
        tasks = self._tasks(rows)
        if len(tasks) > 1 and self._in_lanes:
            with records_of(rows.record, "classes", len(tasks)) as records:

                def work(number: int, engine: Engine) -> list[Weighed]:
                    own, task = replace(rows, engine=engine, record=records[number]), tasks[number]
                    solved = self._train_class(solve, number, task, models, seeds, own)
                    return weighed(models, own, task, solved)

                works = [partial(work, number) for number in range(len(tasks))]
                by_class = run_together(rows.engine, works)
        else:
            found = [
                self._train_class(solve, number, task, models, seeds, rows)
                for number, task in enumerate(tasks)
            ]
            # only now: classes may share row state, and this uses it
            by_class = [weighed(models, rows, *one) for one in zip(tasks, found, strict=True)]
        return settled(models, rows, tasks, by_class)

    def _train_class(
        self,
        solve: Solver,
        number: int,
        task: BinaryTask,
        models: Sequence[Any],
        seeds: Seeds | None,
        rows: FitRows,
    ) -> list[Any]:
        """Solve one binary problem for every model."""
        seed = None if seeds is None else seeds.get(task.positive)
        found: list[Any] = []
        tags: HistoryRow = {"class": task.positive}
        for place, model in enumerate(models):
            start = Start(rows.start_of(number), seed, seeds is not None)
            start = model._start(rows, task, place, start)
            name = f"class {task.positive}, model {place}"
            if "lam" in self.facts.columns:
                tags = {**tags, "lam": float(getattr(model, "lam_", model.lam))}
            job = BinaryJob(rows.engine, rows.record, task, start, name, tags, place, number)
            solution = rows.record.once(name, self._solution, partial(solve, rows, job))
            seed = solution.seed
            found.append(solution)
        if seeds is not None:
            seeds[task.positive] = seed
        rows.record.ended(tags)
        return found

    def _find(
        self, rows: FitRows, models: Sequence[Any], seeds: Seeds | None, with_labels: bool
    ) -> list[Found]:
        """Train all models; `with_labels` if labels that a method finds are wanted."""
        return [
            Found(rows, solved, self._found_labels(rows, solved) if with_labels else None)
            for solved in self._train(rows, models, seeds)
        ]

    def _trial(self) -> "LinearS3VM":
        """The model to train on folds."""
        return clone(self)

    def _uses_unlabeled(self, rows: FitRows) -> bool:
        """Whether what was trained depends on the unlabeled rows."""
        return not rows.supervised

    def _find_probabilities(self, rows: FitRows, solved: list[Any], place: int) -> None:
        """Set `calibration_`; `place` is the number of the model in its path."""
        self.calibration_ = None
        if self.probability:
            from dask_s3vm.estimators._calibration import find_calibration

            name = f"calibration of model {place}"
            self.calibration_ = find_calibration(self, rows, solved, name)

    def _keep(self, solved: list[Any], rows: FitRows, history: list[HistoryRow]) -> None:
        """Set the fitted attributes, and warn where a fit did not converge.

        Sets: coef_, intercept_, objective_, supervised_part_, n_iter_, termination_, history_.
        """
        w = rows.engine.layout.to_external(np.stack([one.w for one in solved]))
        check_steps(type(self).__name__, w[:, :-1], solved, rows.is_trial)
        self.coef_ = np.ascontiguousarray(w[:, :-1])
        self.intercept_ = w[:, -1].copy()
        self._keep_course(solved, history)

    def _keep_course(self, solved: list[Any], history: list[HistoryRow]) -> None:
        """Set how the models were found."""
        self.objective_ = one_or_all([one.objective for one in solved])
        if hasattr(self, "supervised_part"):
            self.supervised_part_ = one_or_all([one.supervised_part for one in solved])
        self.n_iter_ = max(1, *(one.n_iter for one in solved))
        self.termination_ = max((one.termination for one in solved), key=ENDINGS.index)
        self.history_ = history
        if self.termination_ == "max_iter":
            most = getattr(self, "max_iter", self.n_iter_)  # an own method may have another name
            warn(
                f"{type(self).__name__} did not converge in max_iter={most} {self._counted}; "
                "increase max_iter or tol, or regularize more",
                ConvergenceWarning,
            )

    def _keep_labels(self, X: Any, y: Any, rows: FitRows, found: Any) -> None:
        """Set what is known of the unlabeled rows.

        Sets: positive_ratio_, positive_ratio_interval_, transduction_.
        """
        self._keep_ratios(rows)
        labels = None if found is None or self._is_replaced else self.classes_[found]
        self.transduction_ = self._complete(X, y, rows.block_rows, labels)

    @property
    def _is_replaced(self) -> bool:
        """Whether the model is the supervised SVM alone, whose labels a method has not found."""
        return bool(np.all(getattr(self, "supervised_part_", 0.0) == 1.0))

    def _keep_ratios(self, rows: FitRows) -> None:
        self.positive_ratio_ = one_or_all([one.value for one in rows.ratios])
        intervals = np.array([one.interval for one in rows.ratios])
        self.positive_ratio_interval_ = intervals[0] if len(intervals) == 1 else intervals

    # Rows in an engine --------------------------------------------------------------------------

    @contextmanager
    def _placed(
        self, X: Any, y: Any, sample_weight: Any, lams: Sequence[Any] = ()
    ) -> Iterator[FitRows]:
        """Check parameters and data, and have the rows in an engine for a while.

        `lams` are the other lams of a path of models; they identify its checkpoint. Who has placed
        rows has checked the parameters.

        Sets: n_features_in_, feature_names_in_, classes_, n_rounds_, kernel_map_.
        """
        if not isinstance(X, PlacedRows):
            self._validate_params()
            self._check_kernel()
        check_resumable(self)
        extra: dict[str, Any] = {"lams": list(lams)}
        if isinstance(X, PlacedRows):
            X.set_names_on(self)
            with self._recorded(X, None, False, extra) as rows:
                yield replace(rows, is_trial=True)
            return
        start = last_weights(self)
        with place_rows(self, X, y, sample_weight, start) as placed:
            extra["start"] = start
            with self._recorded(placed, start, sample_weight is not None, extra) as rows:
                yield rows

    @contextmanager
    def _recorded(
        self, placed: PlacedRows, start: np.ndarray | None, weighted: bool, extra: dict[str, Any]
    ) -> Iterator[FitRows]:
        engine, classes = placed.engine, placed.classes
        rounds_before = engine.rounds
        totals = class_totals(engine, len(classes))
        costs = class_costs(classes, totals, self.class_weight)
        positives = positives_of(classes)
        supervised = self._is_supervised(totals)
        with recorded(self, engine, extra, len(positives), rounds_before) as record:
            ratios: list[RatioEstimate] = []
            if hasattr(self, "positive_ratio"):
                ratios = positive_ratios(
                    self, record, engine, classes, totals, positives, placed.known
                )
            yield FitRows(
                engine, classes, totals, costs, ratios, supervised, weighted, start,
                placed.block_rows, placed.exact_rows, record, placed.known,
            )  # fmt: skip
        self.classes_ = classes
        self.kernel_map_ = placed.kernel_map
        self.n_rounds_ = record.rounds

    def _wants_rows(self, X: Any) -> bool:
        """Whether a fit needs the rows themselves beside the placed ones."""
        return False


def fit_path(
    models: Sequence[Any], X: Any, y: Any, sample_weight: Any = None, seeds: Seeds | None = None
) -> None:
    """Fit models of one estimator that differ in lam alone, from the largest lam to the smallest.

    Parameters
    ----------
    models : what to fit.
    X, y, sample_weight : see `LinearS3VM.fit`; X may be `PlacedRows`.
    seeds : what fits for larger lam left, which is replaced by what these leave; None for fits that
        do not depend on each other.
    """
    is_placed = isinstance(X, PlacedRows)
    opened = Opened(X, y) if is_placed else open_rows(X, y)
    walk = list(models) if len(models) == 1 else sorted(models, key=lambda model: -model.lam)
    guide = walk[0] if len(walk) == 1 else clone(walk[0])  # does what the models share
    lams = [model.lam for model in walk[1:]]
    with guide._placed(opened.X, opened.y, sample_weight, lams) as rows:
        if guide.probability:
            check_for_folds(rows.classes, rows.totals.counts)
        found = guide._find(rows, walk, seeds, with_labels=not is_placed)
        for place, (model, one) in enumerate(zip(walk, found, strict=True)):
            model._find_probabilities(one.rows, one.solved, place)
    for model, one in zip(walk, found, strict=True):
        history = rows.record.history
        if model is not guide:
            history = [row for row in history if row["lam"] == model.lam]
            for name in _SHARED:
                if hasattr(guide, name):
                    setattr(model, name, getattr(guide, name))
        if not is_placed:
            vars(model).pop("encoder_", None)  # X is encoded, and is predicted below
        model._keep(one.solved, one.rows, history)
        if hasattr(model, "positive_ratio"):
            model._keep_labels(opened.X, opened.y, one.rows, one.labels)
        if not is_placed:
            opened.set_names_on(model)


#: What the models of a path have in common.
_SHARED = ("classes_", "n_features_in_", "feature_names_in_", "n_rounds_", "kernel_map_")


def one_or_all(values: Sequence[float]) -> Any:
    """One number of a binary problem, or an array with one for each class."""
    return float(values[0]) if len(values) == 1 else np.array(values)
