"""Searches over a grid, and over candidates drawn at random."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler

from dask_s3vm.model_selection._search import S3VMSearch


class S3VMGridSearchCV(S3VMSearch):
    """Try all candidates of a grid, and choose by cross-validation on the labeled rows.

    With few labels the choice must be honest about them: held-out rows are labeled rows, and every
    unlabeled row is in each training part. Rows are taken in and placed once. A fold is a mask:
    held-out rows get weight 0, which is as if they were not there. Candidates that differ in `lam`
    alone share work (see `warm_path`). Rows of up to `s3vm.local-bytes` (32 MiB) go to every worker
    of the current client, and each path on each fold is a task of its own; more rows stay in
    shards, over all workers, and paths and folds use all of these one after the other. The scores
    do not depend on which way it is, nor on the number of workers.

    Works with scikit-learn's estimators too (`dask_s3vm.baselines`); these get copies of the rows.

    Parameters
    ----------
    estimator : an estimator of this package, or of another
        Unfitted. Rows without a label are marked by its `unlabeled` (-1 where it has none).
    param_grid : dict, or list of dicts
        For each parameter the values to try.
    scoring : str, callable, list, dict or None, default=None
        scikit-learn's scorers, called with the held-out rows; None: `estimator.score`, accuracy.
    refit : bool, str or callable, default=True
        Whether to train the chosen candidate on all rows; with several scores, the name of the one
        that chooses; or a function of `cv_results_` that gives the number of the candidate.
    cv : int, splitter, iterable or None, default=None
        Folds: a number is `LabeledKFold(cv)`, None is 5. Of the splits of others, rows that are not
        in the training part are masked, and scores are those of the labeled rows in the test part.
    test_set : (X, y), array of shape (n,) or None, default=None
        The *non-realistic* scenario of Gieseke et al.: candidates are trained on all rows and
        judged on these rows, or, for an array of the true labels of all rows, on the unlabeled
        ones. Scores are too good then: the test labels have chosen. For what a method could do,
        not for what it will do. Not together with `cv`. Rows of a dask array stay lazy: score them
        with `scoring=metrics.LazyScorer("accuracy")`.
    warm_path : bool, default=True
        Whether `TSVM`, `DAS3VM`, `QNS3VM` and `S2RLSC` may use what was found for one lam as a seed
        for the next smaller one. They then find local minima that are as good, but not always
        the same as a fit on its own: the scores depend on the set of candidates (never on their
        order). False: every candidate as if it were fitted alone. `L2SVM` and `RLSC` have one
        minimum, and share work in any case.
    ties : {"first", "simplest"}, default="first"
        Which candidate wins of several of equal mean score, of which there are many if labels are
        few: the first in the grid; or the one of largest lam, then smallest C, lam_unlabeled and
        C_unlabeled, then the first.
    final_params : dict or None, default=None
        Parameters of the final model alone, as `{"n_restarts": 50}`.
    error_score : float or "raise", default=nan
        Score of a fit that fails.
    return_train_score : bool, default=False
        Whether to score the labeled training rows too.
    checkpoint : path or None, default=None
        Directory in which scores are kept as they come. A search that was stopped goes on from
        there; one of other data, candidates or folds is refused.
    callbacks : callable, sequence of callables or None, default=None
        Called with a dict for each finished fit: candidate, fold, params, score, seconds, done,
        total.
    verbose : bool, default=False
        Show a line of progress on standard error.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        As in scikit-learn: `params`, `param_*`, `split*_test_*`, `mean_test_*`, `std_test_*`,
        `rank_test_*`, times. The time of a fit on a path is an even share of the path's.
    best_index_, best_params_, best_score_ : int, dict, float
        The chosen candidate, and its mean score.
    best_estimator_ : estimator
        The chosen candidate, trained on all rows; `predict` and so on use it.
    refit_time_ : float
        Seconds of that training.
    scorer_ : callable or dict
        The scorers.
    n_splits_ : int
        Splits.
    scenario_ : str
        "realistic", or "non-realistic" with a `test_set`.
    multimetric_ : bool
        Whether there are several scores.

    Notes
    -----
    What is done without labels is done once, on all rows: landmarks of a kernel are drawn from
    all of them, and so is the width `sigma="scale"`. The share of positive rows, where
    `positive_ratio` is None, comes from the labels of each training part.

    Examples
    --------
    >>> from dask_s3vm import TSVM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> from dask_s3vm.model_selection import S3VMGridSearchCV
    >>> X, y = make_g2c(n_rows=300, n_features=20)
    >>> grid = {"lam": [1e-3, 1e-2, 1e-1], "lam_unlabeled": [0.1, 1.0]}
    >>> search = S3VMGridSearchCV(TSVM(positive_ratio=0.5), grid, cv=3).fit(X, hide_labels(y, 30))
    >>> bool(search.best_score_ > 0.8)
    True
    >>> search.n_splits_, search.scenario_
    (3, 'realistic')
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Any] | Iterable[Mapping[str, Any]],
        *,
        scoring: Any = None,
        refit: bool | str | Callable[..., int] = True,
        cv: Any = None,
        test_set: Any = None,
        warm_path: bool = True,
        ties: str = "first",
        final_params: dict[str, Any] | None = None,
        error_score: float | str = np.nan,
        return_train_score: bool = False,
        checkpoint: Any = None,
        callbacks: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.refit = refit
        self.cv = cv
        self.test_set = test_set
        self.warm_path = warm_path
        self.ties = ties
        self.final_params = final_params
        self.error_score = error_score
        self.return_train_score = return_train_score
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.verbose = verbose

    def _candidates(self) -> list[dict[str, Any]]:
        return list(ParameterGrid(self.param_grid))


