"""A first look at the input, before anything long is started."""

import os
import tempfile
from collections.abc import Mapping
from typing import Any

import click

from dask_s3vm.cli.data import WITH_LABEL, read_rows, reading_options, refuse_pipes
from dask_s3vm.cli.options import name_options
from dask_s3vm.cli.stopping import BadData

#: Bytes of text that are looked at before a cluster is started.
_FIRST_LOOK = 1 << 20


def check_label_column(paths: tuple[str, ...], chosen: Mapping[str, Any]) -> None:
    """Refuse a table to train on if nobody says where its labels are."""
    from dask_s3vm.io.formats import reading_format

    if chosen["label"] is not None or chosen["labels"] is not None:
        return
    form = reading_format(list(paths), chosen["format"])
    if form.name in WITH_LABEL:
        line = f"; its first line is {_first_line(paths[0], form)!r}" if form.name == "csv" else ""
        raise click.UsageError(
            f"{paths[0]} is a table: name its label column by --label, or give a file of labels by "
            f"--labels{line}"
        )


def _first_line(path: str, form: Any) -> str:
    with _first_file(path, form).opened() as stream:
        return bytes(stream.read(200)).split(b"\n")[0].decode("utf-8", "replace").strip()


def first_look(paths: tuple[str, ...], chosen: Mapping[str, Any], mark: Any) -> None:
    """Read the first rows of text in this process: a mistake is found before a cluster is started.

    Costs: `_FIRST_LOOK` bytes of the first file.
    """
    from dask_s3vm.io.formats import reading_format

    refuse_pipes(paths)
    form = reading_format(list(paths), chosen.get("format"))
    file = _first_file(paths[0], form)
    if form.name not in ("csv", "kdd99", "svmlight") or chosen["positive"]:
        return
    with file.opened() as stream:
        text = bytes(stream.read(_FIRST_LOOK))
    if len(text) == _FIRST_LOOK:
        text = text[: text.rfind(b"\n") + 1]
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "rows.txt")
        with open(copy, "wb") as first:
            first.write(text)
        try:
            options = reading_options(chosen) | {"format": form.name}
            read_rows((copy,), options, labels=chosen["labels"] is None, unlabeled=mark)
        except ValueError as error:
            raise BadData(name_options(str(error).replace(copy, file.name))) from error


def _first_file(path: str, form: Any) -> Any:
    """Return the first file of a path, a glob pattern or a folder; FileNotFoundError if none."""
    from dask_s3vm.io.sources import find_files

    return find_files(path, lambda name: form.fits(name) or not form.endings)[0]
