"""Exit codes: our own errors, wrong usage, bad input; and what is found before work starts."""

import os
import resource
import subprocess
import sys
import threading

import numpy as np
import pytest
from running import run

import dask_s3vm
from dask_s3vm.cli import cluster
from dask_s3vm.cli.stopping import is_deliberate
from dask_s3vm.datasets import hide_labels


@pytest.mark.parametrize(
    "error", [KeyError("lam"), ValueError("shapes"), TypeError("unhashable"), AssertionError()]
)
def test_an_error_of_ours_is_not_bad_input(error, g2c_file, monkeypatch):
    def fit(self, X, y):
        raise error

    monkeypatch.setattr(dask_s3vm.S3VM, "fit", fit)
    done = run("train", g2c_file, "--quiet")
    assert done.exit_code == 70
    assert type(error).__name__ in done.stderr
    assert "--log-level debug" in done.stderr
    assert "Traceback" not in done.stderr
    done = run("train", g2c_file, "--quiet", "--log-level", "debug")
    assert done.exit_code == 70
    assert "Traceback" in done.stderr
    assert "in fit" in done.stderr


def test_checks_are_told_from_accidents():
    def caught(function, *args):
        with pytest.raises((ValueError, TypeError)) as info:
            function(*args)
        return info.value

    assert is_deliberate(caught(hide_labels, np.arange(3), 9))
    assert not is_deliberate(caught(np.arange(3).reshape, 2, 2))
    assert not is_deliberate(caught(hide_labels, np.arange(3), "many", "too", "many"))


@pytest.mark.parametrize("text", ["lam = -1", "positive-ratio = 2.0", "max-iter = 0"])
def test_a_wrong_parameter_is_wrong_usage_wherever_it_is(text, g2c_file, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(text)
    flag, value = text.split(" = ")
    for options in (["--config", config], [f"--{flag}", value]):
        done = run("train", g2c_file, *options)
        assert done.exit_code == 2, done.output
        assert f"--{flag} must be" in done.output
        assert "reading" not in done.output


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    writer = threading.Thread(target=lambda: (tmp_path / "rows.csv").write_text("a,b\n1,2\n"))
    writer.start()
    done = run("train", tmp_path / "rows.csv", "--label", "b")
    assert done.exit_code == 65
    assert "is a pipe" in done.output
    (tmp_path / "rows.csv").read_text()
    writer.join()


TABLE = "age,kind,bought\n" + "".join(f"{n},{'ab'[n % 2]},{n % 2}\n" for n in range(50))


@pytest.mark.parametrize(
    ("name", "text", "label", "words"),
    [
        ("t.csv", TABLE + ",a,1\n", "bought", "line 52: column 'age': the value is missing"),
        ("t.csv", TABLE, "bougt", "no label column 'bougt'"),
        ("t.svm", "1 1:2\n0 x:1\n", None, "line 2"),
        ("absent.csv", None, "bought", "absent.csv"),
    ],
)
def test_a_first_look_comes_before_the_cluster(name, text, label, words, tmp_path, monkeypatch):
    def start(options):
        raise AssertionError("a cluster was started")

    monkeypatch.setattr(cluster, "_start_cluster", start)
    if text is not None:
        (tmp_path / name).write_text(text)
    options = ["--label", label] if label else []
    done = run("train", tmp_path / name, *options, "--nworkers", 1)
    assert done.exit_code == 65, done.output
    assert words in done.output
    assert name in done.output


def test_a_table_wants_the_name_of_its_label_column(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    done = run("train", tmp_path / "t.csv")
    assert done.exit_code == 2
    assert "--label" in done.output
    assert "age,kind,bought" in done.output
    done = run("train", tmp_path / "t.csv", "--labels", "column:bought")
    assert done.exit_code == 2
    assert "--label NAME now" in done.output


def test_a_table_cannot_be_predicted_by_a_model_of_other_rows(g2c_file, tmp_path):
    assert run("train", g2c_file, "--model", "m.npz", "--quiet").exit_code == 0
    (tmp_path / "t.csv").write_text(TABLE)
    done = run("predict", "m.npz", tmp_path / "t.csv")
    assert done.exit_code == 65
    assert "does not know how to encode" in done.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--lam", "-1"], "--lam must be a float"),
        (["--max-iter", "0"], "--max-iter must be an int"),
        (["--blocksize", "x"], "--blocksize is 'x', wanted"),
        (["--delimiter", "ab"], "--delimiter is 'ab', wanted"),
        (["--text", "nope"], "--text names ['nope'], but"),
        (
            ["--max-categories", "1", "--missing", "mean"],
            "(--max-categories); name a column of text in --text, leave out one of ids (--drop",
        ),
        (["--missing-indicator"], "--missing-indicator has no effect with --missing 'error'"),
        ([], "line 4: column 'length': the value is missing; --missing allows it: zero,"),
    ],
)
def test_errors_name_options_not_parameters(options, words, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("length,color,kind\n1,red,a\n2,blue,b\n,red,a\n")
    done = run("train", path, "--label", "kind", *options, "--model", tmp_path / "m.npz")
    assert done.exit_code in (2, 65)
    assert words in done.stderr


def test_an_error_about_y_names_the_label_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("length,kind\n1,a\n2,\n3,a\n")
    done = run("train", path, "--label", "kind", "--model", tmp_path / "m.npz")
    assert done.exit_code == 65
    assert "label column 'kind': y has only one class, 'a'" in done.stderr


@pytest.mark.filterwarnings("default:column 'id'")
def test_warnings_name_options_too(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"c{number},{number % 7},{'ab'[number % 2]}" for number in range(300)]
    path.write_text("\n".join(["id,length,kind", *rows]) + "\n")
    done = run("train", path, "--label", "kind", "--method", "l2svm", "--model", tmp_path / "m.npz")
    assert done.exit_code == 0, done.output
    assert "name it in --text if it is text, in --categorical if it is meant" in done.stderr


def test_a_reader_that_goes_away_is_no_error(g2c_file, tmp_path):
    command = [sys.executable, "-m", "dask_s3vm"]
    model = tmp_path / "m.npz"
    assert run("train", g2c_file, "--method", "l2svm", "--model", model).exit_code == 0
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*command, "predict", model, g2c_file], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no such folder")
def test_a_folder_that_takes_no_files_is_found_before_training(g2c_file):
    done = run("train", g2c_file, "--model", "/proc/self/model.npz")
    assert done.exit_code == 2
    assert "--model /proc/self/model.npz: cannot be written" in done.stderr
    assert "reading" not in done.stderr


