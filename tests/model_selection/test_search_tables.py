"""Searches: tables, choices, scorers, both scenarios, and what is refused."""

import sys

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from search_cases import FOLDS, few_labels, split_scores
from sklearn.base import clone, is_classifier
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dask_s3vm import L2SVM, RLSC, S2RLSC, TSVM, TableEncoder
from dask_s3vm.baselines import SupervisedClassifier, baseline
from dask_s3vm.model_selection import LabeledKFold, S3VMGridSearchCV, S3VMRandomizedSearchCV
from dask_s3vm.model_selection.metrics import LazyScorer

GRID = {"lam": [1e-3, 1e-1, 10.0]}


@pytest.fixture(scope="module")
def data():
    X, y, _ = few_labels()
    return X, y


@pytest.mark.parametrize("scoring", [None, "roc_auc", ["accuracy", "f1"]])
def test_the_table_is_scikit_learns(data, scoring):
    refit = "f1" if isinstance(scoring, list) else True
    params = {"scoring": scoring, "refit": refit, "cv": FOLDS}
    theirs = GridSearchCV(L2SVM(), GRID, **params).fit(*data)
    ours = S3VMGridSearchCV(L2SVM(), GRID, **params).fit(*data)
    assert set(ours.cv_results_) == set(theirs.cv_results_)
    for name, values in theirs.cv_results_.items():
        if "time" in name:
            assert (ours.cv_results_[name] >= 0).all()
        elif name.startswith("param"):
            assert list(ours.cv_results_[name]) == list(values)
        else:
            np.testing.assert_allclose(ours.cv_results_[name], values)
    for name in ("best_params_", "best_index_", "n_splits_", "multimetric_"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.best_score_ == pytest.approx(theirs.best_score_)
    X, y = data
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    known = y >= 0
    assert ours.score(X[known], y[known]) == pytest.approx(theirs.score(X[known], y[known]))


def test_train_scores_are_those_of_the_labeled_training_rows(data):
    X, y = data
    search = S3VMGridSearchCV(RLSC(), GRID, cv=FOLDS, return_train_score=True, refit=False)
    table = search.fit(X, y).cv_results_
    for f, (train, _) in enumerate(FOLDS.split(X, y)):
        inside = train[y[train] >= 0]
        model = RLSC(0.1).fit(X[train], y[train])
        assert table[f"split{f}_train_score"][1] == model.score(X[inside], y[inside])


def test_random_candidates_are_scikit_learns(data):
    params = {"n_iter": 3, "random_state": 4, "cv": FOLDS}
    choices = {"lam": np.geomspace(1e-4, 1, 30)}
    ours = S3VMRandomizedSearchCV(L2SVM(), choices, **params).fit(*data)
    theirs = RandomizedSearchCV(L2SVM(), choices, **params).fit(*data)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    np.testing.assert_allclose(split_scores(ours), split_scores(theirs))


def test_a_search_is_an_estimator(data):
    X, y = data
    search = S3VMGridSearchCV(TSVM(), GRID, cv=3)
    assert is_classifier(search)
    with pytest.raises(NotFittedError):
        search.predict(X)
    fitted = clone(search).fit(X, y)
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.n_features_in_ == X.shape[1]
    assert np.array_equal(fitted.predict(X), fitted.best_estimator_.predict(X))
    assert np.array_equal(fitted.decision_function(X), fitted.best_estimator_.decision_function(X))
    assert np.array_equal(fitted.transduction_[y >= 0], y[y >= 0])
    assert not hasattr(fitted, "predict_proba")
    assert "S3VMGridSearchCV" in repr(fitted)


def test_without_refit_there_is_a_choice_and_no_model(data):
    search = S3VMGridSearchCV(L2SVM(), GRID, refit=False).fit(*data)
    assert search.best_params_ in search.cv_results_["params"]
    with pytest.raises(AttributeError, match="refit=False"):
        search.predict(data[0])


def test_ties(data):
    def same(model, X, y):
        return 0.5

    grid = {"lam": [0.1, 10.0, 1.0], "lam_unlabeled": [1.0, 0.1]}
    chosen = {}
    for ties in ("first", "simplest"):
        search = S3VMGridSearchCV(TSVM(), grid, scoring=same, ties=ties, refit=False, cv=2)
        chosen[ties] = search.fit(*data).best_params_
        assert search.cv_results_["rank_test_score"].tolist() == [1] * 6
    assert chosen["first"] == {"lam": 0.1, "lam_unlabeled": 1.0}
    assert chosen["simplest"] == {"lam": 10.0, "lam_unlabeled": 0.1}


def test_means_that_differ_by_rounding_are_a_tie(data):
    values = iter([0.1, 0.2, 0.3, 0.3, 0.2, 0.1])
    assert (0.1 + 0.2) + 0.3 != (0.3 + 0.2) + 0.1
    search = S3VMGridSearchCV(
        TSVM(), {"lam": [1.0, 0.1]}, scoring=lambda *_: next(values), cv=3, refit=False
    )
    assert search.fit(*data).best_index_ == 0
    assert search.cv_results_["rank_test_score"].tolist() == [1, 1]


def test_a_function_may_choose(data):
    search = S3VMGridSearchCV(L2SVM(), GRID, cv=3, refit=lambda table: 2).fit(*data)
    assert search.best_params_ == {"lam": 10.0}
    assert search.best_estimator_.lam == 10.0
    with pytest.raises(ValueError, match="number of a candidate"):
        S3VMGridSearchCV(L2SVM(), GRID, cv=3, refit=lambda table: 3).fit(*data)


def test_parameters_of_the_final_model(data):
    search = S3VMGridSearchCV(
        S2RLSC(n_restarts=2, random_state=0),
        {"lam": [1.0, 0.1]},
        cv=3,
        final_params={"n_restarts": 7},
    ).fit(*data)
    assert search.best_estimator_.n_restarts == 7
    assert search.best_estimator_.n_iter_ == 7


# both scenarios


def test_the_non_realistic_scenario(data):
    X, y, truth = few_labels()
    test_X, _, test_y = few_labels(seed=5)
    search = S3VMGridSearchCV(TSVM(), GRID, test_set=(test_X, test_y), warm_path=False).fit(X, y)
    assert search.scenario_ == "non-realistic"
    assert search.n_splits_ == 1
    wanted = [TSVM(lam).fit(X, y).score(test_X, test_y) for lam in GRID["lam"]]
    assert search.cv_results_["split0_test_score"].tolist() == wanted
    assert search.best_score_ == max(wanted)
    free = y < 0
    search = S3VMGridSearchCV(TSVM(), GRID, test_set=truth, warm_path=False).fit(X, y)
    wanted = [TSVM(lam).fit(X, y).score(X[free], truth[free]) for lam in GRID["lam"]]
    assert search.cv_results_["mean_test_score"].tolist() == wanted


def test_a_lazy_test_set(data):
    test_X, _, test_y = few_labels(seed=5)
    lazy = da.from_array(test_X, chunks=(20, 5)), da.from_array(test_y, chunks=30)
    scoring = LazyScorer("balanced_accuracy")
    ours = S3VMGridSearchCV(L2SVM(), GRID, test_set=lazy, scoring=scoring).fit(*data)
    theirs = S3VMGridSearchCV(
        L2SVM(), GRID, test_set=(test_X, test_y), scoring="balanced_accuracy"
    ).fit(*data)
    np.testing.assert_allclose(split_scores(ours), split_scores(theirs))


def test_the_realistic_scenario_is_the_default(data):
    search = S3VMGridSearchCV(L2SVM(), GRID, refit=False).fit(*data)
    assert search.scenario_ == "realistic"
    assert search.n_splits_ == 5


# other estimators


@pytest.mark.parametrize("name", ["SVM", "self-training", "label spreading"])
def test_baselines(data, name):
    X, y = data
    inner = {"label spreading": "n_neighbors", "self-training": "threshold"}.get(name, "C")
    grid = {f"estimator__{inner}": [5, 9] if inner == "n_neighbors" else [0.6, 0.9]}
    search = S3VMGridSearchCV(baseline(name), grid, cv=FOLDS).fit(X, y)
    for i, params in enumerate(search.cv_results_["params"]):
        for f, (train, test) in enumerate(FOLDS.split(X, y)):
            model = baseline(name).set_params(**params).fit(X[train], y[train])
            assert split_scores(search)[i, f] == model.score(X[test], y[test])


def test_a_pipeline(data):
    X, y = data
    pipe = make_pipeline(StandardScaler(), TSVM(positive_ratio=0.5))
    search = S3VMGridSearchCV(pipe, {"tsvm__lam": [0.1, 1.0]}, cv=FOLDS).fit(X, y)
    train, test = next(FOLDS.split(X, y))
    wanted = clone(pipe).set_params(tsvm__lam=1.0).fit(X[train], y[train]).score(X[test], y[test])
    assert split_scores(search)[1, 0] == wanted


@pytest.mark.parametrize("named", [True, False])
def test_a_pipeline_opens_a_frame_itself(named, tmp_path):
    rng = np.random.default_rng(0)
    buys = rng.random(120) < 0.4
    frame = pd.DataFrame(
        {
            "age": np.where(np.arange(120) == 3, np.nan, rng.normal(30 + 20 * buys, 8)),
            "note": np.where(buys, "a good thing", "a bad thing"),
        }
    )
    truth = np.where(buys, "yes", "no")
    y = np.where(np.arange(120) < 40, truth, None)
    pipe = make_pipeline(TableEncoder(missing="median", text=["note"]), L2SVM())
    search = S3VMGridSearchCV(pipe, {"l2svm__lam": [0.1, 1.0]}, cv=3, checkpoint=tmp_path)
    search.fit(frame.assign(bought=y), "bought") if named else search.fit(frame, y)
    assert search.best_score_ == 1.0
    assert (search.predict(frame) == truth).all()


# what is refused, and what fails


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"ties": "last"}, "ties must be"),
        ({"cv": 3, "test_set": (np.zeros((2, 5)), [0, 1])}, "cv=3 has no effect"),
        ({"test_set": np.zeros(3)}, "true labels of all rows"),
        ({"test_set": (np.zeros(3), np.zeros(3))}, "test_set must be"),
        ({"cv": 1}, "n_splits"),
        ({"cv": "5"}, "cv must be"),
        ({"cv": []}, "no split"),
        ({"error_score": "nan"}, "error_score"),
        ({"final_params": 3}, "final_params must be"),
        ({"final_params": {"lam": 1.0}, "refit": False}, "final_params has no effect"),
        ({"scoring": []}, "at least one"),
        ({"scoring": {}}, "at least one"),
        ({"scoring": ["accuracy", "f1"]}, "refit must be"),
        ({"refit": "f1"}, "several scores"),
        ({"scoring": "no such"}, "no such"),
        ({"scoring": lambda *_: "high", "error_score": "raise"}, "scoring must return a number"),
        ({"estimator": L2SVM(checkpoint="here")}, "shared by all fits"),
        ({"final_params": {"checkpoint": "here"}}, "shared by all fits"),
        ({"param_grid": {"lam": [-1.0]}}, "lam"),
        ({"param_grid": {"no_such": [1.0]}}, "no_such"),
        ({"param_grid": []}, "candidate"),
    ],
)
def test_wrong_parameters_are_refused(data, params, message):
    with pytest.raises((ValueError, TypeError), match=message):
        S3VMGridSearchCV(**{"estimator": L2SVM(), "param_grid": GRID} | params).fit(*data)


