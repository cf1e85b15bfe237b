"""`dask-s3vm tune`: a search from the shell."""

import json

import numpy as np
import pytest
from running import result_of, run

from dask_s3vm import TSVM, load_model
from dask_s3vm.model_selection import S3VMGridSearchCV, S3VMRandomizedSearchCV

GRID = ["--method", "tsvm", "--grid", "lam=1e-3,1e-1", "--grid", "lam-unlabeled=0.1,1"]
COMMON = ["--positive-ratio", 0.5, "--folds", 3, "--nworkers", 0]


def test_it_is_the_search_of_the_library(g2c, g2c_file):
    X, _, few = g2c
    told = result_of(run("tune", g2c_file, *GRID, *COMMON, "--model", "best.npz", "--json"))
    wanted = S3VMGridSearchCV(
        TSVM(positive_ratio=0.5, random_state=0),
        {"lam": [1e-3, 1e-1], "lam_unlabeled": [0.1, 1.0]},
        cv=3,
        ties="simplest",
    ).fit(X, few)
    assert len(told["candidates"]) == 4
    scores = {(one["lam"], one["lam-unlabeled"]): one["accuracy"] for one in told["candidates"]}
    for params, score in zip(
        wanted.cv_results_["params"], wanted.cv_results_["mean_test_score"], strict=True
    ):
        assert scores[params["lam"], params["lam_unlabeled"]] == score
    assert told["best"] == {
        "lam": wanted.best_params_["lam"], "lam-unlabeled": wanted.best_params_["lam_unlabeled"],
    }  # fmt: skip
    assert told["best_accuracy"] == wanted.best_score_
    assert [one["rank"] for one in told["candidates"]] == sorted(
        one["rank"] for one in told["candidates"]
    )
    found = load_model("best.npz").coef_  # the file is read as sparse rows: other last bits
    np.testing.assert_allclose(found, wanted.best_estimator_.coef_, rtol=1e-9)


def test_the_table_is_for_people_and_the_report_has_a_picture(g2c_file, tmp_path):
    pytest.importorskip("matplotlib")
    done = run("tune", g2c_file, *GRID, *COMMON, "--report", tmp_path / "r")
    assert done.exit_code == 0, done.output
    assert done.stdout.split()[:6] == ["rank", "lam", "lam-unlabeled", "accuracy", "std", "fit_s"]
    assert "best: --lam " in done.stdout
    assert "18 fits" not in done.stdout
    assert run("report", tmp_path / "r").exit_code == 0
    page = (tmp_path / "r" / "report.html").read_text()
    assert "Accuracy of the candidates" in page
    assert "Candidates" in page
    assert (tmp_path / "r" / "plots" / "search.svg").stat().st_size > 0


def test_candidates_at_random(g2c, g2c_file):
    from scipy.stats import loguniform

    X, _, few = g2c
    told = result_of(run("tune", g2c_file, "--random", 3, "--grid", "lam=1e-4..1", "--seed", 5,
                         *COMMON, "--json"))  # fmt: skip
    wanted = S3VMRandomizedSearchCV(
        TSVM(positive_ratio=0.5, random_state=5), {"lam": loguniform(1e-4, 1)}, n_iter=3, cv=3,
        random_state=5,
    ).fit(X, few)  # fmt: skip
    drawn = sorted(params["lam"] for params in wanted.cv_results_["params"])
    assert sorted(one["lam"] for one in told["candidates"]) == drawn


def test_without_a_grid_it_varies_the_regularizer(g2c_file):
    told = result_of(run("tune", g2c_file, *COMMON, "--json", "--quiet"))
    assert sorted(one["lam"] for one in told["candidates"]) == pytest.approx(
        [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    )
    told = result_of(run("tune", g2c_file, "--method", "qp", *COMMON, "--json", "--quiet"))
    assert sorted(one["C"] for one in told["candidates"]) == pytest.approx([0.01, 0.1, 1, 10, 100])


@pytest.mark.parametrize("method", ["rlsc", "s2rlsc"])
def test_methods_that_choose_lam_themselves_are_tuned_too(g2c_file, method):
    few = ["--folds", 2, "--nworkers", 0, "--method", method]
    told = result_of(run("tune", g2c_file, *few, "--json"))
    assert len({one["lam"] for one in told["candidates"]}) == 5


def test_kernels_and_words_are_tried_too(g2c_file):
    told = result_of(run("tune", g2c_file, *COMMON, "--kernel", "rbf", "--n-components", 20,
                         "--grid", "sigma=1,2", "--json", "--quiet"))  # fmt: skip
    assert sorted(one["sigma"] for one in told["candidates"]) == [1.0, 2.0]
    told = result_of(run("tune", g2c_file, *COMMON, "--grid", "kernel=linear,rbf", "--json"))
    assert {one["kernel"] for one in told["candidates"]} == {"linear", "rbf"}


def test_candidates_that_the_labels_cannot_tell_apart_are_said_so(g2c_file):
    done = run("tune", g2c_file, *COMMON, "--method", "TSVM", "--grid", "tol=1e-6,1.1e-6")
    assert done.exit_code == 0, done.output
    assert "2 candidates are equal by these labels" in done.stdout
    # of the progress, a log gets the first line and the last
    assert [line for line in done.stderr.splitlines() if "fits" in line][-1].count("/") == 1
    assert sum("fits" in line for line in done.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--grid", "lam"], "NAME=VALUE"),
        (["--grid", "C=1,2"], "'C' is not an option of --method s3vm; there are"),
        (["--grid", "lam=a,b"], "is not a number"),
        (["--grid", "lam=1e-4..1"], "--random"),
        (["--grid", "lam=1..0.1", "--random", 2], "0 < LOW < HIGH"),
        (["--grid", "lam=1,2", "--lam", 1], "leave out one"),
        (["--grid", "sigma=1,2"], "--sigma has no effect with --kernel linear"),
        (["--resume"], "--checkpoint"),
        (["--lam", -1], "--lam must be a float"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(g2c_file, options, words):
    done = run("tune", g2c_file, *options, *COMMON)
    assert done.exit_code == 2, done.output
    assert words in " ".join(done.output.split())


def test_a_search_resumes(g2c_file, tmp_path):
    saving = ["--checkpoint", tmp_path / "state", "--json"]
    first = result_of(run("tune", g2c_file, *GRID, *COMMON, *saving))
    assert run("tune", g2c_file, *GRID, *COMMON, *saving).exit_code == 2
    again = result_of(run("tune", g2c_file, *GRID, *COMMON, *saving, "--resume"))
    assert again["candidates"] == first["candidates"]
    assert json.loads((tmp_path / "state" / "search.json").read_text())


@pytest.mark.filterwarnings("ignore:6 folds in place of n_splits=1000")
def test_the_number_of_folds_is_that_of_the_search(g2c, g2c_file):
    _, _, few = g2c
    told = result_of(run("tune", g2c_file, *GRID[:4], "--positive-ratio", 0.5, "--folds", 1000,
                         "--nworkers", 0, "--json"))  # fmt: skip
    assert told["folds"] == min(np.sum(few == label) for label in (0, 1)) < 1000
