"""The command line: `dask-s3vm`, and `dask s3vm` as a subcommand of dask.

Results go to standard output, progress and errors to standard error. `cli.stopping.EXIT_CODES`
lists the exit codes.
"""

import importlib
import logging
import warnings
from typing import Any, NamedTuple

import click

from dask_s3vm._version import __version__
from dask_s3vm.cli.options import Option, name_options
from dask_s3vm.cli.stopping import internal_errors, supervised


class _Command(NamedTuple):
    """A command: its module in this package, and its line in `--help`."""

    module: str
    help: str


_COMMANDS = {
    "train": _Command("train", "Train a model from files of rows."),
    "tune": _Command("tune", "Choose parameters by cross-validation, and train with them."),
    "predict": _Command("predict", "Predict the rows of a file."),
    "evaluate": _Command("predict", "Measure the accuracy of a model on labeled rows."),
    "info": _Command("info", "Show what is in a model file, or the parts of a cluster."),
    "report": _Command("report", "Make one HTML page from the folder of `train --report`."),
    "convert": _Command("convert", "Write data files in another format."),
    "demo": _Command("demo", "Generate a data set, train on it, and show the result."),
    "bench": _Command("bench", "Measure speed, as ratios within one run."),
}


class _Echo(logging.Handler):
    """Shows log records to the user: compiling the kernels takes a while."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self.format(record), err=True)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning without the line of our code that it comes from."""
    click.echo(f"warning: {name_options(str(message))}", err=True)


def _set_level(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        logging.getLogger("dask_s3vm").setLevel(value.upper())


def _log_level() -> click.Option:
    return Option(
        ["--log-level"],
        type=click.Choice(["debug", "info", "warning", "error"]),
        group="run",
        is_eager=True,
        expose_value=False,
        callback=_set_level,
        shown="info",
        help="Which messages to show; debug adds the traceback of an error.",
    )


class _LazyGroup(click.Group):
    """Imports the module of a command when the command is used: `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"dask_s3vm.cli.{_COMMANDS[name].module}")
        command: click.Command = getattr(module, name)
        if not any("--log-level" in one.opts for one in command.params):
            command.params.append(_log_level())
        return command

    def invoke(self, ctx: click.Context) -> Any:
        logger = logging.getLogger("dask_s3vm")
        echo, level, show = _Echo(), logger.level, warnings.showwarning
        logger.addHandler(echo)
        logger.setLevel(logging.INFO)
        warnings.showwarning = _show_warning
        try:
            with internal_errors():
                return supervised(lambda: super(_LazyGroup, self).invoke(ctx))
        finally:
            warnings.showwarning = show
            logger.removeHandler(echo)
            logger.setLevel(level)

    def format_commands(self, ctx: click.Context, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.help) for name, one in _COMMANDS.items()])


@click.group(
    name="s3vm",
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`dask-s3vm COMMAND --help` explains a command and its exit codes; `dask-s3vm demo` "
    "needs no data.",
)
@click.version_option(__version__, prog_name="dask-s3vm")
def main() -> None:
    """Semi-supervised support vector machines: few labels, many unlabeled rows, on Dask."""
