"""Baselines that semi-supervised methods are compared with.

All of them are scikit-learn estimators with `fit(X, y)`, where y marks unlabeled rows as for the
estimators of this package, and `predict(X)`. X is dense or sparse, in memory or a dask array (which
is gathered). They can be used like these estimators, also in `model_selection`.

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
from dask_s3vm.estimators._rows import as_array, plain_labels
from dask_s3vm.features.kernel_columns import all_rows
from dask_s3vm.features.landmarks import narrow_rows
from dask_s3vm.labels import AUTO, Tally, find_classes

__all__ = ["BASELINES", "ScoredSVC", "SupervisedClassifier", "TransductiveClassifier", "baseline"]


class _Wrapped(ClassifierMixin, BaseEstimator):
    """An estimator of scikit-learn, with rows and labels converted to what it accepts.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Unfitted.
    unlabeled : int, str or None, default="auto"
        Mark of unlabeled rows; see the estimators of this package.

    Attributes
    ----------
    estimator_ : the fitted estimator.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    """

    #: whether the estimator takes unlabeled rows, marked by -1
    _marks = False

    def __init__(self, estimator: Any, unlabeled: Any = AUTO) -> None:
        self.estimator = estimator
        self.unlabeled = unlabeled

    def fit(self, X: Any, y: Any) -> "_Wrapped":
        """Train.

        Parameters
        ----------
        X : array of shape (n, d): numpy, scipy.sparse, `sparse`, or dask
        y : array of shape (n,), numpy or dask; `unlabeled` marks unlabeled rows
        """
        labels = plain_labels(y)
        classes = find_classes(Tally.of(labels), self.unlabeled, supervised=not self._marks)
        known = np.isin(labels, classes)
        rows = _in_memory(X)
        if rows.shape[0] != len(labels):
            raise ValueError(
                f"y does not fit X: X has {rows.shape[0]} rows, y has {len(labels)} entries"
            )
        codes = np.where(known, np.searchsorted(classes, np.where(known, labels, classes[0])), -1)
        if self._marks:
            rows = self._dense_if_needed(rows)
        else:
            rows, codes = rows[np.flatnonzero(known)], codes[known]
        self.estimator_ = clone(self.estimator).fit(rows, codes)
        self.classes_ = classes
        self.n_features_in_ = rows.shape[1]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row."""
        check_is_fitted(self, "estimator_")
        return self.classes_[self.estimator_.predict(self._dense_if_needed(_in_memory(X)))]

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the outputs of rows."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.decision_function(self._dense_if_needed(_in_memory(X)))

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_proba(self._dense_if_needed(_in_memory(X)))

    def _dense_if_needed(self, rows: Any) -> Any:
        """Make rows dense if the estimator does not accept sparse ones."""
        if hasattr(rows, "toarray") and not get_tags(self.estimator).input_tags.sparse:
            return rows.toarray()
        return rows

    def __sklearn_tags__(self) -> Any:
        """Declare that sparse input is accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class SupervisedClassifier(_Wrapped):
    """Any classifier of scikit-learn, on the labeled rows alone."""


class TransductiveClassifier(_Wrapped):
    """Any semi-supervised classifier of scikit-learn; unlabeled rows are passed with label -1.

    Attributes
    ----------
    transduction_ : ndarray of shape (n,)
        Labels of the training rows that the estimator found.
    """

    _marks = True

    @property
    def transduction_(self) -> np.ndarray:
        """Labels of the training rows that the estimator found."""
        check_is_fitted(self, "estimator_")
        found = np.asarray(self.estimator_.transduction_).astype(int)
        return np.asarray(self.classes_[found])


class ScoredSVC(SVC):
    """An SVC whose confidence is a function of its outputs: few labels cannot calibrate it."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the logistic function of twice the output of each class, normalized to sum 1."""
        outputs = self.decision_function(X)
        if outputs.ndim == 1:
            outputs = np.column_stack([-outputs, outputs])
        scores = 1.0 / (1.0 + np.exp(-2.0 * outputs))
        return scores / scores.sum(axis=1, keepdims=True)


def _in_memory(X: Any) -> Any:
    """Gather rows in this process, as an ndarray or csr_array."""
    return narrow_rows(all_rows(as_array(X)))


def _svm(unlabeled: Any = AUTO, **params: Any) -> Any:
    return SupervisedClassifier(SVC(**{"kernel": "linear"} | params), unlabeled)


def _rlsc(unlabeled: Any = AUTO, **params: Any) -> Any:
    return RLSC(unlabeled=unlabeled, **params)


def _self_training(unlabeled: Any = AUTO, threshold: float = 0.75, **params: Any) -> Any:
    base = ScoredSVC(**{"kernel": "linear"} | params)
    inner = SelfTrainingClassifier(base, threshold=threshold, max_iter=None)
    return _SelfTraining(inner, unlabeled)


class _SelfTraining(TransductiveClassifier):
    """Self-training, with predicted labels for the rows that it was not confident about."""

    def fit(self, X: Any, y: Any) -> "_SelfTraining":
        """See `SupervisedClassifier.fit`."""
        super().fit(X, y)
        found = np.asarray(self.estimator_.transduction_)
        if (found < 0).any():
            left = np.flatnonzero(found < 0)
            rows = self._dense_if_needed(_in_memory(X))[left]
            found = found.copy()
            found[left] = self.estimator_.predict(rows)
            self.estimator_.transduction_ = found
        return self


def _graph(kind: Any) -> Callable[..., Any]:
    def make(unlabeled: Any = AUTO, **params: Any) -> Any:
        # seven neighbors: the row itself and six others
        given = {"kernel": "knn", "n_neighbors": 7, "max_iter": 1000} | params
        return TransductiveClassifier(kind(**given), unlabeled)

    return make


#: Functions that make a baseline, by name; see `baseline`.
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
    """Return a baseline.

    Parameters
    ----------
    name : "SVM" (on the labeled rows, LIBSVM inside), "RLSC", "self-training" of that SVM,
        "label propagation" or "label spreading" on a graph of nearest neighbors.
    **params : parameters of the estimator inside, and `unlabeled`, the mark of unlabeled rows.
    """
    if name not in BASELINES:
        raise ValueError(f"name must be one of {sorted(BASELINES)}, got {name!r}")
    return BASELINES[name](**params)
