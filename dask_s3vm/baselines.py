"""Baselines under one roof: what semi-supervised methods are compared with.

All of them are scikit-learn estimators with `fit(X, y)`, y having -1 for rows without a label, and
`predict(X)`; X is dense or sparse, in memory or a dask array (which is gathered). They go wherever
the estimators of this package go, `model_selection` included.

>>> from dask_s3vm.baselines import BASELINES
>>> from dask_s3vm.datasets import hide_labels, make_g2c
>>> X, y = make_g2c(n_rows=200, n_features=20)
>>> few = hide_labels(y, 20)
>>> errors = {name: float((make().fit(X, few).predict(X) != y).mean().compute())
...           for name, make in BASELINES.items()}
>>> sorted(errors)
['RLSC', 'SVM', 'label propagation', 'label spreading', 'self-training']
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dask_s3vm.estimators import RLSC
from dask_s3vm.estimators._inputs import as_array, plain_labels
from dask_s3vm.estimators._labels import find_classes
from dask_s3vm.features.columns import all_rows
from dask_s3vm.features.landmarks import plain_rows

__all__ = ["BASELINES", "ScoredSVC", "SupervisedClassifier", "TransductiveClassifier", "baseline"]


class _Wrapped(ClassifierMixin, BaseEstimator):
    """An estimator of scikit-learn, given rows and labels in the form that it wants.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Unfitted.
    unlabeled : int, str or None, default=-1
        Mark of rows without a label.

    Attributes
    ----------
    estimator_ : the fitted one.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    """

    #: whether it takes unlabeled rows and wants them marked by -1
    _marks = False

    def __init__(self, estimator: Any, unlabeled: Any = -1) -> None:
        self.estimator = estimator
        self.unlabeled = unlabeled

    def fit(self, X: Any, y: Any) -> "_Wrapped":
        """Train.

        Parameters
        ----------
        X : array of shape (n, d): numpy, scipy.sparse, `sparse`, or dask
        y : array of shape (n,), numpy or dask; `unlabeled` marks rows without a label
        """
        labels = plain_labels(y)
        classes = find_classes(np.unique(labels), self.unlabeled, supervised=not self._marks)
        known = np.isin(labels, classes)
        rows = _in_memory(X)
        if rows.shape[0] != len(labels):
            raise ValueError(
                f"y does not fit X: X has {rows.shape[0]} rows, y has {len(labels)} entries"
            )
        codes = np.where(known, np.searchsorted(classes, np.where(known, labels, classes[0])), -1)
        if self._marks:
            rows = self._as_wanted(rows)
        else:
            rows, codes = rows[np.flatnonzero(known)], codes[known]
        self.estimator_ = clone(self.estimator).fit(rows, codes)
        self.classes_ = classes
        self.n_features_in_ = rows.shape[1]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Class of each row."""
        check_is_fitted(self, "estimator_")
        return self.classes_[self.estimator_.predict(self._as_wanted(_in_memory(X)))]

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of rows."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.decision_function(self._as_wanted(_in_memory(X)))

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_proba(self._as_wanted(_in_memory(X)))

    def _as_wanted(self, rows: Any) -> Any:
        """Make rows dense where the estimator does not take sparse ones."""
        if hasattr(rows, "toarray") and not get_tags(self.estimator).input_tags.sparse:
            return rows.toarray()
        return rows

    def __sklearn_tags__(self) -> Any:
        """Sparse input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class SupervisedClassifier(_Wrapped):
    """Any classifier of scikit-learn, on the labeled rows alone."""


class TransductiveClassifier(_Wrapped):
    """Any semi-supervised classifier of scikit-learn, which is given -1 for unlabeled rows.

    Attributes
    ----------
    transduction_ : ndarray of shape (n,)
        Labels of the training rows, as the estimator found them.
    """

    _marks = True

    @property
    def transduction_(self) -> np.ndarray:
        """Labels of the training rows."""
        check_is_fitted(self, "estimator_")
        found = np.asarray(self.estimator_.transduction_).astype(int)
        return np.asarray(self.classes_[found])


class ScoredSVC(SVC):
    """An SVC whose squashed outputs are its confidence: a few labels cannot calibrate it."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Confidence in each class: logistic of twice the output, in shares of one."""
        outputs = self.decision_function(X)
        if outputs.ndim == 1:
            outputs = np.column_stack([-outputs, outputs])
        scores = 1.0 / (1.0 + np.exp(-2.0 * outputs))
        return scores / scores.sum(axis=1, keepdims=True)


def _in_memory(X: Any) -> Any:
    """Rows in this process: an ndarray or csr_array."""
    return plain_rows(all_rows(as_array(X)))


def _svm(unlabeled: Any = -1, **params: Any) -> Any:
    return SupervisedClassifier(SVC(**{"kernel": "linear"} | params), unlabeled)


def _rlsc(unlabeled: Any = -1, **params: Any) -> Any:
    return RLSC(unlabeled=unlabeled, **params)


def _self_training(unlabeled: Any = -1, threshold: float = 0.75, **params: Any) -> Any:
    base = ScoredSVC(**{"kernel": "linear"} | params)
    inner = SelfTrainingClassifier(base, threshold=threshold, max_iter=None)
    return _SelfTraining(inner, unlabeled)


class _SelfTraining(TransductiveClassifier):
    """Self-training leaves rows without a label where it is not confident: these are predicted."""

    def fit(self, X: Any, y: Any) -> "_SelfTraining":
        """See `SupervisedClassifier.fit`."""
        super().fit(X, y)
        found = np.asarray(self.estimator_.transduction_)
        if (found < 0).any():
            left = np.flatnonzero(found < 0)
            rows = self._as_wanted(_in_memory(X))[left]
            found = found.copy()
            found[left] = self.estimator_.predict(rows)
            self.estimator_.transduction_ = found
        return self


def _graph(kind: Any) -> Callable[..., Any]:
    def make(unlabeled: Any = -1, **params: Any) -> Any:
        # seven neighbors: the row itself and six others
        given = {"kernel": "knn", "n_neighbors": 7, "max_iter": 1000} | params
        return TransductiveClassifier(kind(**given), unlabeled)

    return make


#: Makers by name; parameters are those of the estimator inside, and `unlabeled`.
BASELINES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "SVM": _svm,
        "RLSC": _rlsc,
        "self-training": _self_training,
        "label propagation": _graph(LabelPropagation),
        "label spreading": _graph(LabelSpreading),
    }
)


def baseline(name: str, **params: Any) -> Any:
    """Make a baseline.

    Parameters
    ----------
    name : "SVM" (on the labeled rows, LIBSVM inside), "RLSC", "self-training" of that SVM,
        "label propagation" or "label spreading" on a graph of nearest neighbors.
    **params : of the estimator inside; `unlabeled`, the mark of rows without a label.
    """
    if name not in BASELINES:
        raise ValueError(f"name must be one of {sorted(BASELINES)}, got {name!r}")
    return BASELINES[name](**params)
