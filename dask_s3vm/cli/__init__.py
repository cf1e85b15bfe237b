"""The command line: `dask-s3vm`, and `dask s3vm` as a subcommand of dask.

Results go to standard output, progress and errors to standard error. `cli.stopping.EXIT_CODES`
lists the exit codes.
"""

import importlib
import logging
from typing import Any, NamedTuple

import click

from dask_s3vm._version import __version__
from dask_s3vm.cli.stopping import supervised


class _Command(NamedTuple):
    """A command: its module in this package, and its line in `--help`."""

    module: str
    help: str


_COMMANDS = {
    "bench": _Command(
        "bench",
        "Measure ratios: rounds, formula, l2svm, tsvm, da, qn, search, safety, soak.",
    ),
    "convert": _Command("convert", "Write data files in another format."),
    "demo": _Command("demo", "Generate a data set, train on it, and show the result."),
    "evaluate": _Command("predict", "Score a model on labeled rows."),
    "info": _Command("info", "Show the parts of a cluster, and whether their versions agree."),
    "predict": _Command("predict", "Predict the rows of a file."),
    "report": _Command("report", "Make one HTML page from the folder of `train --report`."),
    "train": _Command("train", "Train a model from files of rows."),
}


class _Echo(logging.Handler):
    """Shows log records to the user: compiling the kernels takes a while."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(record.getMessage(), err=True)


class _LazyGroup(click.Group):
    """Imports the module of a command when the command is used: `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"dask_s3vm.cli.{_COMMANDS[name].module}")
        return getattr(module, name)

    def invoke(self, ctx: click.Context) -> Any:
        logger = logging.getLogger("dask_s3vm.kernels")
        echo = _Echo()
        logger.addHandler(echo)
        logger.setLevel(logging.INFO)
        try:
            return supervised(lambda: super(_LazyGroup, self).invoke(ctx))
        finally:
            logger.removeHandler(echo)

    def format_commands(self, ctx: click.Context, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name].help) for name in sorted(_COMMANDS)])


@click.group(name="s3vm", cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dask-s3vm")
def main() -> None:
    """Semi-supervised support vector machines at scale, on Dask."""
