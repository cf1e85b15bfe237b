"""`dask-s3vm convert`: convert data files to another format, in parallel."""

import time
from typing import Any

import click

from dask_s3vm.cli.cluster import cluster_of, cluster_options, running_on
from dask_s3vm.cli.data import WRITABLE, data_options, read_rows, reading_options
from dask_s3vm.cli.labels import check_label_options, check_length
from dask_s3vm.cli.options import (
    GroupedCommand,
    json_option,
    label_place_options,
    option,
    quiet_option,
)
from dask_s3vm.cli.output import ProgressLine, check_output, show
from dask_s3vm.cli.stopping import EXIT_CODES, format_errors
from dask_s3vm.io.arrays import read_labels
from dask_s3vm.io.formats import format_of, options_of, reading_format, write_data
from dask_s3vm.io.store import exists
from dask_s3vm.labels import AUTO

#: Default size of a block of text: its binary form, about half of it, suits a record batch.
_BLOCKSIZE = "64 MiB"


@click.command(cls=GroupedCommand, epilog=EXIT_CODES)
@click.argument("data", nargs=-1, required=True)
@click.argument("output")
@option(
    "--to",
    "to_format",
    type=click.Choice(WRITABLE),
    group="run",
    shown="from the file name",
    help="Format of OUTPUT.",
)
@option("--overwrite", is_flag=True, group="run", help="Replace OUTPUT if it exists.")
@data_options
@label_place_options
@option(
    "--unlabeled",
    group="labels",
    metavar="MARK",
    help="Label for rows without one: for missing labels that are read, or for all rows of "
    "svmlight text that is written without labels.",
)
@json_option
@quiet_option
@cluster_options
def convert(
    data: tuple[str, ...],
    output: str,
    to_format: str | None,
    overwrite: bool,
    unlabeled: str | None,
    as_json: bool,
    quiet: bool,
    **chosen: Any,
) -> None:
    """Write the rows of DATA (files, globs, folders) to OUTPUT, in another format.

    If OUTPUT ends with a slash it is a folder with one file per block. OUTPUT appears when it is
    complete.

    \b
    Examples:
      dask-s3vm convert rows.svm.gz rows.arrow
      dask-s3vm convert customers.csv --label bought customers.npz
    """  # noqa: D301
    began = time.perf_counter()
    check_label_options(chosen)
    with format_errors(), ProgressLine("converting", quiet) as progress:
        target = format_of(output.rstrip("/"), to_format)
        target.load("writer")  # refused before the input is read
        if exists(output.rstrip("/")) and not overwrite:
            raise FileExistsError(f"{output} exists already; add --overwrite to replace it")
        check_output("OUTPUT", f"{output.rstrip('/')}.tmp" if output.endswith("/") else output)
        source = reading_format(list(data), chosen["format"])
        reading, writing = _own_options(source, target, unlabeled)
        mark = reading.pop("unlabeled", AUTO)
        if "blocksize" in options_of(source.load("reader")):
            reading["blocksize"] = chosen["blocksize"] or _BLOCKSIZE
        with running_on(cluster_of(chosen)):
            options = reading_options(chosen) | reading
            X, y = read_rows(data, options, labels=not chosen["labels"], unlabeled=mark)
            if chosen["labels"]:
                y = read_labels(chosen["labels"])
                check_length(y, X.shape[0], chosen["labels"])
            opened = time.perf_counter()
            writing |= {"overwrite": overwrite, "progress": progress}
            write_data(X, y, output, format=target.name, **writing)
    show(
        {
            "rows": int(X.shape[0]),
            "features": int(X.shape[1]),
            "format": target.name,
            "open_s": round(opened - began, 2),
            "write_s": round(time.perf_counter() - opened, 2),
            "output": output,
        },
        as_json,
    )


def _own_options(
    source: Any, target: Any, unlabeled: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the reader and of the writer; an option without effect is refused."""
    reading: dict[str, Any] = {}
    writing: dict[str, Any] = {}
    if unlabeled is not None:
        if "unlabeled" in options_of(source.load("reader")):
            reading["unlabeled"] = _word(unlabeled)
        if "unlabeled" in options_of(target.load("writer")):
            writing["unlabeled"] = _word(unlabeled)
        if "unlabeled" not in reading and not writing:
            raise click.UsageError(
                f"--unlabeled has no effect from {source.name} to {target.name} files"
            )
    return reading, writing


def _word(text: str) -> int | float | str:
    """Read a label: an integer, a number, or a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
