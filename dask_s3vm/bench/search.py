"""Measurements of many fits: `measure_search` compares `S3VMGridSearchCV` with naive refitting."""

import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dask
import numpy as np
from sklearn.base import clone

from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.estimators import DAS3VM, L2SVM, QNS3VM, RLSC, S2RLSC, TSVM
from dask_s3vm.local_cluster import local_cluster
from dask_s3vm.model_selection import LabeledKFold, S3VMGridSearchCV

Row = dict[str, Any]

#: Estimators of `measure_search`. As in the papers, s2rlsc has 10 restarts in model selection.
METHODS: dict[str, Any] = {
    "s2rlsc": S2RLSC(n_restarts=10, random_state=0),
    "da": DAS3VM(),
    "tsvm": TSVM(),
    "qn": QNS3VM(),
    "l2svm": L2SVM(),
    "rlsc": RLSC(),
}


def read_pair(path: Path, pair: tuple[int, int], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Read rows of two classes from an npz file with X and y, as classes 0 and 1."""
    with np.load(path) as found:
        X, y = found["X"], found["y"]
    order = np.random.default_rng(0).permutation(np.flatnonzero(np.isin(y, pair)))[:rows]
    return X[order], (y[order] == pair[1]).astype(int)


def text_pair(n_rows: int) -> tuple[Any, np.ndarray]:
    """Generate rows of two classes like text."""
    return dask.compute(*make_text(n_rows, block="scipy", random_state=0), scheduler="threads")


def digits_like(n_rows: int, n_features: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """Generate rows of two classes like images of digits: four shapes per class, which vary."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n_rows)
    common = rng.normal(size=n_features)
    shapes = common + 0.7 * rng.normal(size=(2, 4, n_features))
    ways = rng.normal(size=(2, 4, 12, n_features)) / 3.0
    kind = rng.integers(0, 4, n_rows)
    X = shapes[y, kind] + np.einsum("ij,ijk->ik", rng.normal(size=(n_rows, 12)), ways[y, kind])
    X += 0.2 * rng.normal(size=X.shape)
    return np.tanh(X).astype(np.float32), y


def measure_search(
    X: Any,
    y: np.ndarray,
    methods: Sequence[str],
    n_labels: int,
    n_lams: int,
    n_folds: int,
    workers: int,
    cold: bool,
    in_turn: bool = False,
) -> list[Row]:
    """Tune lam and lam_unlabeled on a grid, naively and with shared work.

    Naively, a clone is fitted on a copy of the training rows for each candidate and fold, one after
    the other. The best candidate is then trained on all rows; `error_%` is its error on the
    unlabeled rows. With `in_turn`, the shared search is compared with itself without fits that run
    at the same time.
    """
    few = hide_labels(y, n_labels, random_state=0)
    lams = 2.0 ** np.linspace(-10, 10, n_lams)
    table = []
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        if workers:
            stack.enter_context(local_cluster(workers, 1))
        for name in methods:
            model, grid = METHODS[name], {"lam": lams, "lam_unlabeled": [0.01, 1.0, 100.0]}
            if not hasattr(model, "lam_unlabeled"):
                del grid["lam_unlabeled"]
            folds = LabeledKFold(n_folds)
            _warm_up(model, X, few)
            if in_turn:
                search = S3VMGridSearchCV(model, grid, cv=folds, refit=False)
                with dask.config.set({"s3vm.solves-at-once": 1}):
                    table.append(_timed(name, search, X, y, few) | {"way": "in turn"})
            else:
                table.append(_timed(name, _Naive(model, grid, folds), X, y, few))
            ways = {"shared": True} | ({"shared, no seeds": False} if cold else {})
            for way, seeded in ways.items():
                search = S3VMGridSearchCV(model, grid, cv=folds, warm_path=seeded, refit=False)
                row = _timed(name, search, X, y, few) | {"way": way}
                before = next(one for one in table if one["method"] == name)
                table.append(row | {"times_less": before["seconds"] / row["seconds"]})
    return table


def _timed(name: str, search: Any, X: Any, y: np.ndarray, few: np.ndarray) -> Row:
    """Time a search; then train the best candidate, which is not timed."""
    began, cpu = time.perf_counter(), time.process_time()
    search.fit(X, few)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    search._refit(X, few, None)
    hidden = few < 0
    wrong = search.best_estimator_.predict(X)[hidden] != y[hidden]
    means = search.cv_results_["mean_test_score"]
    return {
        "method": name,
        "way": "naive",
        "fits": len(means) * search.n_splits_,
        "seconds": seconds,
        "cpu_s": cpu,
        "times_less": 1.0,
        "best_score": float(search.best_score_),
        "mean_score": float(means.mean()),
        "lam": float(search.best_params_["lam"]),
        "lam_u": float(search.best_params_.get("lam_unlabeled", 0.0)),
        "error_%": 100.0 * float(wrong.mean()),
    }


class _Naive(S3VMGridSearchCV):
    """A search that fits clones on copies of the rows, one after the other."""

    def __init__(self, estimator: Any, param_grid: Any, cv: Any) -> None:
        super().__init__(estimator, param_grid, cv=cv, warm_path=False, refit=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "_Naive":
        """Score all candidates."""
        candidates, splits = self._candidates(), list(self.cv.split(X, y))
        scores = np.zeros((len(candidates), len(splits)))
        for i, params in enumerate(candidates):
            for f, (train, test) in enumerate(splits):
                one = clone(self.estimator).set_params(**params).fit(X[train], y[train])
                scores[i, f] = one.score(X[test], y[test])
        means = scores.mean(axis=1)
        self.n_splits_ = len(splits)
        self.best_index_ = int(np.argmax(np.round(means, 12)))
        self.best_params_, self.best_score_ = candidates[self.best_index_], max(means)
        self.cv_results_ = {"mean_test_score": means, "params": candidates}
        return self


def _warm_up(model: Any, X: Any, few: np.ndarray) -> None:
    """Compile all kernels, also on the workers."""
    clone(model).fit(X, few)
    S3VMGridSearchCV(model, {"lam": [1.0, 0.5]}, cv=2, refit=False).fit(X, few)
