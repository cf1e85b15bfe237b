"""Baselines: scikit-learn's estimators behind one interface."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from dask_s3vm.baselines import BASELINES, SupervisedClassifier, baseline
from dask_s3vm.datasets import hide_labels, make_g2c

each = pytest.mark.parametrize("name", BASELINES)


@pytest.fixture(scope="module")
def data():
    X, y = make_g2c(n_rows=120, n_features=15)
    return X.compute(), y.compute(), hide_labels(y.compute(), 20)


@each
def test_rows_of_any_kind_give_the_same_labels(name, data):
    X, y, few = data
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    wanted = baseline(name).fit(X, few)
    labels = np.asarray(wanted.predict(X))
    assert (labels == y).mean() > 0.85
    lazy = da.from_array(X, chunks=(50, 15))
    for rows in (sp.csr_array(X), sp.csc_matrix(X), lazy, lazy.map_blocks(sp.csr_array)):
        model = baseline(name).fit(rows, few)
        assert np.array_equal(np.asarray(model.predict(rows)), labels)
    assert wanted.score(X, y) == (labels == y).mean()


@each
def test_classes_and_marks_of_any_kind(name, data):
    X, _, few = data
    names = np.array(["no", "yes", "?"])[few]
    ours = baseline(name, unlabeled="?").fit(X, names)
    labels = np.asarray(ours.predict(X))
    assert np.array_equal(labels == "yes", np.asarray(baseline(name).fit(X, few).predict(X)) == 1)
    assert ours.classes_.tolist() == ["no", "yes"]


def test_they_are_the_estimators_of_scikit_learn(data):
    X, _, few = data
    known = few >= 0
    svm = SVC(kernel="linear", C=2.0).fit(X[known], few[known])
    ours = baseline("SVM", C=2.0).fit(X, few)
    np.testing.assert_allclose(ours.decision_function(X), svm.decision_function(X))
    spread = LabelSpreading(kernel="knn", n_neighbors=9, max_iter=1000).fit(X, few)
    ours = baseline("label spreading", n_neighbors=9).fit(X, few)
    assert np.array_equal(ours.transduction_, spread.transduction_)
    np.testing.assert_allclose(ours.predict_proba(X), spread.predict_proba(X))


def test_self_training_labels_all_rows(data):
    X, y, few = data
    model = baseline("self-training", threshold=0.99).fit(X, few)
    assert set(model.transduction_.tolist()) == {0, 1}
    assert (model.transduction_ == y).mean() > 0.85


def test_dense_rows_where_sparse_ones_are_not_taken(data):
    X, _, few = data

    class Dense(DecisionTreeClassifier):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.sparse = False
            return tags

        def predict(self, X):
            assert isinstance(X, np.ndarray)
            return super().predict(X)

    model = SupervisedClassifier(Dense(random_state=0)).fit(sp.csr_array(X), few)
    wanted = DecisionTreeClassifier(random_state=0).fit(X[few >= 0], few[few >= 0]).predict(X)
    assert np.array_equal(model.predict(sp.csr_array(X)), wanted)


def test_what_is_refused(data):
    X, _, few = data
    with pytest.raises(ValueError, match="name must be one of"):
        baseline("oracle")
    with pytest.raises(ValueError, match="y does not fit X"):
        baseline("SVM").fit(X[1:], few)
    with pytest.raises(ValueError, match="no labeled row"):
        baseline("SVM").fit(X, np.full(len(X), -1))