def test_data_that_cannot_be_searched(data):
    X, y = data
    search = S3VMGridSearchCV(TSVM(), GRID)
    with pytest.raises(ValueError, match="y is None"):
        search.fit(X, None)
    with pytest.raises(ValueError, match="no labeled row"):
        search.fit(X, np.full(len(y), -1))
    with pytest.raises(ValueError, match="only one class"):
        search.fit(X, np.where(y == 1, -1, y))
    with pytest.raises(ValueError, match="without a labeled row"):
        S3VMGridSearchCV(TSVM(), GRID, cv=[(np.flatnonzero(y >= 0), np.flatnonzero(y < 0))]).fit(
            X, y
        )
    with pytest.raises(ValueError, match="sample_weight is for"):
        S3VMGridSearchCV(baseline("SVM"), {"estimator__C": [1.0]}, cv=3).fit(X, y, np.ones(len(y)))


class Fragile(LogisticRegression):
    """Fails for one value of a parameter."""

    def fit(self, X, y, **params):
        if self.C == 13.0:
            raise RuntimeError("unlucky")
        return super().fit(X, y, **params)


def test_fits_that_fail(data):
    fragile = SupervisedClassifier(Fragile())
    with pytest.warns(FitFailedWarning, match=r"3 of 6 fits failed.*RuntimeError: unlucky"):
        search = S3VMGridSearchCV(fragile, {"estimator__C": [13.0, 1.0]}, cv=3).fit(*data)
    assert np.isnan(search.cv_results_["mean_test_score"][0])
    assert search.cv_results_["rank_test_score"].tolist() == [2, 1]
    assert search.best_index_ == 1
    with pytest.warns(FitFailedWarning):
        search = S3VMGridSearchCV(
            fragile, {"estimator__C": [13.0, 1.0]}, cv=3, error_score=-1.0
        ).fit(*data)
    assert search.cv_results_["mean_test_score"][0] == -1.0
    with pytest.raises(ValueError, match="all fits failed"):
        S3VMGridSearchCV(fragile, {"estimator__C": [13.0]}, cv=3).fit(*data)
    with pytest.raises(RuntimeError, match="unlucky"):
        S3VMGridSearchCV(fragile, {"estimator__C": [13.0]}, cv=3, error_score="raise").fit(*data)


