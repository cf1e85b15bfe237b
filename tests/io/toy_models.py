"""A stand-in for the estimators of the package, for model files."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Toy(ClassifierMixin, BaseEstimator):
    """A stand-in for an estimator of the package."""

    def __init__(self, C=1.0, class_weight=None, tol=1e-3, start=None, callbacks=None, verbose=0):
        self.C = C
        self.class_weight = class_weight
        self.tol = tol
        self.start = start
        self.callbacks = callbacks
        self.verbose = verbose

    def fit(self, classes, rows=1, d=4):
        self.classes_ = np.array(classes)
        self.coef_ = np.random.default_rng(0).normal(size=(rows, d))
        self.intercept_ = np.arange(rows) * 0.1
        self.n_features_in_ = d
        self.n_iter_ = 17
        self.objective_ = np.float32(0.1)
        self.termination_ = "converged"
        self.nothing_ = None
        self.history_ = [{"round": 1, "objective": 2.5, "step": "newton"}, {"gap": float("inf")}]
        self._private_ = object()
        self.plain = object()
        return self

    @property
    def trap_(self):
        return 1


class Other(Toy):
    """Not public."""
