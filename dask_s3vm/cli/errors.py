"""Errors of the command line, with exit codes that batch systems can act on."""

import contextlib
from collections.abc import Iterator
from typing import IO, Any

import click

from dask_s3vm.exceptions import EngineError, MemoryShortError

#: Said by `--help`.
EXIT_CODES = """\b
Exit codes:
  0    done
  1    failed; also: the rows do not fit into the workers' memory
  2    wrong usage
  65   bad input: running again will not help
  69   no scheduler or no worker can be reached
  75   stopped by a signal, state kept: run again with --resume
  130  stopped by SIGINT without a state to go on from (143: by SIGTERM)
"""


class BadData(click.ClickException):
    """The input is wrong: running again will not help."""

    exit_code = 65


class Unreachable(click.ClickException):
    """No scheduler or worker: running again later may help."""

    exit_code = 69


class Interrupted(click.ClickException):
    """A signal stopped the run: running again goes on if there is a state, else begins anew."""

    #: what is not needed to go on from is left out, such as pictures: batch systems do not wait
    in_a_hurry = True

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]

    def show(self, file: IO[Any] | None = None) -> None:
        """Say so; it is no error."""
        click.echo(self.message, file=file, err=True)


@contextlib.contextmanager
def told_plainly() -> Iterator[None]:
    """Turn errors about input and cluster into one line and an exit code."""
    try:
        yield
    except MemoryShortError as error:
        raise click.ClickException(str(error)) from error
    except EngineError as error:
        raise Unreachable(str(error)) from error
    except (ValueError, TypeError, FileNotFoundError, FileExistsError, ImportError) as error:
        raise BadData(str(error)) from error
