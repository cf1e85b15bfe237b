"""Searches that are stopped resume from their checkpoint."""

import json

import numpy as np
import pytest
from search_cases import FOLDS, few_labels, smooth, split_scores

from dask_s3vm import DAS3VM, L2SVM, QNS3VM, QPS3VM, TSVM
from dask_s3vm.baselines import baseline
from dask_s3vm.checkpoints.locks import FolderLock
from dask_s3vm.model_selection import S3VMGridSearchCV
from dask_s3vm.model_selection._store import Store, _write_json

CASES = {
    "seeded paths": (TSVM(), {"lam": [1.0, 0.1], "lam_unlabeled": [0.1, 1.0]}),
    "single fits": (QPS3VM(), {"C": [0.1, 1.0]}),
    "another package": (baseline("SVM"), {"estimator__C": [0.1, 1.0]}),
}


class Stop(Exception):
    """What stops a search."""


class Fits:
    """Counts fits, and stops the search after some."""

    def __init__(self, most=None):
        self.n, self.most = 0, most

    def __call__(self, row):
        self.n += 1
        if self.n == self.most:
            raise Stop


def search_of(name, **params):
    estimator, grid = CASES[name]
    return S3VMGridSearchCV(estimator, grid, **{"cv": FOLDS} | params)


@pytest.mark.parametrize("name", CASES)
def test_a_stopped_search_resumes(name, tmp_path):
    X, y, _ = few_labels()
    wanted = search_of(name).fit(X, y)
    total = wanted.n_splits_ * len(wanted.cv_results_["params"])
    with pytest.raises(Stop):
        search_of(name, checkpoint=tmp_path / "saved", callbacks=Fits(3)).fit(X, y)
    fits = Fits()
    search = search_of(name, checkpoint=tmp_path / "saved", callbacks=fits).fit(X, y)
    assert 0 < fits.n < total
    assert np.array_equal(split_scores(search), split_scores(wanted))
    assert search.best_params_ == wanted.best_params_
    again = Fits()
    search = search_of(name, checkpoint=tmp_path / "saved", callbacks=again).fit(X, y)
    assert again.n == 0
    assert np.array_equal(split_scores(search), split_scores(wanted))
    assert np.array_equal(search.predict(X), wanted.predict(X))


def test_a_search_resumes_from_a_url():
    X, y, _ = few_labels()
    wanted = search_of("seeded paths").fit(X, y)
    with pytest.raises(Stop):
        search_of("seeded paths", checkpoint="memory://search/saved", callbacks=Fits(3)).fit(X, y)
    fits = Fits()
    search = search_of("seeded paths", checkpoint="memory://search/saved", callbacks=fits)
    search.fit(X, y)
    assert 0 < fits.n < wanted.n_splits_ * len(wanted.cv_results_["params"])
    assert np.array_equal(split_scores(search), split_scores(wanted))
    with pytest.raises(ValueError, match="nowhere"):
        search_of("single fits", checkpoint="nowhere://saved").fit(X, y)


def test_another_search_is_refused(tmp_path):
    X, y, _ = few_labels()
    search_of("single fits", checkpoint=tmp_path, refit=False).fit(X, y)
    other = X.copy()
    other[np.flatnonzero(y < 0)[0], 0] += 1.0
    lie = y.copy()
    lie[np.flatnonzero(y >= 0)[0]] ^= 1
    wrong = [
        ("data", (other, y), {}),
        ("data", (X, lie), {}),
        ("data", (X, y, np.ones(len(y))), {}),
        ("folds", (X, y), {"cv": 4}),
        ("scoring", (X, y), {"scoring": smooth}),
        ("candidates", (X, y), {"param_grid": {"C": [0.1]}}),
        ("parameters", (X, y), {"estimator": QPS3VM(positive_ratio=0.4)}),
        ("estimator", (X, y), {"estimator": L2SVM(), "param_grid": {"lam": [1.0]}}),
    ]
    for what, data, params in wrong:
        search = search_of("single fits", checkpoint=tmp_path, refit=False).set_params(**params)
        with pytest.raises(ValueError, match=rf"is of another search, .*{what}"):
            search.fit(*data)
    search_of("single fits", checkpoint=tmp_path, refit=False, verbose=True).fit(X, y)


