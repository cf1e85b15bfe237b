"""Metrics agree with those of scikit-learn, in memory and lazy."""

import dask.array as da
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, f1_score

from dask_s3vm.model_selection.metrics import (
    LazyScorer,
    accuracy,
    balanced_accuracy,
    confusion_counts,
    f1,
)


@pytest.fixture
def pair(rng):
    return rng.integers(0, 4, 101), rng.integers(0, 3, 101)


def kinds(true, predicted):
    lazy = da.from_array(predicted, chunks=17)
    yield true, predicted
    yield da.from_array(true, chunks=30), lazy
    yield true, lazy
    yield da.from_array(true, chunks=30), predicted
    yield true, lazy[lazy >= 0]  # chunk sizes that dask does not know
    lazy_true = da.from_array(true, chunks=17)
    yield lazy_true[lazy_true >= 0], lazy[lazy >= 0]


def test_metrics_are_those_of_scikit_learn(pair):
    for true, predicted in kinds(*pair):
        labels, counts = confusion_counts(true, predicted)
        assert labels.tolist() == [0, 1, 2, 3]
        assert np.array_equal(counts, confusion_matrix(*pair))
        assert accuracy(true, predicted) == pytest.approx(accuracy_score(*pair))
        assert balanced_accuracy(true, predicted) == pytest.approx(balanced_accuracy_score(*pair))
        assert f1(true, predicted) == pytest.approx(f1_score(*pair, average="macro"))
        ones = f1_score(pair[0] == 1, pair[1] == 1)
        assert f1(true, predicted, positive=1) == pytest.approx(ones)


def test_strings(pair):
    names = np.array(["a", "b", "c", "d"])
    assert accuracy(names[pair[0]], names[pair[1]]) == accuracy(*pair)


def test_labels_of_another_number_are_refused(pair):
    true, predicted = pair
    for more, fewer in [*kinds(true, predicted[:90]), *kinds(true[:90], predicted)]:
        with pytest.raises(ValueError, match="wanted one label per row"):
            accuracy(more, fewer)
    with pytest.raises(ValueError, match="empty"):
        accuracy(true[:0], predicted[:0])


def test_what_is_refused(pair):
    with pytest.raises(ValueError, match="one label per row"):
        accuracy(pair[0][:-1], pair[1])
    with pytest.raises(ValueError, match="not among the labels"):
        f1(*pair, positive=7)
    with pytest.raises(ValueError, match="must be one of"):
        LazyScorer("auc")
