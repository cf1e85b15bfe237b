"""Options about input files, and the rows that they name."""

from collections.abc import Callable
from typing import Any

import click

from dask_s3vm.io.formats import format_of, options_of, read_data


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --n-features, --zero-based and --blocksize."""
    options = [
        click.option(
            "--n-features",
            type=click.IntRange(1),
            help="Columns of svmlight text, if not to be found from the file.",
        ),
        click.option(
            "--zero-based",
            type=click.Choice(["auto", "yes", "no"]),
            default="auto",
            help="Whether svmlight columns count from 0; auto: if a column 0 occurs.",
        ),
        click.option("--blocksize", default="16 MiB", help="Text per block."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def read_rows(
    paths: tuple[str, ...],
    n_features: int | None,
    zero_based: str,
    blocksize: str,
    format: str | None = None,
    **more: Any,
) -> tuple[Any, Any]:
    """Read files into (X, y), on the current cluster; y is None where a file has no labels."""
    choice: dict[str, Any] = {"auto": "auto", "yes": True, "no": False}
    urls = list(paths) if len(paths) > 1 else paths[0]
    options = {
        "n_features": n_features,
        "zero_based": choice[zero_based],
        "blocksize": blocksize,
        "block": "scipy",
    }
    form = format_of(urls, format)
    known = options_of(form.load("reader"))
    own = {name: options[name] for name in options.keys() & known}
    return read_data(urls, format=form.name, **own, **more)
