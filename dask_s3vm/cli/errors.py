"""Errors of the command line, with exit codes that batch systems can act on."""

import contextlib
from collections.abc import Iterator

import click

from dask_s3vm.exceptions import EngineError


class BadData(click.ClickException):
    """The input is wrong: running again will not help."""

    exit_code = 65


class Unreachable(click.ClickException):
    """No scheduler or worker: running again later may help."""

    exit_code = 69


@contextlib.contextmanager
def told_plainly() -> Iterator[None]:
    """Turn errors about input and cluster into one line and an exit code."""
    try:
        yield
    except EngineError as error:
        raise Unreachable(str(error)) from error
    except (ValueError, TypeError, FileNotFoundError, FileExistsError, ImportError) as error:
        raise BadData(str(error)) from error
