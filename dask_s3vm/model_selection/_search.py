"""Base of the searches: score candidates, choose one, train it, and predict with it."""

import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.estimators._paths import facts_of, refit_path
from dask_s3vm.estimators._rows import Opened, open_rows
from dask_s3vm.exceptions import warn
from dask_s3vm.features.landmarks import take_rows
from dask_s3vm.frames import is_pandas_frame, take_label
from dask_s3vm.interrupts import interruptible
from dask_s3vm.labels import AUTO
from dask_s3vm.model_selection._results import (
    Scoring,
    best_candidate,
    check_choice,
    is_multimetric,
    results_table,
    scoring_of,
)
from dask_s3vm.model_selection._run import Job, pieces_of, placements, run
from dask_s3vm.model_selection._splits import Fold, Labeled, folds_of, labeled_rows
from dask_s3vm.model_selection._store import SearchProgress, Store, fingerprint_of
from dask_s3vm.model_selection._trials import Trials, trials_of, with_few_unlabeled


def _refitted(name: str) -> Callable[[Any], bool]:
    """Return a check whether the estimator of a search, fitted or not, has a method."""

    def check(search: Any) -> bool:
        return hasattr(getattr(search, "best_estimator_", search.estimator), name)

    return check


class S3VMSearch(MetaEstimatorMixin, BaseEstimator):
    """Base of searches; see `S3VMGridSearchCV`."""

    estimator: Any
    scoring: Any
    refit: Any
    cv: Any
    test_set: Any
    warm_path: bool
    ties: str
    final_params: dict[str, Any] | None
    error_score: Any
    return_train_score: bool
    checkpoint: Any
    callbacks: Any
    verbose: Any

    @abstractmethod
    def _candidates(self) -> list[dict[str, Any]]:
        """Return the parameters of the candidates."""

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "S3VMSearch":
        """Score all candidates, choose one, and train it on all rows.

        Parameters
        ----------
        X : array of shape (n, d)
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
        y : array of shape (n,), numpy or dask
            Labels; `unlabeled` of the estimator marks rows without a label.
        sample_weight : array of shape (n,), numpy or dask, or None
            Weights of the rows in training; scores are not weighted.

        Returns
        -------
        self
        """
        candidates = self._candidates()
        check_choice(self, candidates)
        if isinstance(self.estimator, LinearS3VM) or not is_pandas_frame(X):
            opened = open_rows(X, y)  # the final fit opens X again, and keeps how
        else:  # what becomes of the columns is up to the estimator, such as a pipeline
            X, y = take_label(X, y) if isinstance(y, str) else (X, y)
            opened = Opened(X, y)
        job, trials = self._job(candidates, opened.X, opened.y, sample_weight)
        with closing(Store(self.checkpoint, lambda: self._fingerprint(job, candidates))) as store:
            progress = SearchProgress(self, candidates, trials.of, len(job.folds), store.scores())
            for piece, found, seeds in run(job, store.done(), store.seeds):
                store.save(piece, found, seeds)
                progress.add(found)
            progress.close()
        self.n_splits_ = len(job.folds)
        self.scenario_ = "realistic" if job.test_set is None else "non-realistic"
        self.multimetric_ = is_multimetric(self.scoring)
        self.scorer_ = job.scoring.scorers if self.multimetric_ else job.scoring.scorers["score"]
        decisive = self.refit if isinstance(self.refit, str) else job.scoring.names[0]
        scores = self._judge_failures(store.scores())
        scores = trials.settled(scores, decisive, len(job.labeled.y))
        self.cv_results_ = results_table(candidates, len(job.folds), scores, job.scoring.names)
        self._choose(candidates)
        if self.refit:
            self._refit(X, y, sample_weight)
        return self

    def _job(
        self, candidates: list[dict[str, Any]], X: Any, y: Any, sample_weight: Any
    ) -> tuple[Job, Trials]:
        """Check the parameters and the data, and make the job."""
        own = isinstance(self.estimator, LinearS3VM)
        models = self._models(candidates)
        for model in models.values() if own else ():
            model._validate_params()
            model._check_kernel()
            model.set_params(callbacks=None, verbose=False)  # only for the final fit
        unlabeled = getattr(self.estimator, "unlabeled", AUTO)
        facts = facts_of(self.estimator)
        supervised = facts is not None and facts.supervised
        labeled = labeled_rows(X, y, unlabeled, supervised)
        if self.test_set is None:
            folds, test_set = folds_of(self.cv, labeled, unlabeled), None
        else:
            folds = [Fold(np.zeros(0, dtype=np.intp), None)]
            test_set = self._test_rows(X, labeled)
        scoring = scoring_of(self.estimator, self.scoring, self.return_train_score)
        trials = trials_of(models, self.test_set is None)
        catch = self.error_score != "raise"
        job = Job(
            X, y, sample_weight, trials.models, labeled, folds, test_set, scoring, self.warm_path,
            catch,
        )  # fmt: skip
        return (with_few_unlabeled(job) if trials.all_guarded else job), trials

    def _models(self, candidates: list[dict[str, Any]]) -> dict[int, Any]:
        """Return unfitted models by number of the candidate."""
        return {
            number: clone(self.estimator).set_params(**clone(params, safe=False))
            for number, params in enumerate(candidates)
        }

    def _test_rows(self, X: Any, labeled: Labeled) -> tuple[Any, np.ndarray]:
        """Return the rows and labels of `test_set`."""
        given = self.test_set
        if isinstance(given, (tuple, list)) and len(given) == 2:
            rows, labels = given
            if len(np.shape(rows)) != 2:
                raise ValueError(
                    f"test_set must be (X_test, y_test), got an X of shape {np.shape(rows)}"
                )
            return rows, labels if hasattr(labels, "dask") else np.asarray(labels)
        truth = np.asarray(given)
        if truth.shape != (labeled.n_rows,):
            raise ValueError(
                "test_set must be (X_test, y_test), or the true labels of all rows, of shape "
                f"({labeled.n_rows},); got {type(given).__name__} of shape {truth.shape}"
            )
        free = np.setdiff1d(np.arange(labeled.n_rows), labeled.numbers)
        if len(free) == 0:
            raise ValueError("test_set has labels for unlabeled rows, but y has no unlabeled row")
        return take_rows(X, free), truth[free]

    def _fingerprint(self, job: Job, candidates: list[dict[str, Any]]) -> dict[str, str]:
        """Return what identifies this search in a checkpoint."""
        params = self.estimator.get_params()
        facts = {
            "estimator": type(self.estimator).__name__,
            "parameters": {k: v for k, v in params.items() if k not in ("callbacks", "verbose")},
            "candidates": candidates,
            "models": [type(model).__name__ for model in job.models.values()],
            "scoring": {
                name: getattr(one, "__qualname__", None) or repr(one)
                for name, one in job.scoring.scorers.items()
            },
            "warm_path": self.warm_path,
            "return_train_score": self.return_train_score,
        }
        in_memory: Any = None if hasattr(job.X, "dask") else job.X
        weights = None if hasattr(job.sample_weight, "dask") else job.sample_weight
        if hasattr(in_memory, "to_scipy_sparse"):
            in_memory = in_memory.to_scipy_sparse()
        return fingerprint_of(job.labeled, in_memory, weights, job.folds, facts)

    def _judge_failures(self, scores: list[Any]) -> list[Any]:
        """Warn of fits that failed, or raise if all of them did."""
        failed = [score for score in scores if score.error is not None]
        if not failed:
            return scores
        first = min(failed, key=lambda score: (score.candidate, score.fold))
        what = f"{len(failed)} of {len(scores)} fits failed, the first one with {first.error}"
        if len(failed) == len(scores):
            raise ValueError(f"all fits failed: {what}")
        warn(f"{what}; their scores are {self.error_score}", FitFailedWarning)
        for score in failed:
            score.test.update(dict.fromkeys(score.test, float(self.error_score)))
            score.train.update(dict.fromkeys(score.train, float(self.error_score)))
        return scores

    def _choose(self, candidates: list[dict[str, Any]]) -> None:
        """Set the attributes of the best candidate; there is none with several scores, no refit."""
        for name in ("best_index_", "best_score_", "best_params_", "best_estimator_"):
            if hasattr(self, name):
                delattr(self, name)
        if self.multimetric_ and not self.refit:
            return
        index = best_candidate(self, candidates)
        self.best_index_ = index
        self.best_params_ = candidates[index]
        if not callable(self.refit):
            name = self.refit if self.multimetric_ else "score"
            self.best_score_ = float(self.cv_results_[f"mean_test_{name}"][index])

    def _refit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Train the chosen candidate on all rows."""
        began = time.perf_counter()
        path = [self._final_model(number) for number in self._path_to_best()]
        model = path[-1]
        if len(path) > 1:
            refit_path(path, X, y, sample_weight)
        else:
            model.fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
        self.best_estimator_ = model
        self.refit_time_ = time.perf_counter() - began
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_

    def _path_to_best(self) -> list[int]:
        """Return the candidates of larger lam whose seeds led to the best one, and the best one.

        Fitted alone, the best candidate might find another local minimum than the one that was
        scored.
        """
        models = self._models(self.cv_results_["params"])
        best = self.best_index_
        facts = facts_of(models[best])
        if not self.warm_path or facts is None or not facts.takes_seeds:
            return [best]
        (group,) = [numbers for numbers in placements(models) if best in numbers]
        (path,) = [
            piece.candidates
            for piece in pieces_of(models, group, 1, True)
            if best in piece.candidates
        ]
        return list(path[: path.index(best) + 1])

    def _final_model(self, number: int) -> Any:
        params = {**self.cv_results_["params"][number], **(self.final_params or {})}
        return clone(self.estimator).set_params(**clone(params, safe=False))

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_" if self.refit else "cv_results_")
        if not self.refit:
            raise AttributeError(
                f"there is no best_estimator_: {type(self).__name__} was created with refit=False"
            )
        return self.best_estimator_

    @property
    def classes_(self) -> np.ndarray:
        """The classes."""
        return self._best().classes_

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X."""
        return int(self._best().n_features_in_)

    @property
    def transduction_(self) -> Any:
        """Labels of the training rows found by the best estimator."""
        return self._best().transduction_

    @available_if(_refitted("predict"))
    def predict(self, X: Any) -> Any:
        """Return the classes of rows, by the best estimator."""
        return self._best().predict(X)

    @available_if(_refitted("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the outputs of rows, by the best estimator."""
        return self._best().decision_function(X)

    @available_if(_refitted("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes, by the best estimator."""
        return self._best().predict_proba(X)

    def score(self, X: Any, y: Any) -> float:
        """Return the score of the best estimator, by the scorer that chose it."""
        scorers = self.scorer_ if isinstance(self.scorer_, dict) else {"score": self.scorer_}
        name = self.refit if isinstance(self.refit, str) else next(iter(scorers))
        return Scoring({name: scorers[name]})(self._best(), X, y)[name]

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the estimator."""
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags
