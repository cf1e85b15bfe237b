"""Options that describe the input files, and reading the rows and labels of these files."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from dask_s3vm.cli.labels import check_length, hidden_rows
from dask_s3vm.cli.options import Place, YesNo, add_options, names_of, option
from dask_s3vm.cli.stopping import BadData
from dask_s3vm.labels import AUTO, as_labels, is_unlabeled, mark_for

#: Names of formats. `io.formats` has the formats themselves; importing it would slow down `--help`.
FORMATS = ("arrow", "csv", "kdd99", "npy", "npz", "parquet", "rcv1", "svmlight", "table")

#: Those that `convert` writes.
WRITABLE = ("arrow", "npy", "npz", "parquet", "svmlight")

#: Formats whose label column has to be named.
WITH_LABEL = ("csv", "table")

#: Values of --format for which `--help` shows the options of tables, and of text.
_TABLES = ("format", ("csv", "table", "parquet", "arrow", "kdd99"))
_TEXT = ("format", ("svmlight", "rcv1"))


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that describe the files.

    Their names are those of the parameters of readers: an option that the reader of a format does
    not have is refused.
    """
    options = [
        option("--format", type=click.Choice(FORMATS), group="data",
               help="Format of the files; table: plain columns in Parquet or Arrow files.",
               shown="from the files"),
        option("--header/--no-header", default=None, group="data", topic=_TABLES,
               shown="yes if no field in it is a number or empty",
               help="Whether the first line of csv names the columns."),
        option("--delimiter", group="data", topic=_TABLES, shown="from the first rows",
               help="Delimiter of csv fields."),
        option("--decimal", type=click.Choice([".", ","]), group="data", topic=_TABLES,
               shown="from the first rows", help="What is before the decimals of csv numbers."),
        option("--n-features", type=click.IntRange(1), group="data", topic=_TEXT,
               help="Number of columns of svmlight text.", shown="from the file"),
        option("--zero-based", type=YesNo(), group="data", topic=_TEXT,
               shown="auto, yes if a column 0 occurs",
               help="Whether svmlight column numbers start at 0."),
        option("--topics", type=Place(), group="data", topic=("format", ("rcv1",)),
               help="File of the topics of rcv1.", shown="none, no labels"),
        option("--topic", group="data", topic=("format", ("rcv1",)), shown="CCAT",
               help="Topic of rcv1 that is class 1."),
        option("--blocksize", group="data", topic=("format", ("csv", "svmlight", "kdd99", "rcv1")),
               help="Bytes of text per block, for example 64MiB.",
               shown="16 MiB; convert: 64 MiB"),
    ]  # fmt: skip
    return add_options(command, options)


def table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how the columns of a table become features."""
    scales, gaps = ["unit", "maxabs", "std", "none"], ["error", "zero", "mean", "median"]
    options = [
        option("--drop", multiple=True, group="data", metavar="COLUMN",
               help="Table column to ignore; repeatable."),
        option("--categorical", multiple=True, group="data", metavar="COLUMN",
               help="Table column of categories; repeatable.", shown="from the values"),
        option("--numeric", multiple=True, group="data", metavar="COLUMN",
               help="Table column of numbers; repeatable.", shown="from the values"),
        option("--text", multiple=True, group="data", metavar="COLUMN",
               help="Table column of free text, used word by word; repeatable."),
        option("--missing", type=click.Choice(gaps), group="data", shown="error",
               help="What to put into empty cells of a table; error: refuse them."),
        option("--missing-indicator/--no-missing-indicator", default=None, group="data",
               topic=_TABLES, shown="no",
               help="Whether to add a feature that tells which cells were empty."),
        option("--handle-unknown", type=click.Choice(["ignore", "error"]), group="data",
               topic=_TABLES, shown="ignore",
               help="What to do about a category that training has not seen."),
        option("--null-values", multiple=True, group="data", topic=_TABLES, metavar="WORD",
               help="Word that means an empty cell, such as NA; repeatable.", shown="none"),
        option("--n-text-features", type=click.IntRange(1), group="data", topic=_TABLES,
               help="Number of features that the words of --text are hashed to.", shown="16384"),
        option("--max-categories", type=click.IntRange(1), group="data", topic=_TABLES,
               help="Maximum number of categories of a column.", shown="10000"),
        option("--scale", type=click.Choice(scales), group="data", topic=_TABLES,
               help="Scaling of numeric columns; see TableEncoder.", shown="unit; kdd99: std"),
    ]  # fmt: skip
    return add_options(command, options)


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that describe files and tables."""
    return add_options(command, [file_options, table_options])


