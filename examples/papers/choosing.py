"""Choose parameters as the papers did: by folds of the labeled rows, or by the test set.

*Realistic*: each labeled fold is held out in turn, the others and all unlabeled rows are trained
on. *Non-realistic* (the papers' own word): the parameters of the smallest test error. In both, the
first candidate wins a tie, so a list starts with the one to take if nothing speaks against it.
Candidates are fitted as if alone (``warm_path=False``), as the papers' programs did.
"""

import numpy as np

from dask_s3vm.model_selection import LabeledKFold, S3VMGridSearchCV


def error(model, X, y):
    """Share of wrong predictions."""
    return float(np.mean(np.asarray(model.predict(X)) != y))


def realistic(estimator, grid, X, part, seed, n_folds=5, **more):
    """The model, trained on all rows, of the smallest cross-validation error; chosen parameters."""
    folds = LabeledKFold(n_folds, random_state=seed)
    search = S3VMGridSearchCV(estimator, grid, cv=folds, warm_path=False, **more).fit(X, part)
    return search.best_estimator_, search.best_params_


def by_test(estimator, grid, X, part, X_test, y_test, **more):
    """The model of the smallest test error, and its parameters."""
    search = S3VMGridSearchCV(
        estimator, grid, test_set=(X_test, y_test), warm_path=False, **more
    ).fit(X, part)
    return search.best_estimator_, search.best_params_
