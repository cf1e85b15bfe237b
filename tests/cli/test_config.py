"""`train --config`: options from a file."""

import inspect
import tomllib

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import result_of, run

from dask_s3vm import load_model
from dask_s3vm.cli.config import key_of, to_toml
from dask_s3vm.cli.methods import make_estimator, method_parameters
from dask_s3vm.cli.options import GROUPS
from dask_s3vm.cli.train import train
from dask_s3vm.parameters.methods import METHODS, estimator_of


@pytest.fixture
def write(tmp_path, g2c, monkeypatch):
    """Write a file of options next to the rows; the working directory is another one."""
    (tmp_path / "job").mkdir()
    (tmp_path / "elsewhere").mkdir()
    np.savez(tmp_path / "job" / "rows.npz", X=g2c[0], y=g2c[2])
    monkeypatch.chdir(tmp_path / "elsewhere")

    def make(text):
        path = tmp_path / "job" / "run.toml"
        path.write_text(text)
        return path

    return make


def test_a_file_says_all_and_paths_are_relative_to_it(write, tmp_path):
    config = write(
        """
        data = "rows.npz"
        method = "tsvm"
        lam = 0.02
        lam_unlabeled = 0.5
        positive-ratio = 0.5
        [kernel]
        kernel = "rbf"
        sigma = 1.5
        n-components = 30
        [cluster]
        nworkers = 0
        [run]
        seed = 3
        model = "found.npz"
        quiet = true
        json = true
        """
    )
    row = result_of(run("train", "--config", config))
    model = load_model(tmp_path / "job" / "found.npz")
    assert row["model"] == str(tmp_path / "job" / "found.npz")
    wanted = {"lam": 0.02, "lam_unlabeled": 0.5, "positive_ratio": 0.5, "kernel": "rbf"}
    wanted |= {"sigma": 1.5, "n_components": 30, "random_state": 3, "unlabeled": "auto"}
    assert wanted.items() <= model.get_params().items()


def test_the_command_line_wins(write, tmp_path, g2c_file):
    config = write('data = "absent.npz"\nlam = 0.5\nnworkers = 0\nintercept = false\nquiet = true')
    done = run("train", g2c_file, "--config", config, "--lam", 0.25, "--model", "here.npz")
    assert done.exit_code == 0, done.output
    model = load_model(tmp_path / "elsewhere" / "here.npz")
    assert model.lam == 0.25
    assert model.fit_intercept is False
    done = run("train", g2c_file, "--config", config, "--intercept", "--model", "here.npz")
    assert load_model(tmp_path / "elsewhere" / "here.npz").fit_intercept is True


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lamb = 1", ["'lamb' is not known", "did you mean 'lam'?"]),
        ("[method]\nlam_unlabelled = 1", ["'[method] lam_unlabelled'", "'lam-unlabeled'"]),
        ("[methods]\nlam = 1", ["table [methods]", "'method'"]),
        ("[cluster]\nlam = 1", ["'[cluster] lam'", "[method]"]),
        ("lam = true", ["lam = True", "not a number"]),
        ('tol = "small"', ["tol = 'small'", "not a valid float"]),
        ("max-iter = 1.5", ["max-iter = 1.5", "not a valid integer"]),
        ("intercept = 2", ["intercept = 2", "not a valid boolean"]),
        ("nworkers = -1", ["nworkers = -1"]),
        ('method = "svm"', ["method = 'svm'", "tsvm"]),
        ("lam = 1\n[method]\nlam = 2", ["'lam' and '[method] lam' are the same"]),
        ("lam-unlabeled = 1\nlam_unlabeled = 2", ["'lam-unlabeled' and 'lam_unlabeled'"]),
        ("lam = 1\nlam\n", ["run.toml is not a TOML file", "line 2"]),
        ("config = 'other.toml'", ["'config' is not known"]),
        ("[labels]\nlabel-column = 3", ["label-column = 3", "called --label now"]),
        ("annealing = [0, 'x']", ["annealing", "a list of numbers"]),
    ],
)
def test_what_is_wrong_is_named(write, text, words):
    done = run("train", "rows.npz", "--config", write(text))
    assert done.exit_code == 2, done.output
    for word in ["run.toml", *words]:
        assert word in done.output


def test_a_missing_file_or_missing_data_is_an_error(write):
    done = run("train", "rows.npz", "--config", "absent.toml")
    assert done.exit_code == 2
    assert "absent.toml" in done.output
    done = run("train", "--config", write("lam = 1"))
    assert done.exit_code == 2
    assert "DATA is missing" in done.output


