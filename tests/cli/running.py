"""Runs the command in this process."""

import json

from click.testing import CliRunner

from dask_s3vm.cli import main


def run(*args):
    """Run `dask-s3vm ARGS`; `.output` has what it printed, `.exit_code` how it ended."""
    done = CliRunner().invoke(main, [str(arg) for arg in args])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def result_of(done):
    """The row that `train --json` printed."""
    assert done.exit_code == 0, done.output
    (row,) = [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]
    return row
