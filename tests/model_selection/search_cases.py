"""Data, scorers and naive loops that the tests of model selection share."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from dask_s3vm import (
    CCCPS3VM,
    DAS3VM,
    L2SVM,
    QNS3VM,
    QPS3VM,
    RLSC,
    S2RLSC,
    STARSVM,
    TSVM,
    LapSVM,
    SubmodularS3VM,
)
from dask_s3vm.model_selection import LabeledKFold

#: Every estimator, with a grid and, if it has many minima, a path that seeds may change.
CASES = {
    "l2svm": (L2SVM(tol=1e-10), {"lam": [1.0, 1e-2, 1e-1]}),
    "rlsc": (RLSC(), {"lam": [1.0, 1e-2, 1e-1]}),
    "s2rlsc": (
        S2RLSC(n_restarts=3, random_state=0),
        {"lam": [0.1, 1.0], "lam_unlabeled": [0.1, 1.0]},
    ),
    "tsvm": (TSVM(tol=1e-10), {"lam": [1e-2, 1e-1], "lam_unlabeled": [0.1, 1.0]}),
    "da": (DAS3VM(tol=1e-10), {"lam": [1e-2, 1e-1]}),
    "cccp": (CCCPS3VM(tol=1e-9), {"lam": [1e-2, 1e-1], "ramp": [-0.5, 0.0]}),
    "lapsvm": (LapSVM(tol=1e-10), {"lam": [1e-2, 1e-1], "lam_manifold": [0.1, 1.0]}),
    "qn": (QNS3VM(tol=1e-12), {"lam": [1e-2, 1e-1]}),
    "qp": (QPS3VM(tol=1e-10), {"C": [0.1, 1.0]}),
    "sqp": (SubmodularS3VM(tol=1e-10), {"C": [0.1, 1.0]}),
    "star": (STARSVM(kernel="linear", tol=1e-8, max_iter=100000), {"C": [0.1, 1.0]}),
    "star exact": (STARSVM(kernel="rbf", sigma=2.0, tol=1e-8), {"confidence": [0.5, 0.9]}),
    "tsvm rbf": (TSVM(kernel="rbf", sigma=2.0, n_components=None, tol=1e-10), {"lam": [0.1]}),
    "three": (L2SVM(tol=1e-10), {"lam": [1.0, 0.1]}),
}
every_case = pytest.mark.parametrize("name", CASES)


def few_labels(n=90, n_labeled=24, d=5, seed=0, n_classes=2):
    """Rows in clusters, with few labels of every class."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % n_classes)
    X = rng.normal(size=(n, d))
    X[np.arange(n), truth] += 2.0
    keep = [np.flatnonzero(truth == k)[: n_labeled // n_classes] for k in range(n_classes)]
    return X, np.where(np.isin(np.arange(n), np.concatenate(keep)), truth, -1), truth


def smooth(model, X, y):
    """A score that changes with any change of the outputs."""
    outputs = np.asarray(model.decision_function(X))
    if outputs.ndim == 1:
        outputs = np.column_stack([-outputs, outputs])
    codes = np.searchsorted(model.classes_, y)
    return float(np.tanh(outputs[np.arange(len(y)), codes]).mean())


def naive_scores(estimator, candidates, X, y, cv, scorer=smooth):
    """Scores of clones that are fitted on copies of the rows, one after the other."""
    scores = np.zeros((len(candidates), cv.get_n_splits(X, y)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, params in enumerate(candidates):
            for f, (train, test) in enumerate(cv.split(X, y)):
                model = clone(estimator).set_params(**params).fit(X[train], y[train])
                scores[i, f] = scorer(model, X[test], y[test])
    return scores


def split_scores(search, name="score"):
    """(candidates, splits) scores of a search."""
    table = search.cv_results_
    return np.column_stack([table[f"split{f}_test_{name}"] for f in range(search.n_splits_)])


def data_of(name):
    """Rows and few labels for a case."""
    X, y, _ = few_labels(n_classes=3 if name == "three" else 2)
    return X, y


FOLDS = LabeledKFold(3, random_state=1)
