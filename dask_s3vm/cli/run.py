"""Options of `train` about the run itself: what is read, written, shown and kept."""

from collections.abc import Callable
from typing import Any

import click

from dask_s3vm.cli.kinds import LabelPlace, Place, Word


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --model, --predict-unlabeled, --report, --checkpoint, --resume, --dry-run, ..."""
    options = [
        click.option("--model", type=Place(), default="model.npz", show_default=True,
                     help="Model file to write."),
        click.option("--predict-unlabeled", type=Place(), metavar="OUT",
                     help="Write the labels found for unlabeled rows: .csv or .npy."),
        click.option("--report", type=Place(), metavar="DIR",
                     help="Write history, facts and plots; `dask-s3vm report DIR` makes a page."),
        click.option("--checkpoint", type=Place(), metavar="DIR",
                     help="Keep the state of the fit there, to go on from after a stop."),
        click.option("--resume", is_flag=True,
                     help="Go on from the state in --checkpoint; from the start if there is none."),
        click.option("--dry-run", is_flag=True,
                     help="Print what the fit would need (memory, rounds, time), and stop."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option("--quiet", is_flag=True, help="No progress."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def label_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --labels and --unlabeled."""
    options = [
        click.option("--labels", type=LabelPlace(), metavar="FILE|column:NAME",
                     help="Labels apart from the rows: one a line (0 = unlabeled), or .npy."),
        click.option("--unlabeled", type=Word(),
                     help="Mark of unlabeled rows; -1, with text of --labels 0."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command