def test_a_printed_config_repeats_the_run(g2c_file, tmp_path):
    options = [g2c_file, "--method", "qn", "--annealing", "0,0.1,1", "--lam", "0.01"]
    options += ["--positive-ratio", 0.5, "--class-weight", "0=1,1=2.5", "--nworkers", 0]
    options += ["--threshold", "ratio", "--offset", "free", "--quiet"]
    printed = run("train", *options, "--model", tmp_path / "a.npz", "--print-config")
    assert printed.exit_code == 0, printed.output
    assert not (tmp_path / "a.npz").exists()
    config = tmp_path / "run.toml"
    config.write_text(printed.output)
    assert tomllib.loads(printed.output)["method"]["annealing"] == [0.0, 0.1, 1.0]
    assert run("train", *options, "--model", tmp_path / "a.npz").exit_code == 0
    done = run("train", "--config", config, "--model", tmp_path / "b.npz", "--quiet")
    assert done.exit_code == 0, done.output
    a, b = load_model(tmp_path / "a.npz"), load_model(tmp_path / "b.npz")
    assert a.get_params() == b.get_params()
    assert a.class_weight == {0: 1.0, 1: 2.5}
    assert np.array_equal(a.coef_, b.coef_)
    again = run("train", "--config", config, "--print-config")
    assert again.output == printed.output


VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)


@given(st.dictionaries(st.sampled_from("abc"), VALUES | st.lists(VALUES, max_size=3)))
def test_what_is_written_is_read_back(entries):
    assert tomllib.loads(to_toml({"table": entries}))["table"] == entries


@pytest.mark.parametrize(
    ("word", "value", "text"),
    [("yes", True, "true"), ("no", False, "false"), ("auto", "auto", '"auto"')],
)
def test_sharded_is_a_truth_value_or_auto(tmp_path, g2c_file, word, value, text):
    printed = run("train", g2c_file, "--method", "star", "--sharded", word, "--print-config")
    assert f"sharded = {text}\n" in printed.output
    config = tmp_path / "run.toml"
    for words in (text, f'"{word}"'):
        config.write_text(f"data = '{g2c_file}'\nmethod = 'star'\nsharded = {words}\n")
        again = run("train", "--config", config, "--print-config")
        assert again.output == printed.output
    assert make_estimator({"method": "star", "sharded": value}).sharded is value


@pytest.mark.parametrize(
    ("old", "value", "words"),
    [
        ("placement", "pool", "no for pool, yes for shards"),
        ("scheme", "greedi", "no for exact, yes for greedi"),
        ("solver", "exact", "no for exact, yes for sharded"),
    ],
)
def test_old_options_are_refused_with_the_new_name(tmp_path, g2c_file, old, value, words):
    config = tmp_path / "run.toml"
    config.write_text(f"data = '{g2c_file}'\n{old} = '{value}'\n")
    typed = run("train", g2c_file, f"--{old}", value)
    from_file = run("train", "--config", config)
    for done in (typed, from_file):
        assert done.exit_code == 2
        assert f"called --sharded now: {words}" in " ".join(done.output.split())
    assert f"--{old}" not in run("train", "--help").output
    config.write_text("shard = true\n")
    assert f"'{old}'" not in run("train", "--config", config).output


NOT_OPTIONS = {"kernel_params", "unlabeled", "warm_start", "callbacks", "checkpoint", "verbose"}


def test_every_parameter_of_every_method_is_an_option():
    kernel = {"kernel", "n_components", "sigma", "gamma", "degree", "coef0", "random_state"}
    targets = {option.parameter for option in method_parameters()} | kernel
    used = set(kernel)
    for name in METHODS:
        known = set(inspect.signature(estimator_of(name)).parameters)
        assert known - NOT_OPTIONS <= targets
        used |= known
    assert targets <= used


def test_options_have_no_name_twice_and_a_group():
    ctx = click.Context(train)
    params = train.get_params(ctx)
    keys = [key_of(one) for one in params]
    assert len(keys) == len(set(keys))
    shown = [one for one in params if isinstance(one, click.Option) and not one.hidden]
    free = {key_of(one) for one in shown if getattr(one, "group", None) not in GROUPS}
    assert free == {"help", "help-all"}


@pytest.mark.parametrize("text", ["1=2=x", "balance", "a=,b=1", "=2"])
def test_class_weights_that_make_no_sense_are_refused(g2c_file, text):
    done = run("train", g2c_file, "--class-weight", text, "--nworkers", 0)
    assert done.exit_code == 2
    assert "--class-weight" in done.output


def test_exit_codes_are_in_the_help():
    text = run("train", "--help").output
    for code in ("65", "69", "75", "130", "143"):
        assert code in text
