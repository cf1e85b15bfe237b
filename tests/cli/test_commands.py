"""The command line: its output, its files, and its exit codes.

Most commands run in this process. That a process of its own does the same, with its output and exit
code, is seen where `run_process` is used.
"""

import json
import subprocess
import sys
import time

import dask
import numpy as np
import pytest
import running
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from dask_s3vm import L2SVM, load_model
from dask_s3vm.datasets import make_g2c


def run_process(*args):
    """Run `dask-s3vm ARGS` in a new process."""
    command = [sys.executable, "-c", "from dask_s3vm.cli import main; main()", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run(*args):
    """Run `dask-s3vm ARGS` in this process."""
    done = running.run(*args)
    return subprocess.CompletedProcess(args, done.exit_code, done.stdout, done.stderr)


def rows_of(done):
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)  # one object, whatever the command
    return told.get("results", [told])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = sp.random_array((600, 40), density=0.2, rng=rng, format="csr")
    y = np.where(X @ rng.standard_normal(40) > 0, 1, -1)
    return X, y


@pytest.fixture(scope="module")
def text_file(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.svm"
    dump_svmlight_file(*rows, str(path), zero_based=False)
    return path


def test_demo_shows_what_unlabeled_rows_are_good_for():
    few, s3vm, tsvm, da, astray, guarded, all_labels = rows_of(
        run("demo", "--rows", 6000, "--json")
    )
    assert s3vm["decision"] == "tsvm"
    assert s3vm["error_%"] < few["error_%"]
    assert astray["error_%"] > few["error_%"] + 5
    assert guarded["decision"] == "supervised"
    assert guarded["error_%"] == few["error_%"]
    assert [row["method"] for row in (few, tsvm, da)] == ["L2SVM", "TSVM", "DAS3VM"]
    assert few["labels"] == tsvm["labels"] == 100
    assert max(tsvm["error_%"], da["error_%"]) < 0.7 * few["error_%"]
    assert all_labels["error_%"] < few["error_%"]
    assert all_labels["objective"] > 0


def test_demo_prints_a_table():
    done = run("demo", "--rows", 1000, "--features", 500)
    assert done.returncode == 0, done.stderr
    header = done.stdout.splitlines()[2].split()
    assert header == [
        "method",
        "rows",
        "labels",
        "ratio",
        "decision",
        "error_%",
        "objective",
        "iterations",
        "cg",
        "seconds",
    ]


def test_train_predict_evaluate_svmlight(rows, text_file, tmp_path):
    X, y = rows
    expected = L2SVM(lam=1e-3).fit(X, y)
    model, labels = tmp_path / "model.npz", tmp_path / "labels.txt"
    (trained,) = rows_of(
        run_process(
            "train",
            text_file,
            "--method",
            "l2svm",
            "--model",
            model,
            "--nworkers",
            0,
            "--json",
            "--blocksize",
            "4 kB",
        )
    )
    assert trained["rows"] == 600
    assert trained["termination"] == "converged"
    np.testing.assert_allclose(load_model(model).coef_, expected.coef_, rtol=1e-9, atol=1e-12)

    done = run("predict", model, text_file, "--output", labels, "--nworkers", 0)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.loadtxt(labels), expected.predict(X))

    done = run("predict", model, text_file, "--decision", "--nworkers", 0)
    np.testing.assert_allclose(
        np.array(done.stdout.split(), dtype=float), expected.decision_function(X), rtol=1e-9
    )
    (scores,) = rows_of(run("evaluate", model, text_file, "--json", "--nworkers", 0))
    assert scores["accuracy"] == pytest.approx(expected.score(X, y))
    assert scores["error_%"] == pytest.approx(100 * (1 - expected.score(X, y)))
    for one, label in zip(scores["classes"], (-1, 1), strict=True):
        assert one["share"] == pytest.approx(np.mean(y == label))
        assert one["predicted_share"] == pytest.approx(np.mean(expected.predict(X) == label))
    text = run("evaluate", model, text_file).stdout
    assert text.splitlines()[-1].startswith(f"accuracy {expected.score(X, y):.4f} (error ")


