"""Options that describe the input files, and reading the rows and labels of these files."""

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from dask_s3vm.cli.methods import mark_of
from dask_s3vm.cli.options import COLUMN, Place, add_options
from dask_s3vm.cli.stopping import BadData
from dask_s3vm.labels import AUTO, mark_for

#: Names of formats. `io.formats` has the formats themselves; importing it would slow down `--help`.
FORMATS = ("arrow", "csv", "kdd99", "npy", "npz", "parquet", "rcv1", "svmlight", "table")

#: Formats of tables -> address of a reader that returns an encoder too.
_TABLE_READERS = {
    "csv": "dask_s3vm.io:read_table",
    "kdd99": "dask_s3vm.datasets:read_kdd99",
    "table": "dask_s3vm.io:read_table",
}

#: Option -> parameter of readers, where the names differ.
_PARAMETERS = {"label_column": "label"}

#: Options that can be repeated.
_REPEATABLE = ("positive", "categorical", "numeric", "drop")

#: Labels in text files of SVMlin: two classes, and 0 for rows without a label.
_SVMLIN = (-1, 0, 1)


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that describe the files and select what is read from them."""
    options = [
        click.option("--format", type=click.Choice(FORMATS),
                     help="Format of the files [default: from the file name]."),
        click.option("--n-features", type=click.IntRange(1),
                     help="Number of columns of svmlight text [default: from the file]."),
        click.option("--zero-based", type=click.Choice(["auto", "yes", "no"]), default="auto",
                     help="Whether svmlight column numbers start at 0 "
                          "[default: auto, yes if a column 0 occurs]."),
        click.option("--blocksize",
                     help="Bytes of text per block, for example 64MiB "
                          "[default: 16 MiB; convert: 64 MiB]."),
        click.option("--label-column",
                     help="Label column of csv: its name, its number (-1: the last), or `none`."),
        click.option("--positive", multiple=True,
                     help="Label of class 1, all other labels being class 0; repeatable "
                          "[default: each label is a class]."),
        click.option("--categorical", multiple=True,
                     help="Csv column of categories; repeatable [default: from the values]."),
        click.option("--numeric", multiple=True,
                     help="Csv column of numbers; repeatable [default: from the values]."),
        click.option("--drop", multiple=True, help="Csv column to ignore; repeatable."),
        click.option("--scale", type=click.Choice(["unit", "maxabs", "std", "none"]),
                     help="Scaling of numeric csv columns, see TableEncoder "
                          "[default: unit; kdd99: std]."),
        click.option("--missing", type=click.Choice(["error", "zero"]),
                     help="What to do about empty csv fields [default: error]."),
        click.option("--header/--no-header", default=None,
                     help="Whether the first line of csv names the columns "
                          "[default: yes if no field in it is a number or empty]."),
        click.option("--delimiter", help="Delimiter of csv fields [default: a comma]."),
        click.option("--topics", type=Place(),
                     help="File of the topics of rcv1 [default: none, no labels]."),
        click.option("--topic", help="Topic of rcv1 that is class 1 [default: CCAT]."),
    ]  # fmt: skip
    return add_options(command, options)


def training_data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `data_options`, --label-rows and --label-seed."""
    options = [
        click.option("--label-rows", type=click.IntRange(2),
                     help="Hide all labels but this many, drawn at random, and report the error on "
                          "the hidden ones [default: hide none]."),
        click.option("--label-seed", type=click.IntRange(0),
                     help="Seed of the draw of --label-rows [default: 0]."),
    ]  # fmt: skip
    return add_options(data_options(command), options)