def reading_options(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `data_options`, --label and --positive among those of a command."""
    names = [*names_of(data_options), "label", "positive"]
    return {name: chosen[name] for name in names if name in chosen}


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
    hidden : ndarray of bool, shape (n,), or None
        Which labels were hidden.
    """

    X: Any
    y: Any
    encoder: Any = None
    truth: Any = None
    hidden: Any = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y))

    def attach_encoder(self, estimator: Any) -> None:
        """Attach the encoder to a model, so that other tables are encoded in the same way."""
        if self.encoder is not None:
            estimator.encoder_ = self.encoder

    def hide(self, mark: Any, keep: int | None, share: float | None, seed: int) -> Any:
        """Hide some labels; see `hidden_rows`. Costs: the labels of all rows come to this process.

        Parameters
        ----------
        mark, keep, share, seed
            See `hidden_rows`; with neither `keep` nor `share`, nothing is hidden.

        Returns
        -------
        object
            The mark of rows without a label from now on. Where few labels of 0 and 1 are hidden,
            "auto" would not know whether -1 or 0 is the mark.
        """
        if keep is None and share is None:
            return mark
        self.truth = as_labels(self.y)
        self.hidden = hidden_rows(self.truth, mark, keep, share, seed)
        word = mark_for(self.truth.dtype, mark)
        if (
            word != word and not np.isnan(self.truth).any()
        ):  # -1 may be the mark among these numbers
            word = -1
        self.y = np.where(self.hidden, word, self.truth)
        return word if self.truth.dtype.kind in "iuf" else mark

    def hidden_error(self, estimator: Any) -> dict[str, Any]:
        """Return the number of hidden labels and the error on them; {} if none were hidden."""
        if self.hidden is None:
            return {}
        wrong = np.asarray(estimator.predict(self.X)) != self.truth
        count = int(self.hidden.sum())
        return {"hidden_rows": count, "hidden_error_%": 100.0 * wrong[self.hidden].sum() / count}


def read_rows(
    paths: tuple[str, ...],
    options: Mapping[str, Any],
    *,
    encoder: Any = None,
    labels: bool = True,
    unlabeled: Any = AUTO,
) -> Rows:
    """Read files on the current cluster.

    Parameters
    ----------
    paths : tuple of str
        Files of one format.
    options : dict
        See `reading_options`; those of a reader that are no options too.
    encoder : TableEncoder or None
        Encoder of a model, for tables.
    labels : bool
        Whether to read labels.
    unlabeled : object
        Mark of rows without a label.
    """
    from dask_s3vm.io.formats import reading_format

    refuse_pipes(paths)
    name = options.get("format")
    if name is None and encoder is not None:
        name = (encoder.reading_ or {}).get("format")
    form = reading_format(list(paths), name)
    given = _given(options, labels)
    positive = given.get("positive")
    rows = _read(form, paths, given, encoder, labels, unlabeled)
    if positive is not None and rows.encoder is None and rows.y is not None:
        rows.y = _two_classes(rows.y, positive, unlabeled)
    return rows


def kept_columns(
    paths: tuple[str, ...], options: Mapping[str, Any], encoder: Any, names: tuple[str, ...]
) -> dict[str, list[Any]]:
    """Return columns of the tables that `read_rows` reads, by their names."""
    from dask_s3vm.io.tables import read_columns

    given = {name: options.get(name) for name in ("format", "header", "delimiter", "blocksize")}
    told = {name: value for name, value in given.items() if value not in (None, "table", "kdd99")}
    table = read_columns(list(paths), list(dict.fromkeys(names)), encoder, **told)
    return {name: table.column(name).to_pylist() for name in table.column_names}