def test_help_of_a_method_that_does_not_exist_is_wrong_usage():
    done = run("train", "--method", "foo", "--help")
    assert done.exit_code == 2
    assert "'foo' is not one of" in done.stderr


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (["train", "DATA"], "--model"),
        (["tune", "DATA"], "--model"),
        (["train", "DATA"], "--predict-unlabeled"),
        (["predict", "m.npz", "DATA"], "--output"),
        (["report", "run"], "--output"),
        (["convert", "DATA"], "OUTPUT"),
    ],
)
def test_a_missing_folder_of_an_output_is_wrong_usage(command, flag, g2c_file, tmp_path):
    out = tmp_path / "nope" / "out.csv"
    if flag == "OUTPUT":
        out = out.with_suffix(".npz")
    given = [g2c_file if word == "DATA" else word for word in command]
    done = run(*given, *([] if flag == "OUTPUT" else [flag]), out)
    assert done.exit_code == 2, done.output
    assert f"{flag} {out}: there is no folder {out.parent} to write to" in done.stderr
    assert "reading" not in done.stderr
    assert not out.parent.exists()


@pytest.mark.parametrize("flag", ["--report", "--checkpoint"])
@pytest.mark.parametrize("command", ["train", "tune"])
def test_folders_that_cannot_be_made_are_wrong_usage(command, flag, g2c_file, tmp_path):
    (tmp_path / "file").write_text("")
    done = run(command, g2c_file, flag, tmp_path / "file" / "folder")
    assert done.exit_code == 2, done.output
    assert f"{flag} {tmp_path}" in done.stderr
    assert "reading" not in done.stderr


@pytest.mark.parametrize("name", ["rows.npz", "./rows.npz", "link.npz", "model.npz"])
def test_no_output_takes_the_place_of_an_input(name, g2c_file):
    rows = g2c_file.read_bytes()
    for path in ("rows.npz", "other.npz"):
        with open(path, "wb") as file:
            file.write(rows)
    os.symlink("rows.npz", "link.npz")
    assert run("train", "rows.npz", "--method", "l2svm", "--model", "model.npz").exit_code == 0
    with open("model.npz", "rb") as file:
        model = file.read()
    for data in ("rows.npz", f"file://{os.getcwd()}/rows.npz", "r*.npz"):
        done = run("predict", "model.npz", data, "--output", name)
        assert done.exit_code == 2
        assert f"--output {name} is one of the files to be read" in done.stderr
        if name != "model.npz":
            done = run("train", data, "--method", "l2svm", "--model", name)
            assert done.exit_code == 2
            assert f"--model {name} is one of the files to be read" in done.stderr
    with open("rows.npz", "rb") as one, open("model.npz", "rb") as other:
        assert (one.read(), other.read()) == (rows, model)


def test_a_full_disk_is_one_sentence(tmp_path):
    """The model does not fit where it is written to."""
    X = np.random.default_rng(0).normal(size=(40, 300))
    np.savez(tmp_path / "rows.npz", X=X, y=X[:, 0] > 0)
    script = (
        "import resource, sys; from dask_s3vm.__main__ import main; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, {resource.RLIM_INFINITY})); main()"
    )
    options = ["--method", "l2svm", "--model", "m.npz", "--nworkers", "0", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", script, "train", "rows.npz", *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stderr
    assert "there is no room" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npz"]
