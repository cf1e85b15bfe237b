"""Choose parameters as the papers did: by folds of the labelled rows, or by the test set.

*Realistic*: each labelled fold is held out in turn, the others and all unlabelled rows are trained
on. *Non-realistic* (the papers' own word): the parameters of the smallest test error. In both, the
first candidate wins a tie, so a list starts with the one to take if nothing speaks against it.
"""

import numpy as np
from sklearn.model_selection import StratifiedKFold


def error(model, X, y):
    """Share of wrong predictions."""
    return float(np.mean(np.asarray(model.predict(X)) != y))


def fold_errors(make, candidates, X, part, seed, n_folds=5):
    """Mean held-out error of each candidate over folds of the labelled rows."""
    known, free = np.flatnonzero(part >= 0), np.flatnonzero(part < 0)
    n_folds = int(min(n_folds, np.bincount(part[known]).min()))
    if n_folds < 2:
        return np.zeros(len(candidates))
    found = np.zeros((n_folds, len(candidates)))
    cut = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    for fold, (inside, held) in enumerate(cut.split(known, part[known])):
        rows, held = np.sort(np.append(known[inside], free)), known[held]
        for place, candidate in enumerate(candidates):
            model = make(**candidate).fit(X[rows], part[rows])
            found[fold, place] = error(model, X[held], part[held])
    return found.mean(axis=0)


def realistic(make, candidates, X, part, seed, n_folds=5):
    """The candidate of the smallest cross-validation error."""
    if len(candidates) == 1:
        return candidates[0]
    return candidates[int(np.argmin(fold_errors(make, candidates, X, part, seed, n_folds)))]


def by_test(make, candidates, X, part, X_test, y_test):
    """The model of the smallest test error."""
    models = [make(**candidate).fit(X, part) for candidate in candidates]
    return models[int(np.argmin([error(model, X_test, y_test) for model in models]))]