def test_other_scorers(data):
    X, y = data
    scorer = make_scorer(recall_score, pos_label=0)
    search = S3VMGridSearchCV(
        L2SVM(), GRID, scoring={"recall": scorer, "auc": "roc_auc"}, refit="recall", cv=FOLDS
    ).fit(X, y)
    train, test = next(FOLDS.split(X, y))
    model = L2SVM(0.1).fit(X[train], y[train])
    assert search.cv_results_["split0_test_recall"][1] == scorer(model, X[test], y[test])
    assert search.score(X[test], y[test]) == scorer(search.best_estimator_, X[test], y[test])


def test_classes_of_strings(data):
    X, y = data
    names = np.array(["no", "yes", "?"])[y]
    ours = S3VMGridSearchCV(TSVM(unlabeled="?"), GRID, cv=3).fit(X, names)
    wanted = S3VMGridSearchCV(TSVM(), GRID, cv=3).fit(X, y)
    assert np.array_equal(split_scores(ours), split_scores(wanted))
    assert ours.classes_.tolist() == ["no", "yes"]


def test_few_labels_make_fewer_folds():
    X, y, _ = few_labels(n_labeled=6)
    with pytest.warns(UserWarning, match="3 folds in place of"):
        search = S3VMGridSearchCV(L2SVM(), GRID).fit(X, y)
    assert search.n_splits_ == 3


# progress


def test_callbacks_of_the_estimator_hear_of_the_final_fit_alone(data, capsys):
    rows = []
    estimator = L2SVM(callbacks=rows.append, verbose=True)
    search = S3VMGridSearchCV(estimator, GRID, cv=3).fit(*data)
    assert rows == search.best_estimator_.history_
    assert capsys.readouterr().err.count("objective") <= len(rows)


def test_progress(data, capsys, monkeypatch):
    rows = []
    search = S3VMGridSearchCV(
        L2SVM(), GRID, cv=LabeledKFold(3), callbacks=rows.append, verbose=True
    )
    search.fit(*data)
    assert [row["done"] for row in rows] == list(range(1, 10))
    assert {(row["candidate"], row["fold"]) for row in rows} == {
        (i, f) for i in range(3) for f in range(3)
    }
    assert all(row["total"] == 9 for row in rows)
    row = rows[4]
    assert row["score"] == split_scores(search)[row["candidate"], row["fold"]]
    shown = capsys.readouterr().err
    assert "9/9 fits" in shown
    assert "best so far" in shown
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    search.fit(*data)
    assert "\r" in capsys.readouterr().err
