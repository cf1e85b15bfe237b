"""The command line: `dask-s3vm`, and `dask s3vm` through dask's own command.

Results go to standard output, progress and errors to standard error.

Exit codes: see `cli.errors.EXIT_CODES`.
"""

import importlib
import logging
from typing import Any

import click

from dask_s3vm._version import __version__
from dask_s3vm.cli.signals import supervised

_COMMANDS = {
    "bench": "Measure, in ratios: rounds, formula, l2svm, tsvm, da, qn, search, safety, soak.",
    "convert": "Write data files in another format.",
    "demo": "Make a data set, train on it, and show what came out.",
    "evaluate": "Score a model on labeled data.",
    "info": "Show what a cluster is made of, and whether its parts fit together.",
    "predict": "Predict the rows of a file.",
    "report": "Make one page of what a training left behind.",
    "train": "Train a model from a file of rows.",
}


class _Echo(logging.Handler):
    """Tells people what takes its time: kernels are being compiled."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(record.getMessage(), err=True)


class _LazyGroup(click.Group):
    """Loads a command's module when the command is used: help stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        return getattr(importlib.import_module(f"dask_s3vm.cli.{name}"), name)

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
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(name="s3vm", cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dask-s3vm")
def main() -> None:
    """Semi-supervised support vector machines at scale, on Dask."""
