"""Fits with few labels, beside other programs for the same: time and error."""

import time
from collections.abc import Iterator
from typing import Any

import dask
import numpy as np
from sklearn.svm import LinearSVC

from dask_s3vm.baselines import SupervisedClassifier, baseline
from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.estimators import DAS3VM, L2SVM, S3VM, TSVM

Row = dict[str, Any]


def measure_others(n_rows: int, n_labels: int, n_features: int = 5000) -> list[Row]:
    """Fit text-like rows of which few are labeled, and predict the others.

    All get the rows in memory, as scipy CSR, and default parameters; the semi-supervised SVMs
    estimate the ratio of the classes themselves. Seconds are those of `fit`.
    """
    lazy, labels = make_text(n_rows, n_features, block="scipy", random_state=0)
    X, y = dask.compute(lazy, labels, scheduler="threads")
    few = hide_labels(y, n_labels, random_state=0)
    hidden = few == -1
    table = []
    for name, model in _models():
        model.fit(X[:400], np.where(np.arange(400) < 100, y[:400], -1))  # compiles
        began = time.perf_counter()
        model.fit(X, few)
        seconds = time.perf_counter() - began
        wrong = 100.0 * float(np.mean(np.asarray(model.predict(X))[hidden] != y[hidden]))
        table.append({"rows": n_rows, "method": name, "seconds": seconds, "error_%": wrong})
    return table


def _models() -> Iterator[tuple[str, Any]]:
    """Names and models, those of other packages last."""
    for model in (L2SVM(), TSVM(), DAS3VM(), S3VM()):
        yield type(model).__name__, model
    yield "LinearSVC (labels alone)", SupervisedClassifier(LinearSVC())
    yield "SelfTrainingClassifier", baseline("self-training")
    yield "LabelSpreading", baseline("label spreading")