class S3VMRandomizedSearchCV(S3VMSearch):
    """Draw candidates at random, and choose by cross-validation on the labeled rows.

    Parameters
    ----------
    estimator : an estimator of this package, or of another.
    param_distributions : dict, or list of dicts
        For each parameter a list, or a distribution with a method `rvs`.
    n_iter : int, default=10
        Candidates to draw.
    random_state : int, RandomState or None, default=0
        Draws them.
    scoring, refit, cv, test_set, warm_path, ties, final_params, error_score, return_train_score, \
checkpoint, callbacks, verbose : see `S3VMGridSearchCV`, also for the attributes.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from dask_s3vm import TSVM
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> from dask_s3vm.model_selection import S3VMRandomizedSearchCV
    >>> X, y = make_g2c(n_rows=300, n_features=20)
    >>> search = S3VMRandomizedSearchCV(
    ...     TSVM(positive_ratio=0.5), {"lam": loguniform(1e-3, 1)}, n_iter=4, cv=3
    ... ).fit(X, hide_labels(y, 30))
    >>> len(search.cv_results_["params"])
    4
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Mapping[str, Any] | Iterable[Mapping[str, Any]],
        *,
        n_iter: int = 10,
        random_state: Any = 0,
        scoring: Any = None,
        refit: bool | str | Callable[..., int] = True,
        cv: Any = None,
        test_set: Any = None,
        warm_path: bool = True,
        ties: str = "first",
        final_params: dict[str, Any] | None = None,
        error_score: float | str = np.nan,
        return_train_score: bool = False,
        checkpoint: Any = None,
        callbacks: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.random_state = random_state
        self.scoring = scoring
        self.refit = refit
        self.cv = cv
        self.test_set = test_set
        self.warm_path = warm_path
        self.ties = ties
        self.final_params = final_params
        self.error_score = error_score
        self.return_train_score = return_train_score
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.verbose = verbose

    def _candidates(self) -> list[dict[str, Any]]:
        return list(
            ParameterSampler(self.param_distributions, self.n_iter, random_state=self.random_state)
        )
