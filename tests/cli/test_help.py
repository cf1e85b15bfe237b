"""What `--help` shows: the common options in groups, and those of a choice when it is named."""

import re

import click
import pytest
from running import run

from dask_s3vm.cli import _COMMANDS, main
from dask_s3vm.cli.methods import DEFAULT_METHOD, method_parameters
from dask_s3vm.parameters.methods import METHODS


def sections(*args):
    """Title of each section of a help page -> its text."""
    done = run(*args)
    assert done.exit_code == 0, done.output
    parts = re.split(r"^([A-Z][a-z ]*):\n", done.output, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def options_in(text):
    return set(re.findall(r"^  (--[a-zA-Z0-9-]+)", text, flags=re.MULTILINE))


def test_options_of_train_are_in_groups():
    found = sections("train", "--help")
    wanted = ["Data", "Label", "Method", "Kernel", "Run", "Cluster", "Other"]
    assert [name for name in found if name.endswith("options")] == [
        *(f"{name} options" for name in wanted), "More options",
    ]  # fmt: skip
    assert {"--label", "--labels", "--unlabeled", "--hide-all-but", "--hold-out"} <= options_in(
        found["Label options"]
    )
    assert all(name in found["Methods"] for name in METHODS)
    assert f"[default: {DEFAULT_METHOD}]" in found["Method options"]
    assert run("train", "--help").output.count("\n") < 160


@pytest.mark.parametrize("method", METHODS)
def test_a_method_shows_all_its_options_and_no_others(method):
    found = options_in(sections("train", "--method", method, "--help")["Method options"])
    for one in method_parameters():
        assert (one.opts[0] in found) == (method in one.fields), one.opts


def test_a_kernel_and_a_format_show_theirs():
    plain, more = run("train", "--help").output, run("train", "--kernel=rbf", "--help").output
    assert "--sigma" not in plain
    assert "--sigma" in more
    assert "--degree" not in more
    assert "--delimiter" in run("predict", "--format", "csv", "--help").output
    assert "--delimiter" not in run("predict", "--format", "npz", "--help").output


def test_all_options_are_in_the_long_help():
    train = main.get_command(click.Context(main), "train")
    shown = run("train", "--help-all").output
    for one in train.get_params(click.Context(train)):
        if isinstance(one, click.Option):
            assert (one.opts[0] in shown) != one.hidden, one.opts


@pytest.mark.parametrize("name", [name for name in _COMMANDS if name != "bench"])
def test_every_option_is_a_sentence(name):
    command = main.get_command(click.Context(main), name)
    ctx = click.Context(command)
    for one in command.get_params(ctx):
        if isinstance(one, click.Option) and not one.hidden:
            text = re.sub(r"\s+\[default: .*\]$", "", one.get_help_record(ctx)[1])
            assert re.match(r"^[A-Zg\"].*\.$", text), text
    assert run(name, "--help").exit_code == 0
