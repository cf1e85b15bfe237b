"""Baselines under one roof: fit(X, y) with -1 for unlabelled rows, predict(X), labels 0, 1, ...

`baseline(name)` makes a supervised SVM (scikit-learn's, LIBSVM inside), RLSC, scikit-learn's
self-training of that SVM, label propagation or label spreading on a graph of nearest neighbours.
"""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from dask_s3vm import RLSC

BASELINES = ("SVM", "RLSC", "self-training", "label propagation", "label spreading")


class Supervised(ClassifierMixin, BaseEstimator):
    """An SVM on the labelled rows; rows marked -1 are left out."""

    def __init__(self, C=1.0, kernel="linear", gamma="scale"):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma

    def fit(self, X, y):
        """Train on the rows with a label."""
        known = np.flatnonzero(y >= 0)
        self.model_ = SVC(C=self.C, kernel=self.kernel, gamma=self.gamma).fit(X[known], y[known])
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        """Labels of rows."""
        return self.model_.predict(X)


class ScoredSVC(SVC):
    """An SVC whose outputs, squashed, are its confidence: a few labels cannot calibrate it."""

    def predict_proba(self, X):
        """Confidence in each class: logistic of twice the output, shared out if there are many."""
        outputs = self.decision_function(X)
        if outputs.ndim == 1:
            outputs = np.column_stack([-outputs, outputs])
        scores = 1.0 / (1.0 + np.exp(-2.0 * outputs))
        return scores / scores.sum(axis=1, keepdims=True)


def baseline(name, *, C=1.0, lam=1.0, kernel="linear", gamma="scale", class_weight=None):
    """Make a baseline; C is the SVM's, lam RLSC's (several: the best leave-one-out error)."""
    if name == "SVM":
        return Supervised(C, kernel, gamma)
    if name == "RLSC":
        sigma = {} if kernel == "linear" else {"gamma": gamma, "n_components": None}
        return RLSC(lam, kernel=kernel, **sigma)
    if name == "self-training":
        base = ScoredSVC(C=C, kernel=kernel, gamma=gamma, class_weight=class_weight)
        return SelfTrainingClassifier(base, max_iter=10)
    if name in ("label propagation", "label spreading"):
        kind = LabelPropagation if name == "label propagation" else LabelSpreading
        return kind(kernel="knn", n_neighbors=7, max_iter=1000)  # itself and six others
    raise ValueError(f"baseline must be one of {BASELINES}, got {name!r}")