def test_a_directory_of_something_else_is_refused(tmp_path):
    X, y, _ = few_labels()
    (tmp_path / "thesis.txt").write_text("do not write here")
    with pytest.raises(ValueError, match="is not empty"):
        search_of("single fits", checkpoint=tmp_path).fit(X, y)


def test_scores_are_plain_json_and_a_half_written_file_does_no_harm(tmp_path):
    X, y, _ = few_labels()
    wanted = search_of("single fits", checkpoint=tmp_path).fit(X, y)
    files = sorted(tmp_path.glob("piece-*.json"))
    assert len(files) == 6
    (row,) = json.loads(files[0].read_text())["content"]
    assert row["test"]["score"] == split_scores(wanted)[row["candidate"], row["fold"]]
    (tmp_path / "piece-0-0.1234.tmp").write_text('[{"cand')
    files[0].unlink()
    fits = Fits()
    search = search_of("single fits", checkpoint=tmp_path, callbacks=fits).fit(X, y)
    assert fits.n == 1
    assert np.array_equal(split_scores(search), split_scores(wanted))


@pytest.mark.parametrize("kind", [TSVM, DAS3VM, QNS3VM])
def test_a_path_on_many_rows_goes_on_in_the_middle(kind, tmp_path, tiny_shards):
    X, y, _ = few_labels()
    grid = {"lam": [1.0, 0.3, 0.1, 0.03, 0.01]}

    def search(callbacks=None, checkpoint=None):
        return S3VMGridSearchCV(
            kind(), grid, cv=FOLDS, scoring=smooth, callbacks=callbacks, checkpoint=checkpoint,
            refit=False,
        )  # fmt: skip

    wanted = split_scores(search().fit(X, y))
    with pytest.raises(Stop):
        search(Fits(8), tmp_path).fit(X, y)
    fits = Fits()
    found = search(fits, tmp_path).fit(X, y)
    assert fits.n == 15 - 8
    assert np.array_equal(split_scores(found), wanted)
    (tmp_path / "piece-1-0.npz").unlink()
    rows = json.loads((tmp_path / "piece-1-0.json").read_text())["content"]
    _write_json(str(tmp_path / "piece-1-0.json"), rows[:2])
    fits = Fits()  # scores without seeds: the path is walked again
    assert np.array_equal(split_scores(search(fits, tmp_path).fit(X, y)), wanted)
    assert fits.n == 5
    other = tmp_path / "other"
    with pytest.raises(Stop):
        search(Fits(8), other).fit(X, y)
    seeds = other / "piece-1-0.npz"
    seeds.write_bytes(seeds.read_bytes()[:-40])  # so it is if they are damaged
    fits = Fits()
    assert np.array_equal(split_scores(search(fits, other).fit(X, y)), wanted)
    assert fits.n == 10


def test_a_score_that_has_changed_is_noticed(tmp_path):
    X, y, _ = few_labels()
    search_of("single fits", checkpoint=tmp_path).fit(X, y)
    file = min(tmp_path.glob("piece-*.json"))
    text = file.read_text()
    for wrong in (text.replace('"score": 0.', '"score": 1.'), text[:50], "[]", "[[" * 5000):
        assert wrong != text
        file.write_text(wrong)
        with pytest.raises(ValueError, match=r"checkpoint: .*piece-.*json is damaged"):
            search_of("single fits", checkpoint=tmp_path).fit(X, y)


def test_two_searches_do_not_share_a_directory(tmp_path):
    lock = FolderLock(tmp_path)
    with pytest.raises(ValueError, match=r"checkpoint: .* is in use by process"):
        Store(tmp_path, dict)
    lock.release()
    store = Store(tmp_path, dict)
    with pytest.raises(ValueError, match="is in use by process"):
        Store(tmp_path, dict)
    store.close()
    Store(tmp_path, dict).close()