def split_options(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the values of options into those of `data_options` and all others."""
    names = {parameter.name for parameter in click.command()(data_options(lambda: None)).params}
    return (
        {name: value for name, value in given.items() if name in names},
        {name: value for name, value in given.items() if name not in names},
    )


@dataclass
class Rows:
    """Rows and labels of files; unpacks as (X, y).

    Attributes
    ----------
    X, y : array
        Rows and labels; y is None if there are no labels.
    encoder : TableEncoder or None
        Encoder of the tables, to be saved with a model.
    truth : array or None
        All labels, if some of them were hidden.
    mark : object
        Mark of the hidden labels in y.
    """

    X: Any
    y: Any
    encoder: Any = None
    truth: Any = None
    mark: Any = -1

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y))

    def attach_encoder(self, estimator: Any) -> None:
        """Attach the encoder to a model, so that other tables are encoded in the same way."""
        if self.encoder is not None:
            estimator.encoder_ = self.encoder

    def hidden_error(self, estimator: Any) -> dict[str, Any]:
        """Return the number of hidden labels and the error on them; {} if none were hidden."""
        if self.truth is None:
            return {}
        import dask

        hidden = self.y == self.mark
        wrong = (estimator.predict(self.X) != self.truth) & hidden
        # computed together, so that each block is read once
        count, errors = dask.compute(hidden.sum(), wrong.sum())
        return {"hidden_rows": int(count), "hidden_error_%": 100.0 * int(errors) / int(count)}


def read_rows(
    paths: tuple[str, ...],
    *,
    encoder: Any = None,
    labels: bool = True,
    unlabeled: Any = -1,
    **options: Any,
) -> Rows:
    """Read files on the current cluster.

    Parameters
    ----------
    paths : tuple of str
        Files of one format.
    encoder : TableEncoder or None
        Encoder of a model, for tables.
    labels : bool
        Whether to read labels.
    unlabeled : object
        Mark of rows without a label.
    **options
        Values of `data_options` or `training_data_options`.
    """
    from dask_s3vm.io.formats import reading_format

    n_labels, seed = options.pop("label_rows", None), options.pop("label_seed", None)
    if n_labels is None and seed is not None:
        raise click.UsageError("--label-seed has no effect without --label-rows")
    name = options.pop("format", None)
    if name is None and encoder is not None:
        name = (encoder.reading_ or {}).get("format")
    form = reading_format(list(paths), name)
    given = _given(options, labels)
    positive = given.get("positive")
    rows = _read(form, paths, given, encoder, labels, unlabeled)
    if positive is not None and rows.encoder is None and rows.y is not None:
        rows.y = _two_classes(rows.y, positive, unlabeled)
    if n_labels is not None:
        rows = _hide(rows, n_labels, seed or 0)
    return rows


def rows_for(
    estimator: Any, paths: tuple[str, ...], options: dict[str, Any], labels: bool = True
) -> Rows:
    """Read rows for a model, with its encoder and its number of columns."""
    from dask_s3vm.io.formats import format_of

    encoder = getattr(estimator, "encoder_", None)
    if encoder is None and options.get("n_features") is None:
        is_text = format_of(list(paths), options.get("format")).name in ("svmlight", "rcv1")
        options = options | {"n_features": estimator.n_features_in_ if is_text else None}
    mark = mark_in_files(getattr(estimator, "unlabeled", AUTO))
    return read_rows(paths, encoder=encoder, labels=labels, unlabeled=mark, **options)


def mark_in_files(unlabeled: Any) -> Any:
    """The mark that readers write for labels that are missing: -1 where the type of y decides."""
    return mark_for(np.dtype(np.int64), unlabeled)


def column_of(labels: str | None) -> str | None:
    """Return the name of the column in `--labels column:NAME`, or None."""
    return labels[len(COLUMN) :] if labels is not None and labels.startswith(COLUMN) else None


def check_label_options(chosen: Mapping[str, Any]) -> None:
    """Refuse options about labels that contradict each other or have no effect."""
    labels = chosen["labels"]
    if labels is None:
        return
    if chosen["label_column"] is not None:
        raise click.UsageError("--labels and --label-column both say where the labels are")
    if column_of(labels) is not None:
        return
    for name in ("positive", "label_rows"):
        if chosen[name]:
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} has no effect on the labels of a --labels file")


def separate_labels(
    labels: str, unlabeled: str | None, say: Callable[[str], None]
) -> tuple[np.ndarray, Any]:
    """Read the file of `--labels`; returns the labels and the mark of unlabeled rows.

    The mark is `--unlabeled`. Its default is -1 for an .npy file, as everywhere in this package,
    and 0 for a text file, as in SVMlin. In a text file with labels other than -1, 0 and 1, 0 may be
    a class: `--unlabeled` is required then.
    """
    from dask_s3vm.io.label_files import read_labels

    found = read_labels(labels)
    if unlabeled is not None:
        return found, mark_of(unlabeled)
    if labels.lower().endswith(".npy"):
        return found, -1
    values = np.unique(found)
    if found.dtype.kind == "U":
        raise BadData(
            f"{labels} has labels that are words ({_some(values)}): add --unlabeled with the label "
            "that marks unlabeled rows, or `none`"
        )
    if not set(values.tolist()) <= set(_SVMLIN):
        raise BadData(
            f"{labels} has labels beyond -1, 0 (unlabeled) and +1 ({_some(values)}): add "
            "--unlabeled with the label that marks unlabeled rows, or `none`"
        )
    count = int(np.count_nonzero(found == 0))
    say(f"{labels}: {count:,} of {len(found):,} rows are 0, unlabeled (--unlabeled changes that)")
    return found, 0


def check_length(labels: np.ndarray, rows: float, name: str) -> None:
    """Refuse labels whose number differs from that of the rows, if that is known (not NaN)."""
    if not np.isnan(rows) and len(labels) != rows:
        raise BadData(f"{name} has {len(labels):,} labels, but there are {int(rows):,} rows")


def _some(values: np.ndarray) -> str:
    shown = ", ".join(str(value) for value in values[:6].tolist())
    return shown + (", ..." if len(values) > 6 else "")


def _given(options: dict[str, Any], labels: bool) -> dict[str, Any]:
    """Return the options that were given, by the names of the readers' parameters."""
    given: dict[str, Any] = {}
    for name, value in options.items():
        if value is None or value == () or (name == "zero_based" and value == "auto"):
            continue
        given[_PARAMETERS.get(name, name)] = list(value) if name in _REPEATABLE else value
    if "zero_based" in given:
        given["zero_based"] = given["zero_based"] == "yes"
    if "label" in given:
        given["label"] = _column(given["label"])
    if not labels:
        for name in ("label", "positive"):
            given.pop(name, None)
    return given


def _column(text: str) -> Any:
    """Read --label-column: the name of a column, its number, or False for `none`."""
    if text.lower() == "none":
        return False
    try:
        return int(text)
    except ValueError:
        return text


def _read(
    form: Any, paths: tuple[str, ...], given: dict[str, Any], encoder: Any, labels: bool, mark: Any
) -> Rows:
    """Call the reader of a format; an option that the reader does not have is refused."""
    from dask_s3vm.io.formats import options_of

    is_table = form.name in _TABLE_READERS
    if is_table:
        module, _, function = _TABLE_READERS[form.name].partition(":")
        reader: Any = getattr(importlib.import_module(module), function)
    else:
        reader = form.load("reader")
    known = options_of(reader)
    if "known_labels" in given and "classes" in known:
        given["classes"] = [str(word) for word in given.pop("known_labels")]
    for name in given:
        fixed = name == "label" and form.name not in ("csv", "table") and given[name] is not False
        if fixed or (name not in known and name != "positive"):
            option = {new: old for old, new in _PARAMETERS.items()}.get(name, name)
            raise click.UsageError(
                f"--{option.replace('_', '-')} has no effect with --format {form.name}"
            )
    more: dict[str, Any] = {name: value for name, value in given.items() if name in known}
    if not is_table:
        in_memory = form.name == "npz" and len(paths) == 1 and os.path.isfile(paths[0])
        if "block" in known and not in_memory:
            more["block"] = "scipy"
        if "blocksize" in known:
            more.setdefault("blocksize", "16 MiB")
        if "has_labels" in known and not labels:
            more["has_labels"] = "auto"
        if "unlabeled" in known:  # replaces labels that are null
            more["unlabeled"] = mark
        X, y = reader(list(paths) if len(paths) > 1 else paths[0], **more)
        return Rows(X, y, mark=mark)
    if "unlabeled" in known:
        more["unlabeled"] = -1 if mark is None else mark
    if not labels:
        more["label"] = False
    X, y, encoder = reader(list(paths), encoder=encoder, block="scipy", **more)
    return Rows(X, y, encoder, mark=mark)


def _two_classes(y: Any, positive: list[str], mark: Any) -> Any:
    """Return labels 1 and 0 by --positive; the mark of unlabeled rows stays."""
    import dask.array as da

    if hasattr(y, "dask"):
        return da.map_blocks(_is_positive, y, positive, mark, dtype=np.int64)
    return _is_positive(np.asarray(y), positive, mark)


def _is_positive(y: np.ndarray, positive: list[str], mark: Any) -> np.ndarray:
    if y.dtype.kind in "iuf":
        found = np.isin(y, [float(name) for name in positive])
    else:
        found = np.isin(y.astype(np.str_), positive)
    return np.where(y == mark, -1 if mark is None else mark, found).astype(np.int64)


def _hide(rows: Rows, count: int, seed: int) -> Rows:
    """Hide all labels but `count`; labels that are words are hidden by their numbers."""
    import dask.array as da

    from dask_s3vm.datasets import hide_labels

    if rows.y is None:
        raise ValueError("--label-rows hides labels, but the files have none")
    y = rows.y
    mark = -1 if rows.mark is None else rows.mark
    if y.dtype.kind in "iuf":
        few = hide_labels(y, count, unlabeled=mark, random_state=seed)
        return Rows(rows.X, few, rows.encoder, truth=y, mark=mark)
    lazy = hasattr(y, "dask")
    classes = np.unique(da.unique(y).compute() if lazy else y)
    words = np.append(classes, np.array([str(mark)]))
    if str(mark) in classes:
        raise ValueError(f"{str(mark)!r} marks unlabeled rows, but is also a label of the files")
    numbers = y.map_blocks(_numbers, classes, dtype=np.int64) if lazy else _numbers(y, classes)
    few = hide_labels(numbers, count, unlabeled=-1, random_state=seed)
    few = few.map_blocks(_names, words, dtype=words.dtype) if lazy else _names(few, words)
    return Rows(rows.X, few, rows.encoder, truth=y, mark=str(mark))


def _numbers(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return np.searchsorted(classes, y).astype(np.int64)


def _names(numbers: np.ndarray, words: np.ndarray) -> np.ndarray:
    return words[numbers]  # number -1 is the last word: the mark