def labeled_rows(
    paths: tuple[str, ...], chosen: Mapping[str, Any], apart: Any = None, **more: Any
) -> Rows:
    """Read rows that must have labels: their own, or those of `--labels` that were read before.

    Parameters
    ----------
    paths, **more
        See `read_rows`.
    chosen : dict
        Values of the options of a command.
    apart : ndarray or None
        Labels of the file of `--labels`.
    """
    rows = read_rows(paths, reading_options(chosen), labels=apart is None, **more)
    if apart is not None:
        check_length(apart, rows.X.shape[0], chosen["labels"])
        rows.y = apart
    if rows.y is None:
        raise BadData(
            f"{paths[0]} has no labels: name the column of a table by --label, give a file by "
            "--labels, or store an array `y` beside the rows"
        )
    return rows


def options_for(
    estimator: Any, paths: tuple[str, ...], options: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return reading options for rows that a model predicts: with its number of columns."""
    from dask_s3vm.io.formats import reading_format

    if getattr(estimator, "encoder_", None) is not None:
        return options
    form = reading_format(list(paths), options.get("format"))
    if form.encoded:
        raise BadData(
            f"{paths[0]} is a table, but the model was trained on rows that were none: it does not "
            "know how to encode columns"
        )
    if form.name in ("svmlight", "rcv1") and options.get("n_features") is None:
        return {**options, "n_features": estimator.n_features_in_}
    return options


def refuse_pipes(paths: tuple[str, ...]) -> None:
    """Refuse what can be read only once: rows are looked through first, and read later."""
    for path in paths:
        if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
            raise BadData(
                f"{path} is a pipe or a device, wanted a file: rows are read more than once; "
                "write them to a file first"
            )


def _given(options: Mapping[str, Any], labels: bool) -> dict[str, Any]:
    """Return the options that were given, as the readers want them."""
    left_out = ("format",) if labels else ("format", "label", "positive")
    given: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value not in (None, ()) and name not in left_out
    }
    if "label" in given:
        given["label"] = _column(given["label"])
    return given


def _column(text: str) -> Any:
    """Read --label: the name of a column, its number, or False for `none`."""
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

    reader = form.load("reader")
    known = options_of(reader)
    for name, value in given.items():
        is_fixed = name == "label" and form.name not in WITH_LABEL and value is not False
        if is_fixed or (name not in known and name != "positive"):
            flag = f"--{name.replace('_', '-')}"
            why = f"; labels have a place of their own there: leave out {flag}" if is_fixed else ""
            raise click.UsageError(
                f"{flag} has no effect on {paths[0]}, which is read as {form.name}{why}"
            )
    more: dict[str, Any] = {name: value for name, value in given.items() if name in known}
    if "unlabeled" in known:  # replaces labels that are missing
        more["unlabeled"] = mark if form.encoded and mark is not None else _mark_of_numbers(mark)
    if form.encoded:
        if not labels:
            more["label"] = False
        X, y, encoder = reader(list(paths), encoder=encoder, block="scipy", **more)
        return Rows(X, y, encoder)
    in_memory = form.name == "npz" and len(paths) == 1 and os.path.isfile(paths[0])
    if "block" in known and not in_memory:
        more["block"] = "scipy"
    if "blocksize" in known:
        more.setdefault("blocksize", "16 MiB")
    if "has_labels" in known and not labels:
        more["has_labels"] = "auto"
    X, y = reader(list(paths) if len(paths) > 1 else paths[0], **more)
    return Rows(X, y)


def _two_classes(y: Any, positive: list[str], mark: Any) -> Any:
    """Return labels 1 and 0 by --positive; the mark of unlabeled rows stays."""
    import dask.array as da

    if hasattr(y, "dask"):
        return da.map_blocks(_is_positive, y, positive, mark, dtype=np.int64)
    return _is_positive(np.asarray(y), positive, mark)


def _is_positive(y: np.ndarray, positive: list[str], mark: Any) -> np.ndarray:
    if y.dtype.kind in "iuf":
        try:
            found = np.isin(y, [float(name) for name in positive])
        except ValueError:
            raise BadData(
                f"--positive {' '.join(positive)}: the labels are numbers; wanted one of these"
            ) from None
    else:
        found = np.isin(y.astype(np.str_), positive)
    return np.where(is_unlabeled(y, mark), _mark_of_numbers(mark), found).astype(np.int64)


def _mark_of_numbers(mark: Any) -> Any:
    """Return the mark of rows without a label where labels are whole numbers."""
    return -1 if mark is None else mark_for(np.dtype(np.int64), mark)
