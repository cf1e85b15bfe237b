"""Options about input files, and the rows that they name."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from dask_s3vm.cli.kinds import Place

#: Formats by name; they are imported when first used, and help should be quick.
FORMATS = ("arrow", "csv", "kdd99", "letters", "npy", "npz", "parquet", "rcv1", "svmlight")

#: Option -> parameter of readers, where the names differ.
_PARAMETERS = {"label_column": "label"}
_SEVERAL = ("positive", "categorical", "numeric", "drop")


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options that say what the files are, and what of them is wanted."""
    options = [
        click.option("--format", type=click.Choice(FORMATS), help="Default: by the file's ending."),
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
        click.option("--blocksize", help="Text per block; default 16 MiB."),
        click.option("--label-column", help="Label of csv: name or number, -1 the last; `none`."),
        click.option(
            "--positive", multiple=True, help="Label of class 1, the others being 0; repeatable."
        ),
        click.option("--categorical", multiple=True, help="Csv column of categories; repeatable."),
        click.option("--numeric", multiple=True, help="Csv column of numbers; repeatable."),
        click.option("--drop", multiple=True, help="Csv column to leave out; repeatable."),
        click.option("--scale", type=click.Choice(["unit", "maxabs", "std", "none"]),
                     help="Of csv numbers; default unit, kdd99 std. See TableEncoder."),
        click.option("--missing", type=click.Choice(["error", "zero"]),
                     help="What to do about empty csv fields; default error."),
        click.option("--header/--no-header", default=None, help="Of csv; default: by its look."),
        click.option("--delimiter", help="Of csv; default a comma."),
        click.option("--topics", type=Place(), help="File of topics (rcv1)."),
        click.option("--topic", help="Topic that is class 1 (rcv1); default CCAT."),
    ]  # fmt: skip
    return _with(command, options)


def training_data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `data_options`, and --label-rows and --label-seed."""
    options = [
        click.option(
            "--label-rows",
            type=click.IntRange(2),
            help="Hide all labels but so many, drawn at random; tell the error on those hidden.",
        ),
        click.option("--label-seed", type=click.IntRange(0), help="Of that draw; default 0."),
    ]
    return _with(data_options(command), options)


def _with(command: Callable[..., Any], options: list[Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


@dataclass
class Rows:
    """What files hold; unpacks as (X, y).

    Attributes
    ----------
    X, y : array
        Rows and labels; y is None where there are none.
    encoder : TableEncoder or None
        What made rows of tables, to be kept with a model.
    truth : array or None
        All labels, where some were hidden.
    mark : object
        Stands in y for a label that is hidden.
    """

    X: Any
    y: Any
    encoder: Any = None
    truth: Any = None
    mark: Any = -1

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y))

    def keep_encoder(self, estimator: Any) -> None:
        """Leave the encoder with a model, which then encodes other tables alike."""
        if self.encoder is not None:
            estimator.encoder_ = self.encoder

    def hidden_error(self, estimator: Any) -> dict[str, Any]:
        """Rows whose labels were hidden, and the share that the model gets wrong; {} if none."""
        if self.truth is None:
            return {}
        import dask

        hidden = self.y == self.mark
        wrong = (estimator.predict(self.X) != self.truth) & hidden
        # together: so every block is read once
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
    """Read files, on the current cluster.

    Parameters
    ----------
    paths : files of one format.
    encoder : TableEncoder of a model, for tables.
    labels : whether labels are wanted.
    unlabeled : mark of rows without label.
    **options : those of `data_options` or `training_data_options`.
    """
    from dask_s3vm.io.formats import format_of

    hiding = options.pop("label_rows", None), options.pop("label_seed", None)
    if hiding[0] is None and hiding[1] is not None:
        raise click.UsageError("--label-seed has no effect without --label-rows")
    name = options.pop("format", None)
    if name is None and encoder is not None:
        name = (encoder.reading_ or {}).get("format")
    form = format_of(list(paths), name)
    given = _given(options, labels)
    positive = given.get("positive")
    rows = _read(form, paths, given, encoder, labels, unlabeled)
    if positive is not None and rows.encoder is None and rows.y is not None:
        rows.y = _two_classes(rows.y, positive, unlabeled)
    if hiding[0] is not None:
        rows = _hide(rows, hiding[0], hiding[1] or 0)
    return rows


def rows_for(
    estimator: Any, paths: tuple[str, ...], options: dict[str, Any], labels: bool = True
) -> Rows:
    """Read rows that a model is to be tried on: encoded, and of the width, that it wants."""
    from dask_s3vm.io.formats import format_of

    encoder = getattr(estimator, "encoder_", None)
    if encoder is None and options.get("n_features") is None:
        wide = format_of(list(paths), options.get("format")).name in ("svmlight", "rcv1")
        options = options | {"n_features": estimator.n_features_in_ if wide else None}
    mark = getattr(estimator, "unlabeled", -1)
    return read_rows(paths, encoder=encoder, labels=labels, unlabeled=mark, **options)


def split_options(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tell options of `data_options` from all others."""
    names = {parameter.name for parameter in click.command()(data_options(lambda: None)).params}
    return (
        {name: value for name, value in given.items() if name in names},
        {name: value for name, value in given.items() if name not in names},
    )


