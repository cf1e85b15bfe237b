"""Tables of mixed columns as dask arrays of sparse blocks, and the encoder that made them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import dask.array as da
import numpy as np
import pyarrow as pa

from dask_s3vm.features.table_columns import CellError, warn_of_unknown
from dask_s3vm.features.table_encoder import TableEncoder
from dask_s3vm.features.table_facts import Facts, MixedColumnError, agreed
from dask_s3vm.features.table_labels import LabelCode, label_code
from dask_s3vm.io.blocks import check_options, empty_block, lazy_pair
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.sources import UrlPath, text_lengths
from dask_s3vm.io.table_files import Wanted, told_table
from dask_s3vm.io.table_open import open_tables, refuse_absent
from dask_s3vm.io.table_survey import Found, Task, locate_words, settled, survey

__all__ = ["read_columns", "read_table"]


def read_table(
    urlpath: UrlPath,
    *,
    label: str | int | Literal[False] | None = None,
    positive: str | Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    format: Literal["csv", "parquet", "arrow"] | None = None,
    categorical: Any = "auto",
    numeric: Sequence[str] = (),
    text: Sequence[str] = (),
    drop: Sequence[str] = (),
    scale: str = "unit",
    missing: str = "error",
    missing_indicator: bool = False,
    null_values: Sequence[str] = (),
    handle_unknown: str = "ignore",
    n_text_features: int = 2**14,
    max_categories: int = 10_000,
    header: bool | Literal["auto"] = "auto",
    names: Sequence[str] | None = None,
    delimiter: str = "auto",
    decimal: Literal["auto", ".", ","] = "auto",
    encoder: TableEncoder | None = None,
    known: Mapping[str, Sequence[str]] | None = None,
    unlabeled: Any = "auto",
    blocksize: int | str = "16MiB",
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = np.float64,
) -> tuple[da.Array, da.Array | None, TableEncoder]:
    """Read tables into dask arrays with known chunk sizes, and the encoder of their columns.

    The files are looked through once, in parallel, when this function is called: that finds the
    kinds of columns, their categories and ranges, over all files, and every mistake. The rows are
    read again when the arrays are computed. Persist `X` and `y` together, then each block is read
    once. Without a cluster, the first 256 MiB of the columns, and then the rows made of them, are
    kept as long as the arrays are, so that small tables are read and encoded once.

    Csv text is that of RFC 4180: fields in double quotes may hold delimiters, line ends and doubled
    quotes, and blanks belong to a field. Empty lines are skipped. A column is one of numbers or of
    dates if all its fields are, over all files; else it is one of categories. An empty field is a
    missing value. Plain files are read in ranges of bytes. Where a range starts inside quotes is
    known from the number of quotes before it, which is counted first. Compressed files (``.gz``,
    ``.bz2``, ``.xz``, ``.zst``) are decompressed into a temporary file by every process that reads
    blocks of them, once. A very long table is better stored plain, or as several files, or as
    Parquet.

    Parquet files are read by row groups, and Arrow IPC (Feather) files by record batches. Their
    types tell which columns are numbers, dates, and categories (words, dictionaries and booleans).

    Parameters
    ----------
    urlpath : str, path or list of these
        File, glob pattern, folder, or list of these, all with the same columns. Of a folder, and of
        the folders in it, files with the endings of tables are read. Where folders are named
        ``column=value``, these are columns too.
    label : str, int, False or None
        The label column: its name, or its number (-1 is the last). Files without it hold rows
        without labels. None: that of the encoder where a file has it, else none. False: no labels.
    positive : str or sequence of str, optional
        Labels that are class 1; all others are class 0. By default every label is a class.
    classes : sequence of str, optional
        All labels that may occur; another one is an error. By default those that are found.
    format : {"csv", "parquet", "arrow"}, optional
        What the files are; by default the endings of their names tell, and others are csv.
    categorical, numeric, text, scale, missing, missing_indicator, null_values, handle_unknown, \
