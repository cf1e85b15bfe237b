"""The searches: over a grid, and over candidates drawn at random."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler

from dask_s3vm.model_selection._search import S3VMSearch


class S3VMGridSearchCV(S3VMSearch):
    """Try all candidates of a grid, and choose by cross-validation on the labeled rows.

    Held-out rows are labeled rows, and every training part has all unlabeled rows. The rows are
    placed once. A fold is a mask: held-out rows get weight 0, which has the same effect as removing
    them. Candidates that differ in `lam` alone share work (see `warm_path`). Rows of up to
    `s3vm.local-bytes` (32 MiB) are sent to every worker of the current client, and each path on
    each fold is one task; larger rows stay in shards on all workers, and paths and folds run on
    them one after the other. The scores depend neither on this nor on the number of workers.

    `S3VM`, and methods with `safe=True`, are either of two models. On each fold both are fitted, as
    in their guard: to a loose tolerance, with all labeled rows and up to 5,000 unlabeled ones. The
    scores of a candidate are those of the supervised model, unless the other one's mean is higher
    by at least what one labeled row is to the accuracy. With a `test_set` the guard itself decides.

    Estimators of scikit-learn (`dask_s3vm.baselines`) work too; they get copies of the rows.

    Parameters
    ----------
    estimator : estimator
        Unfitted estimator of this package or another. Its `unlabeled` ("auto" if it has none) marks
        rows without a label.
    param_grid : dict, or list of dicts
        For each parameter, the values to try.
    scoring : str, callable, list, dict or None, default=None
        Scorers of scikit-learn, called with the held-out rows; None: `estimator.score`, accuracy.
    refit : bool, str or callable, default=True
        Whether to train the best candidate on all rows; with several scores, the name of the score
        that chooses; or a function of `cv_results_` that returns the number of the candidate.
    cv : int, splitter, iterable or None, default=None
        Folds: a number means `LabeledKFold(cv)`, None means 5. With other splitters, rows outside
        the training part are masked, and the labeled rows of the test part are scored.
    test_set : (X, y), array of shape (n,) or None, default=None
        The *non-realistic* scenario of Gieseke et al.: candidates are trained on all rows and
        scored on these rows or, given the true labels of all rows, on the unlabeled rows. The
        scores are too optimistic then, as the test labels are used to choose: they show what a
        method can achieve at best. Not together with `cv`. Rows of a dask array stay lazy: score
        them with `scoring=metrics.LazyScorer("accuracy")`.
    warm_path : bool, default=True
        Whether `TSVM`, `DAS3VM`, `QNS3VM` and `S2RLSC` may use the solution for one lam as a seed
        for the next smaller one. The local minima are as good then, but not always those of
        independent fits: the scores depend on the set of candidates (never on their order). False:
        every candidate is fitted as if alone. `L2SVM` and `RLSC` have one minimum, and always share
        work.
    ties : {"first", "simplest"}, default="first"
        Which of several candidates with equal mean score is chosen; with few labels there are many.
        "first": the first in the grid. "simplest": the one with the largest lam, then the smallest
        C, lam_unlabeled and C_unlabeled, then the first.
    final_params : dict or None, default=None
        Parameters of the final model only, for example `{"n_restarts": 50}`.
    error_score : float or "raise", default=nan
        Score of a fit that fails.
    return_train_score : bool, default=False
        Whether to score the labeled training rows too.
    checkpoint : path or None, default=None
        Directory in which scores are saved as they come. A search that was stopped resumes from
        there; the directory of a search with other data, candidates or folds is refused.
    callbacks : callable, sequence of callables or None, default=None
        Called with a dict for each finished fit: candidate, fold, params, score, seconds, done,
        total.
    verbose : bool, default=False
        Show the progress on standard error.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        As in scikit-learn: `params`, `param_*`, `split*_test_*`, `mean_test_*`, `std_test_*`,
        `rank_test_*`, times. The time of a fit on a path is an even share of the time of the path.
    best_index_, best_params_, best_score_ : int, dict, float
        The best candidate, and its mean score.
    best_estimator_ : estimator
        The best candidate, trained on all rows; `predict` and the like use it.
    refit_time_ : float
        Seconds of the training of `best_estimator_`.
    scorer_ : callable or dict
        The scorers.
    n_splits_ : int
        Number of splits.
    scenario_ : str
        "realistic", or "non-realistic" with a `test_set`.
    multimetric_ : bool
        Whether there are several scores.

    Notes
    -----
    What needs no labels is done once, on all rows: the landmarks of a kernel and the width
    `sigma="scale"` come from all rows. The share of positive rows, if it is not given, is
    estimated for each training part.

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
    estimator : estimator
        Unfitted estimator of this package or another.
    param_distributions : dict, or list of dicts
        For each parameter a list, or a distribution with a method `rvs`.
    n_iter : int, default=10
        Number of candidates to draw.
    random_state : int, RandomState or None, default=0
        Seed of the draw.
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