def test_train_reads_npz_and_leaves_out_unlabeled_rows(rows, tmp_path):
    X, y = rows
    partial = np.where(np.arange(600) % 3 == 0, y, 0)
    np.savez(
        tmp_path / "rows.npz",
        data=X.data,
        indices=X.indices,
        indptr=X.indptr,
        shape=X.shape,
        y=partial,
    )
    model = tmp_path / "model.npz"
    rows_of(
        run(
            "train", tmp_path / "rows.npz", "--method", "l2svm", "--unlabeled", 0, "--model", model,
            "--nworkers", 0, "--json",
        )
    )  # fmt: skip
    kept = partial != 0
    expected = L2SVM().fit(X[kept], y[kept])
    np.testing.assert_allclose(load_model(model).coef_, expected.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("method", "counted"),
    [("tsvm", "cg_steps"), ("da", "evaluations"), ("qn", "iterations"), ("s2rlsc", "flips")],
)
def test_train_with_unlabeled_rows(method, counted, tmp_path):
    X, y = dask.compute(*make_g2c(n_rows=400, n_features=20))
    partial = np.where(np.arange(400) < 10, 2 * y.astype(int) - 1, 0)
    np.savez(tmp_path / "rows.npz", X=X, y=partial)
    model = tmp_path / "model.npz"
    (told,) = rows_of(
        run(
            "train", tmp_path / "rows.npz", "--method", method, "--unlabeled", 0, "--lam", 0.01,
            "--positive-ratio", 0.5, "--model", model, "--nworkers", 0, "--json",
        )
    )  # fmt: skip
    assert np.mean(load_model(model).predict(X) == 2 * y.astype(int) - 1) > 0.95
    assert told[counted] > 0


def test_an_option_without_effect_is_refused(text_file):
    done = run("train", text_file, "--method", "da", "--max-switches", 1, "--nworkers", 0)
    assert done.returncode == 2
    assert "--max-switches" in done.stderr
    done = run("train", text_file, "--method", "da", "--offset", "free", "--nworkers", 0)
    assert done.returncode == 2
    assert "--offset has no effect with --method da" in done.stderr


def test_train_least_squares(text_file, tmp_path):
    model = tmp_path / "model.npz"
    options = ["--lam", 0.1, "--model", model, "--nworkers", 0, "--json"]
    (trained,) = rows_of(run("train", text_file, "--method", "rlsc", *options))
    assert 0 <= trained["loo_error"] < 0.5
    assert load_model(model).lam_ == 0.1
    done = run("train", text_file, "--method", "rlsc", "--restarts", 3)
    assert done.returncode == 2
    assert "--restarts has no effect with --method rlsc" in done.stderr
    done = run("train", text_file, "--method", "s2rlsc", "--tol", 1e-3)
    assert "--tol has no effect with --method s2rlsc" in done.stderr


def test_a_command_given_again_comes_to_the_same_model(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 4)), np.where(np.arange(80) < 10, np.arange(80) % 2, -1)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    for method in (["s2rlsc", "--restarts", 2], ["tsvm", "--kernel", "rbf", "--n-components", 9]):
        found = []
        for name in ("a.npz", "b.npz"):
            rows_of(
                run("train", tmp_path / "rows.npz", "--positive-ratio", 0.5, "--json", "--model",
                    tmp_path / name, "--method", *method)
            )  # fmt: skip
            found.append(load_model(tmp_path / name))
        assert np.array_equal(found[0].coef_, found[1].coef_)


def test_train_on_a_local_cluster_gives_the_same_bits(text_file, tmp_path):
    for name, workers in (("a", 0), ("b", 2)):
        how = run_process if workers else run
        rows_of(
            how(
                "train",
                text_file,
                "--method",
                "l2svm",
                "--model",
                tmp_path / name,
                "--nworkers",
                workers,
                "--json",
            )
        )
    a, b = load_model(tmp_path / "a"), load_model(tmp_path / "b")
    assert np.array_equal(a.coef_, b.coef_)


