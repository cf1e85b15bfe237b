"""Choose parameters like the papers: by cross-validation on the labeled rows, or by the test set.

*Realistic*: each fold of labeled rows is held out in turn; the others and all unlabeled rows are
trained on. *Non-realistic* (the papers' term): the parameters with the smallest test error. In both
cases the first of several equal candidates is chosen, so a list starts with the preferred one.
Candidates are fitted independently (``warm_path=False``), as in the papers.
"""

import numpy as np

from dask_s3vm.model_selection import LabeledKFold, S3VMGridSearchCV


def error(model, X, y):
    """Return the share of wrong predictions."""
    return float(np.mean(np.asarray(model.predict(X)) != y))


def realistic(estimator, grid, X, part, seed, n_folds=5, **more):
    """Return the model of the smallest cross-validation error, and its parameters."""
    folds = LabeledKFold(n_folds, random_state=seed)
    search = S3VMGridSearchCV(estimator, grid, cv=folds, warm_path=False, **more).fit(X, part)
    return search.best_estimator_, search.best_params_


def by_test(estimator, grid, X, part, X_test, y_test, **more):
    """Return the model of the smallest test error, and its parameters."""
    search = S3VMGridSearchCV(
        estimator, grid, test_set=(X_test, y_test), warm_path=False, **more
    ).fit(X, part)
    return search.best_estimator_, search.best_params_
