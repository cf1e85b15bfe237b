"""Measurements of one-vs-rest problems that are solved at once.

In turn, the same problems are solved one after the other. Ratios are of one run.
"""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.svm import LinearSVC

from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.estimators import L2SVM, TSVM
from dask_s3vm.local_cluster import local_cluster

Row = dict[str, Any]


def read_counts(path: Path) -> tuple[Any, np.ndarray]:
    """Read counts of words (CSR arrays and y of an npz file) as tf-idf of unit length."""
    with np.load(path) as found:
        parts = (found["data"], found["indices"], found["indptr"])
        counts, y = sp.csr_matrix(parts, shape=tuple(found["shape"])), found["y"]
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts).astype(np.float32), y


def text_of_classes(n_rows: int, n_classes: int) -> tuple[Any, np.ndarray]:
    """Generate text-like rows; the class is the largest of as many random linear functions."""
    lazy, _ = make_text(n_rows, block="scipy", random_state=0)
    (X,) = dask.compute(lazy, scheduler="threads")
    weights = np.random.default_rng(0).normal(size=(X.shape[1], n_classes))
    return X, np.asarray(X @ weights).argmax(axis=1)


def measure_classes(
    X: Any, y: np.ndarray, n_labels: int, lams: Sequence[float], workers: int
) -> list[Row]:
    """Time one-vs-rest fits, at once and in turn.

    L2SVM gets all labels, and is compared with liblinear; TSVM gets `n_labels`, and is compared
    with a fit of one class against all others.
    """
    few = hide_labels(y, n_labels, random_state=0)
    two = np.where(few == -1, -1, few == few.max()).astype(few.dtype)
    table = []
    with _quietly(workers):
        some = slice(
            None, None, max(len(y) // 500, 1)
        )  # of all classes, if rows are sorted by them
        TSVM().fit(X[some], few[some])  # compiles
        for lam in lams:
            svm = LinearSVC(C=1.0 / (2.0 * lam * len(y)))
            row = _both("L2SVM, all labels", L2SVM(lam=lam), X, y)
            table.append({"lam": lam} | row | _beside(row, "liblinear", svm, X, y))
        for lam in lams:
            row = _both(f"TSVM, {n_labels} labels", TSVM(lam=lam), X, few)
            table.append({"lam": lam} | row | _beside(row, "one class", TSVM(lam=lam), X, two))
    return table


@contextmanager
def _quietly(workers: int) -> Iterator[None]:
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        if workers:
            stack.enter_context(dask.config.set({"s3vm.local-bytes": 0}))
            stack.enter_context(local_cluster(workers, 1))
        yield


def _both(name: str, model: Any, X: Any, y: np.ndarray) -> Row:
    """Time a fit at once and in turn, which must find the same."""
    at_once, in_turn = clone(model), clone(model)
    seconds = _seconds(at_once, X, y)
    with dask.config.set({"s3vm.solves-at-once": 1}):
        longer = _seconds(in_turn, X, y)
    assert np.array_equal(at_once.coef_, in_turn.coef_), "a problem has the bits that it has alone"
    return {
        "fit": name,
        "seconds": seconds,
        "in_turn_s": longer,
        "times_faster": longer / seconds,
        "rounds": at_once.n_rounds_,
        "rounds_in_turn": in_turn.n_rounds_,
    }


def _beside(row: Row, name: str, model: Any, X: Any, y: np.ndarray) -> Row:
    """Time another fit, and compare."""
    seconds = _seconds(model, X, y)
    return {"other": name, "other_s": seconds, "of_other": row["seconds"] / seconds}


def _seconds(model: Any, X: Any, y: np.ndarray) -> float:
    began = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - began