n_text_features, max_categories, dtype
        See `TableEncoder`. A missing label makes a row without label.
    drop : sequence of str
        Columns to leave out.
    header : bool or "auto"
        Whether the first row of each csv file has the names of the columns. "auto": if one of its
        fields is `label`, or none is a number or empty; with an encoder, if it names all columns.
    names : sequence of str, optional
        Names of the columns of csv files; by default those of the header, else "0", "1", ...
    delimiter : str
        What is between the fields of csv files: one character. "auto": a comma, semicolon, tab or
        bar, whichever cuts the first rows into equally many fields.
    decimal : {"auto", ".", ","}
        What is before the decimals of numbers in csv files. "auto": a comma if `delimiter` is
        another character, and the first 64 KiB have numbers with a comma and none with a point.
    encoder : TableEncoder, optional
        Encode by this one, which another call or a model file gave. Columns are found by name where
        there are names. An unknown label is an error.
    known : dict of str to sequence of str, optional
        Categories that a column has beyond those found.
    unlabeled : object
        Mark of rows without label (as text, if the classes are words). "auto": "" beside words, -1
        beside integers, NaN beside other numbers, or if -1 is a label.
    blocksize : int or str
        Csv text in one block, in bytes or as in ``"16MiB"``.
    block : {"gcxs", "scipy"}
        Blocks of `X` as ``sparse.GCXS`` or as ``scipy.sparse.csr_array``.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, n_features)
        The rows.
    y : dask.array.Array of shape (n_rows,) or None
        Classes: 0 and 1 with `positive`; else whole numbers if all labels are, numbers, or text.
    encoder : TableEncoder
        What encodes other rows alike. Set it as `encoder_` of a model, and `save_model` keeps it.

    Raises
    ------
    TableError
        If something is wrong with a file, with the number of the line or row.
    FileNotFoundError
        If a file does not exist.
    """
    size = check_options(block=block, blocksize=blocksize)
    if size > 2**30:
        raise ValueError(f"blocksize is {blocksize!r}, wanted at most 1 GiB")
    fitted = encoder is not None
    new = TableEncoder(
        categorical=categorical,
        numeric=numeric,
        text=text,
        scale=scale,
        missing=missing,
        missing_indicator=missing_indicator,
        null_values=tuple(null_values) if not isinstance(null_values, str) else null_values,
        handle_unknown=handle_unknown,
        n_text_features=n_text_features,
        max_categories=max_categories,
        dtype=np.dtype(dtype).name,
        block=block,
    )
    if encoder is None:
        encoder = new
        encoder.check()
    else:
        _refuse_options(new, drop, known)
    files, target, reading = open_tables(
        urlpath,
        format=format,
        label=label,
        drop=drop,
        header=header,
        names=names,
        delimiter=delimiter,
        decimal=decimal,
        encoder=encoder if fitted else None,
        null_values=encoder.null_values,
    )
    if fitted:
        features = encoder.feature_names_in_.tolist()
    else:
        features = [name for name in files[0].names if name != target and name not in drop]
        encoder.check_named(features)
    code = _given_code(encoder, target, positive, classes)
    task = Task(encoder, tuple(features), fitted, block, target, code)
    parts = survey(files, task, size)
    if fitted:
        warn_of_unknown(dict(sum((Counter(part.unknown) for part in parts), Counter())))
    else:
        _fit(parts, task, known or {})
        encoder.reading_ = reading
    if target is not None and code is None:
        code = _found_code(parts, target, positive, encoder.max_categories)
    if not fitted:
        encoder.label_ = code
    mark = None if code is None else _mark(code, parts, unlabeled)
    task = replace(task, code=code, mark=mark)
    state = {name: value for name, value in vars(encoder).items() if name != "reading_"}
    content = (task.features, state, code, mark, block)
    pieces = [part.piece for part in parts]
    x_meta = empty_block(np.dtype(encoder.dtype), block)
    y_meta = None if code is None else np.empty(0, dtype=code.dtype(mark))
    width = encoder.n_features_out_
    return *lazy_pair("table", pieces, Task.read, task, content, width, x_meta, y_meta), encoder


def read_columns(
    urlpath: UrlPath,
    columns: Sequence[str],
    encoder: TableEncoder,
    *,
    format: Literal["csv", "parquet", "arrow"] | None = None,
    header: bool | Literal["auto"] = "auto",
    delimiter: str = "auto",
    blocksize: int | str = "16MiB",
) -> pa.Table:
    """Read columns of tables as they are, in the order of the rows of `read_table`.

    Parameters
    ----------
    columns : sequence of str
        Their names; those of csv files are read as text.
    urlpath, encoder, format, header, delimiter, blocksize
        See `read_table`.

    Costs: all of the columns are in the memory of this process.
    """
    size = check_options(block="scipy", blocksize=blocksize)
    files, *_ = open_tables(
        urlpath, format=format, label=False, drop=(), header=header, names=None,
        delimiter=delimiter, decimal="auto", encoder=encoder, null_values=(),
    )  # fmt: skip
    for file in files:
        refuse_absent(file, columns)
    wanted = Wanted(columns, dict.fromkeys(columns, pa.string()), 0)
    lengths = text_lengths([file.file for file in files], told_table)
    spans = [(file, span) for file, n in zip(files, lengths, strict=True)
             for span in file.spans(n, size)]  # fmt: skip
    parts = [file.look(span, wanted)[1] for file, span in spans]
    return pa.concat_tables(parts, promote_options="permissive")


def _refuse_options(given: TableEncoder, drop: Any, known: Any) -> None:
    """With an encoder, options that it was fitted with would have no effect."""
    usual = TableEncoder(dtype=given.dtype, block=given.block).get_params()
    options = given.get_params().items()
    wrong = [name for name, value in options if value != usual[name] and value != []]
    wrong += ["drop"] * (len(drop) > 0) + ["known"] * (known is not None)
    if wrong:
        raise ValueError(f"options {wrong} have no effect if an encoder is given")


def _fit(parts: list[Found], task: Task, known: Mapping[str, Sequence[str]]) -> None:
    """Fit the encoder to what the pieces hold."""
    facts = settled(parts, task)
    for i, name in enumerate(task.features):
        if name in known:
            words = tuple({*(facts[i].words or ()), *known[name]})
            facts[i] = Facts("category", words=words, gap=facts[i].gap)
    try:
        task.encoder.settle(task.features, facts)
    except MixedColumnError as error:
        raise locate_words(error, parts) from None
    except ValueError as error:
        raise TableError(parts[0].piece.file.name, str(error)) from None


# Labels ---------------------------------------------------------------------------------------


def _words(names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    return (names,) if isinstance(names, str) else tuple(str(name) for name in names)


def _given_code(
    encoder: TableEncoder, target: str | None, positive: Any, classes: Any
) -> LabelCode | None:
    """Return how labels are read, if that does not depend on the files."""
    if target is None:
        if positive is not None or classes is not None:
            raise ValueError("positive or classes is given, but there is no label column")
        return None
    code: LabelCode | None = getattr(encoder, "label_", None)
    if positive is None and classes is None:
        return code and replace(code, name=target)  # the model's column may have another name
    words = _words(classes) if code is None or classes is not None else code.words
    return None if words is None else label_code(target, words, _words(positive))


def _found_code(parts: list[Found], target: str, positive: Any, most: int) -> LabelCode:
    words = agreed([part.labels for part in parts]).words
    first = parts[0].piece.file.name
    if words is None or len(words) > most:
        raise TableError(first, f"label column {target!r} has more than {most} labels")
    if not words:
        raise TableError(first, f"label column {target!r} is empty")
    return label_code(target, words, _words(positive))


def _mark(code: LabelCode, parts: list[Found], unlabeled: Any) -> Any:
    """Return the mark of rows without label; refuse one that is a class, beside one more at most.

    Rows without label would get that class. Beside two classes and more, the mark is itself,
    written out.
    """
    gap = next((part for part in parts if part.labels.gap is not None), None)
    mark = code.mark(unlabeled, gap is not None)
    classes = code.classes().tolist()
    if gap is None or code.positive is not None or mark not in classes or len(classes) > 2:
        return mark
    reason = f"the label is missing, but the mark of unlabeled rows, {unlabeled!r}, is a class"
    assert gap.labels.gap is not None, "that is how it was found"
    raise gap.error(CellError(gap.labels.gap, code.name, reason))