def _given(options: dict[str, Any], labels: bool) -> dict[str, Any]:
    """Options that were given, under the names that readers have for them."""
    given: dict[str, Any] = {}
    for name, value in options.items():
        if value is None or value == () or (name == "zero_based" and value == "auto"):
            continue
        given[_PARAMETERS.get(name, name)] = list(value) if name in _SEVERAL else value
    if "zero_based" in given:
        given["zero_based"] = given["zero_based"] == "yes"
    if "label" in given:
        given["label"] = _column(given["label"])
    if not labels:
        for name in ("label", "positive"):
            given.pop(name, None)
    return given


def _column(text: str) -> Any:
    """A column's name, or its number; False for `none`."""
    if text.lower() == "none":
        return False
    try:
        return int(text)
    except ValueError:
        return text


def _read(
    form: Any, paths: tuple[str, ...], given: dict[str, Any], encoder: Any, labels: bool, mark: Any
) -> Rows:
    """Call the reader of a format with the options that it has; refuse others."""
    import dask_s3vm.io
    from dask_s3vm.io.formats import options_of

    encoding = {"csv": "read_table", "kdd99": "read_kdd99", "letters": "read_letters"}
    reader: Any = (
        getattr(dask_s3vm.io, encoding[form.name]) if form.name in encoding else form.load("reader")
    )
    known = options_of(reader)
    if "known_labels" in given and "classes" in known:
        given["classes"] = [str(word) for word in given.pop("known_labels")]
    for name in given:
        fixed = name == "label" and form.name != "csv" and given[name] is not False
        if fixed or (name not in known and name != "positive"):
            option = {new: old for old, new in _PARAMETERS.items()}.get(name, name)
            raise click.UsageError(
                f"--{option.replace('_', '-')} has no effect with --format {form.name}"
            )
    more: dict[str, Any] = {name: value for name, value in given.items() if name in known}
    if form.name not in encoding:
        in_memory = form.name == "npz" and len(paths) == 1 and os.path.isfile(paths[0])
        if "block" in known and not in_memory:
            more["block"] = "scipy"
        if "blocksize" in known:
            more.setdefault("blocksize", "16 MiB")
        if "has_labels" in known and not labels:
            more["has_labels"] = "auto"
        if "unlabeled" in known:  # in place of labels that are null
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
    """Labels as 1 and 0, where y is not from a table; the mark stays."""
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
    """Hide all labels but so many; words by way of their numbers."""
    import dask.array as da

    from dask_s3vm.datasets import hide_labels

    if rows.y is None:
        raise ValueError("--label-rows hides labels, but there are none")
    y = rows.y
    mark = -1 if rows.mark is None else rows.mark
    if y.dtype.kind in "iuf":
        few = hide_labels(y, count, unlabeled=mark, random_state=seed)
        return Rows(rows.X, few, rows.encoder, truth=y, mark=mark)
    lazy = hasattr(y, "dask")
    classes = np.unique(da.unique(y).compute() if lazy else y)
    held = np.append(classes, np.array([str(mark)]))
    if str(mark) in classes:
        raise ValueError(f"some labels are {str(mark)!r}, the mark of rows without one, already")
    numbers = y.map_blocks(_numbers, classes, dtype=np.int64) if lazy else _numbers(y, classes)
    few = hide_labels(numbers, count, unlabeled=-1, random_state=seed)
    few = few.map_blocks(_names, held, dtype=held.dtype) if lazy else _names(few, held)
    return Rows(rows.X, few, rows.encoder, truth=y, mark=str(mark))


def _numbers(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return np.searchsorted(classes, y).astype(np.int64)


def _names(numbers: np.ndarray, held: np.ndarray) -> np.ndarray:
    return held[numbers]  # -1 is the last: the mark
