"""`--hide-all-but` and `--hold-out`: labels that are hidden to measure the error on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import result_of, run

from dask_s3vm import TSVM
from dask_s3vm.cli.data import Rows
from dask_s3vm.cli.labels import hidden_rows
from dask_s3vm.datasets import hide_labels
from dask_s3vm.labels import is_unlabeled


@given(st.integers(3, 60), st.integers(0, 5), st.data())
def test_all_but_some_of_full_labels_are_those_of_hide_labels(n, seed, data):
    y = np.arange(n) % 3
    keep = data.draw(st.integers(3, n - 1)) if n > 3 else None
    if keep is not None:
        wanted = hide_labels(y, keep, random_state=seed) == -1
        assert np.array_equal(hidden_rows(y, -1, keep, None, seed), wanted)


@given(st.floats(0.01, 0.99), st.integers(0, 3), st.lists(st.sampled_from("ab?"), min_size=8))
def test_a_share_of_each_class_is_held_out(share, seed, words):
    y = np.array([*words, "a", "a", "b", "b", "?"])
    counts = {label: int((y == label).sum()) for label in "ab"}
    wanted = {label: min(round(share * n), n - 1) for label, n in counts.items()}
    if not any(wanted.values()):
        return
    hidden = hidden_rows(y, "?", None, share, seed)
    assert {label: int((hidden & (y == label)).sum()) for label in "ab"} == wanted
    assert not hidden[y == "?"].any()


@pytest.mark.parametrize(
    ("y", "word"),
    [
        ([2, 1, 1, 2, -1], -1),
        ([2.0, 1.0, 1.0, 2.0, -1.0], -1),
        ([0.0, 1.0, 1.0, 0.0, np.nan], np.nan),
        (["a", "b", "b", "a", ""], ""),
    ],
)
def test_hidden_labels_get_the_mark_of_the_others(y, word):
    rows = Rows(None, np.array(y))
    mark = rows.hide("auto", 2, None, 0)
    assert rows.hidden.sum() == 2
    marks = rows.y[rows.hidden]
    assert np.isnan(marks).all() if word != word else (marks == word).all(), marks
    assert np.array_equal(is_unlabeled(rows.y, mark), rows.hidden | (np.arange(5) == 4))


def test_a_few_labels_of_a_file_of_0_and_1_can_be_held_out(g2c, tmp_path):
    np.savez(tmp_path / "rows.npz", X=g2c[0], y=g2c[1])
    done = run("train", tmp_path / "rows.npz", "--hold-out", 0.1, "--json")
    told = result_of(done)
    assert told["hidden_rows"] == sum(round(0.1 * n) for n in np.bincount(g2c[1]))
    assert f"{told['hidden_rows']} labels are held out to measure the error; for a" in done.stderr
    assert told["hidden_error_%"] < 10


@pytest.mark.parametrize("kind", ["npz", "csv"])
def test_a_partly_labeled_file(kind, g2c, tmp_path):
    X, y, _ = g2c
    few = np.where(np.arange(300) % 5 == 0, y, -1)
    path, options = tmp_path / f"rows.{kind}", []
    if kind == "npz":
        np.savez(path, X=X, y=few)
    else:
        lines = [",".join([*map(repr, row.tolist()), "" if label < 0 else f"c{label}"])
                 for row, label in zip(X, few, strict=True)]  # fmt: skip
        path.write_text("\n".join(["a,b,c,d,e,kind", *lines]) + "\n")
        options = ["--label", "kind", "--scale", "none"]
    common = [path, *options, "--positive-ratio", 0.5, "--lam", 0.01, "--json", "--quiet"]
    told = result_of(run("train", *common, "--hold-out", 0.25, "--seed", 3))
    hidden = hidden_rows(few, -1, None, 0.25, 3)
    assert told["hidden_rows"] == hidden.sum()
    model = TSVM(lam=0.01, positive_ratio=0.5).fit(X, np.where(hidden, -1, few))
    error = 100 * np.mean(model.predict(X)[hidden] != y[hidden])
    assert told["hidden_error_%"] == pytest.approx(error)
    told = result_of(run("train", *common, "--hide-all-but", 12))
    assert told["hidden_rows"] == (few >= 0).sum() - 12


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--hide-all-but", 300], "fewer than the 12 labels"),
        (["--hold-out", 0.01], "less than one label"),
    ],
)
def test_too_few_labels_to_hide(options, words, g2c_file):
    done = run("train", g2c_file, *options)
    assert done.exit_code == 65, done.output
    assert words in done.output


@pytest.mark.parametrize("share", ["nan", "0", "1", "-0.1", "inf"])
def test_what_is_no_share_is_wrong_usage(share, g2c_file):
    done = run("train", g2c_file, "--hold-out", share)
    assert done.exit_code == 2, done.output
    assert "--hold-out" in done.output


def test_a_seed_is_never_wrong_usage(g2c_file):
    """Linear TSVM draws nothing, but hiding labels does."""
    for method in ("tsvm", "l2svm", "sqp"):
        done = run("train", g2c_file, "--method", method, "--seed", 3, "--quiet")
        assert done.exit_code == 0, done.output
