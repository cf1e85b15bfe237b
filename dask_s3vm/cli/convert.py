"""`dask-s3vm convert`: data files from one format to another, in parallel."""

import time
from dataclasses import fields
from typing import Any

import click

from dask_s3vm.cli.cluster import ClusterOptions, cluster_options, running_on
from dask_s3vm.cli.data import data_options, read_rows
from dask_s3vm.cli.errors import told_plainly
from dask_s3vm.cli.progress import ProgressLine
from dask_s3vm.cli.signals import resumable
from dask_s3vm.cli.tables import show
from dask_s3vm.io.formats import format_of, options_of, write_data
from dask_s3vm.io.store import split_target

#: Text per block: about half of it in binary form, a good size for a record batch.
_BLOCKSIZE = "64 MiB"


@click.command()
@click.argument("data", nargs=-1, required=True)
@click.argument("output")
@click.option("--to", "to_format", metavar="FORMAT", help="Format of OUTPUT; default: its ending.")
@click.option("--known-labels", metavar="A,B,...", help="Any other label is an error.")
@click.option("--unlabeled", help="Label of rows without one: null, or none to be written.")
@click.option("--overwrite", is_flag=True, help="Replace OUTPUT if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
@data_options
@cluster_options
def convert(
    data: tuple[str, ...],
    output: str,
    to_format: str | None,
    known_labels: str | None,
    unlabeled: str | None,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Write the rows of DATA (files, globs, folders) to OUTPUT, in another format.

    With a slash at its end, OUTPUT is a folder with one file per block. It appears when it is
    complete. If the command is interrupted, the same command goes on where it was: finished parts
    wait in .OUTPUT.partial beside OUTPUT.
    """
    began = time.perf_counter()
    where = {field.name: given.pop(field.name) for field in fields(ClusterOptions)}
    again = resumable(lambda: True, "the same command goes on from there")
    with told_plainly(), again, ProgressLine("converting", quiet) as progress:
        target = format_of(output.rstrip("/"), to_format)
        home, name = split_target(output)
        if home.exists(name) and not overwrite:
            raise FileExistsError(f"{output} exists already; --overwrite replaces it")
        source = format_of(list(data), given.get("format"))
        reading, writing = _own_options(source, target, known_labels, unlabeled)
        if "blocksize" in options_of(source.load("reader")):
            given["blocksize"] = given["blocksize"] or _BLOCKSIZE
        with running_on(ClusterOptions(**where)):
            X, y = read_rows(data, **given, **reading)
            opened = time.perf_counter()
            writing |= {"overwrite": overwrite, "progress": progress}
            write_data(X, y, output, format=target.name, **writing)
    show(
        [
            {
                "rows": int(X.shape[0]),
                "features": int(X.shape[1]),
                "format": target.name,
                "open_s": round(opened - began, 2),
                "write_s": round(time.perf_counter() - opened, 2),
                "output": output,
            }
        ],
        as_json,
    )


def _own_options(
    source: Any, target: Any, known_labels: str | None, unlabeled: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return options for the reader and the writer; refuse those that would have no effect."""
    reading: dict[str, Any] = {"unlabeled": None}
    writing: dict[str, Any] = {}
    if known_labels is not None:
        reading["known_labels"] = [_word(word) for word in known_labels.split(",")]
    if unlabeled is not None:
        if "unlabeled" in options_of(source.load("reader")):
            reading["unlabeled"] = _word(unlabeled)
        if "unlabeled" in options_of(target.load("writer")):
            writing["unlabeled"] = _word(unlabeled)
        if reading["unlabeled"] is None and not writing:
            raise click.UsageError(
                f"--unlabeled has no effect from {source.name} to {target.name} files"
            )
    return reading, writing


def _word(text: str) -> int | float | str:
    """Read a label: a whole number, a number, or a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