@pytest.mark.parametrize(
    ("how", "args", "code", "words"),
    [
        (run, ["train", "absent.svm"], 65, ["absent.svm"]),
        (run, ["train", "{text}", "--lam", "0"], 2, ["lam", "0"]),
        (run, ["train", "{text}", "--lam", "much"], 2, ["--lam"]),
        (run_process, ["train", "{bad}"], 65, ["bad.svm", "line 2", "1 x:1"]),
        (run, ["train", "{text}", "--scheduler", "tcp://127.0.0.1:1"], 69, ["127.0.0.1:1"]),
        (run, ["evaluate", "{text}", "{text}"], 65, ["rows.svm"]),
    ],
)
def test_errors_say_what_is_wrong_and_exit_with_their_code(
    how, args, code, words, text_file, tmp_path
):
    bad = tmp_path / "bad.svm"
    bad.write_text("1 1:1\n1 x:1\n")
    filled = [arg.format(text=text_file, bad=bad) for arg in args]
    where = [] if "--scheduler" in args else ["--nworkers", "0"]
    with dask.config.set({"s3vm.connect-timeout": "1 s"}):
        done = how(*filled, *where)  # that it gives up and does not hang: the timeout of tests
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.cluster
def test_train_on_a_scheduler_with_two_workers(text_file, tmp_path):
    small = {"s3vm.local-bytes": 0, "s3vm.shard-bytes": 8192}
    patient = {"s3vm.connect-timeout": "100 s"}  # until there are workers
    address = tmp_path / "scheduler.json"
    program = [sys.executable, "-m", "dask"]
    loopback = ["--host", "127.0.0.1", "--scheduler-file", str(address), "--no-dashboard"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    worker = ["worker", *loopback, "--nthreads", "1", "--no-nanny", "--local-directory", tmp_path]
    started = []
    try:
        for command in (["scheduler", "--port", "0", *loopback], worker, worker):
            started.append(subprocess.Popen([*program, *command], **quiet))
        while not address.exists():
            assert started[0].poll() is None, "the scheduler has ended"
            time.sleep(0.05)
        with dask.config.set(small | patient):
            rows_of(
                run(
                    "train", text_file, "--method", "l2svm", "--scheduler-file", address,
                    "--blocksize", "4 kB", "--model", tmp_path / "remote", "--json",
                )
            )  # fmt: skip
    finally:
        for process in started:  # what is tested is over; how dask ends is not our subject
            process.kill()
            process.wait()
    with dask.config.set(small):
        rows_of(run("train", text_file, "--method", "l2svm", "--nworkers", 0, "--model",
                    tmp_path / "here", "--json"))  # fmt: skip
    remote, here = load_model(tmp_path / "remote"), load_model(tmp_path / "here")
    assert np.array_equal(remote.coef_, here.coef_)
    assert np.array_equal(remote.intercept_, here.intercept_)


def test_dask_s3vm_is_the_same_program():
    done = subprocess.run(
        [sys.executable, "-m", "dask", "s3vm", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "dask-s3vm" in done.stdout


def test_train_predict_and_evaluate_with_a_kernel(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.where(np.hypot(*X.T) > 1.1, 1, 0)
    rows, model = tmp_path / "rows.svm", tmp_path / "model.npz"
    dump_svmlight_file(X, y, str(rows), zero_based=False)
    kernel = ("--kernel", "rbf", "--sigma", 0.7, "--n-components", 50, "--seed", 4)
    rows_of(run("train", rows, "--method", "l2svm", *kernel, "--model", model, "--json"))
    loaded = load_model(model)
    params = {"kernel": "rbf", "sigma": 0.7, "n_components": 50, "random_state": 4}
    assert params.items() <= loaded.get_params().items()
    expected = L2SVM(**params).fit(X, y)
    done = run("predict", model, rows, "--decision", "--nworkers", 0)
    np.testing.assert_allclose(
        np.array(done.stdout.split(), dtype=float), expected.decision_function(X), atol=1e-6
    )
    (scores,) = rows_of(run("evaluate", model, rows, "--json", "--nworkers", 0))
    assert scores["error_%"] < 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--gamma", 1), "--gamma has no effect with --kernel linear"),
        (("--kernel", "rbf", "--degree", 2), "--degree has no effect with --kernel rbf"),
        (("--kernel", "rbf", "--n-components", "many"), "wants a number or `all`"),
    ],
)
def test_kernel_options_without_effect_are_refused(text_file, options, words):
    done = run("train", text_file, *options)
    assert done.returncode == 2
    assert words in done.stderr


def test_train_star(rows, tmp_path):
    X, y = rows
    few = np.where(np.arange(600) % 10 == 0, y, 0)
    path, model = tmp_path / "rows.npz", tmp_path / "model.npz"
    np.savez(path, X=X.toarray(), y=few)
    star = ["--method", "star", "--unlabeled", 0, "--nworkers", 0]
    (trained,) = rows_of(
        run(
            "train",
            path,
            *star,
            "--C",
            2,
            "--kernel",
            "rbf",
            "--sigma",
            2,
            "--model",
            model,
            "--json",
        )
    )
    assert trained["termination"] == "converged"
    assert trained["iterations"] > 1
    found = load_model(model)
    assert (found.C, found.sharded_) == (2.0, False)
    assert (found.transduction_ != 0).all()
    wrong = run("train", path, *star, "--lam", 0.1)
    assert wrong.returncode == 2
    assert "--lam has no effect with --method star" in wrong.stderr
    wrong = run("train", path, "--method", "tsvm", "--C", 1)
    assert "--C has no effect with --method tsvm" in wrong.stderr


def test_probabilities_of_the_command_line(rows, text_file, tmp_path):
    X, y = rows
    model = tmp_path / "model.npz"
    options = ("--method", "l2svm", "--lam", 0.01, "--nworkers", 0)
    assert run("train", text_file, *options, "--probability", "--model", model).returncode == 0
    done = run("predict", model, text_file, "--proba", "--nworkers", 0)
    first, *lines = done.stdout.splitlines()
    assert first == "-1,1"
    found = np.array([line.split(",") for line in lines], dtype=float)
    wanted = L2SVM(lam=0.01, probability=True).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


def test_probabilities_that_are_not_there(text_file, tmp_path):
    model = tmp_path / "model.npz"
    assert run("train", text_file, "--method", "l2svm", "--nworkers", 0, "--model", model)
    done = run("predict", model, text_file, "--proba", "--nworkers", 0)
    assert done.returncode != 0
    assert "train it with --probability" in done.stderr
    done = run("predict", model, text_file, "--proba", "--decision", "--nworkers", 0)
    assert "exclude each other" in done.stderr
