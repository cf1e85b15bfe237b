"""Tables of mixed columns as dask arrays of sparse blocks, and the encoder that made them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Literal

import dask.array as da
import numpy as np
from dask.utils import parse_bytes

from dask_s3vm.features import TableEncoder
from dask_s3vm.features.table_encoder import LabelCode, agreed, label_code, warn_of_unknown
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.sources import TextFile, UrlPath, find_files
from dask_s3vm.io.table_blocks import Plan, build_arrays
from dask_s3vm.io.table_header import Header, positions, read_headers
from dask_s3vm.io.table_survey import Column, Piece, Shape, first_place, locate_error, look_through

__all__ = ["read_table", "read_table_data", "without_encoder"]


def read_table(
    urlpath: UrlPath,
    *,
    label: str | int | Literal[False] | None = None,
    positive: str | Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    categorical: Any = "auto",
    numeric: Sequence[str] = (),
    drop: Sequence[str] = (),
    scale: str = "unit",
    missing: str = "error",
    max_categories: int = 10_000,
    header: bool | Literal["auto"] = "auto",
    names: Sequence[str] | None = None,
    delimiter: str = ",",
    encoder: TableEncoder | None = None,
    known: Mapping[str, Sequence[str]] | None = None,
    unlabeled: Any = -1,
    blocksize: int | str = "16MiB",
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = np.float64,
) -> tuple[da.Array, da.Array | None, TableEncoder]:
    """Read csv tables into dask arrays with known chunk sizes, and the encoder of their columns.

    The files are looked through once, in parallel, when this function is called: that finds the
    kinds of columns, their categories and ranges, over all files, and every mistake. The rows are
    read when the arrays are computed. Persist `X` and `y` together, then each block is read once.

    The text is that of RFC 4180: fields in double quotes may hold delimiters, line ends and
    doubled quotes; blanks around fields do not count, empty lines are skipped. Plain files are read
    in ranges of bytes. Where a range starts inside quotes is known from the number of quotes before
    it, which is counted first, so line ends in quotes do no harm. Compressed files (``.gz``,
    ``.bz2``, ``.xz``) are streams: eight blocks at a time are read, after what is before them has
    been decompressed and dropped. So memory is bounded by eight blocks per thread, and a very long
    file is better stored plain, or as several files.

    Parameters
    ----------
    urlpath : str, path or list of these
        File, glob pattern, or list of these, all with the same columns.
    label : str, int, False or None
        The label column: its name, or its number (-1 is the last). Files without it hold rows
        without labels. None: that of the encoder where a file has it, else none. False: no labels.
    positive : str or sequence of str, optional
        Labels that are class 1; all others are class 0. By default every label is a class.
    classes : sequence of str, optional
        All labels that may occur; another one is an error. By default those that are found.
    categorical, numeric, scale, missing, max_categories, dtype
        See `TableEncoder`. A missing label makes a row without label.
    drop : sequence of str
        Columns to leave out.
    header : bool or "auto"
        Whether the first row of each file has the names of the columns. "auto": if none of its
        fields is a number or empty; with an encoder, if it names all columns.
    names : sequence of str, optional
        Names of the columns; by default those of the header, else "0", "1", ...
    delimiter : str
        One character.
    encoder : TableEncoder, optional
        Encode by this one, which another call or a model file gave. Columns are found by name where
        there is a header. An unknown category has zeros in its column's features, which is warned
        of once; an unknown label is an error.
    known : dict of str to sequence of str, optional
        Categories that a column has beyond those found.
    unlabeled : number
        Mark of rows without label (as text, if the classes are words).
    blocksize : int or str
        Text in one block, in bytes or as in ``"16MiB"``.
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
        If something is wrong with a file, with the number of the line.
    FileNotFoundError
        If a file does not exist.
    """
    size = _check(blocksize, block, delimiter)
    files = find_files(urlpath)
    headers, target = read_headers(files, header, names, delimiter, encoder, label)
    if encoder is None:
        encoder = TableEncoder(
            categorical=categorical,
            numeric=numeric,
            scale=scale,
            missing=missing,
            max_categories=max_categories,
            dtype=np.dtype(dtype).name,
            block=block,
        )
        encoder.check()
        fitted = False
        features = _features(files[0], headers[0], target, drop)
    else:
        _refuse_options(categorical, numeric, drop, scale, missing, known)
        fitted = True
        features = encoder.feature_names_in_.tolist()
    code = _given_code(encoder, target, positive, classes)
    columns = _columns(encoder, features, fitted) + _label_columns(target, code)
    shapes = [
        _shape(file, head, columns, delimiter, encoder.max_categories)
        for file, head in zip(files, headers, strict=True)
    ]
    pieces = look_through(files, shapes, size)
    _check_columns(files, pieces, columns, encoder, target)
    notes = [piece.notes for group in pieces for piece in group]
    if fitted:
        unknown = {c.name: sum(n[i].unknown for n in notes) for i, c in enumerate(columns)}
        warn_of_unknown({name: count for name, count in unknown.items() if count})
    else:
        facts = [agreed([(n[i].moments, n[i].words) for n in notes]) for i in range(len(features))]
        more = known or {}
        facts = [
            (moments, words if words is None else tuple({*words, *more.get(name, ())}))
            for name, (moments, words) in zip(features, facts, strict=True)
        ]
        encoder.settle(features, facts)
        encoder.reading_ = {
            "format": "csv",
            "delimiter": delimiter,
            "header": headers[0].named,
            "columns": list(headers[0].names),
        }
    if target is not None and code is None:
        _, words = agreed([(None, n[-1].words) for n in notes])
        if words is None:
            raise TableError(
                files[0].name,
                f"label column {target!r} has more than {encoder.max_categories} labels",
            )
        if not words:
            raise TableError(files[0].name, f"label column {target!r} is empty")
        code = label_code(target, words, _words(positive))
    if not fitted:
        encoder.label_ = code
    _check_mark(code, files, shapes, pieces, unlabeled)
    plan = Plan(encoder, code, unlabeled, delimiter, block)
    return *build_arrays(files, shapes, pieces, plan), encoder


def without_encoder(reader: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """Return a reader that gives X and y only; the encoder has to be asked for by the reader."""

    @wraps(reader)
    def read(urlpath: UrlPath, **options: Any) -> tuple[Any, Any]:
        X, y, _ = reader(urlpath, **options)
        return X, y

    return read


read_table_data = without_encoder(read_table)


def _check(blocksize: Any, block: Any, delimiter: Any) -> int:
    if block not in ("gcxs", "scipy"):
        raise ValueError(f"block is {block!r}, wanted 'gcxs' or 'scipy'")
    good = isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()
    if not good or delimiter in '"\r\n ':
        raise ValueError(f"delimiter is {delimiter!r}, wanted one character, no quote or blank")
    size = parse_bytes(blocksize)
    if not 0 < size <= 2**30:
        raise ValueError(f"blocksize is {blocksize!r}, wanted at least a byte and at most 1 GiB")
    return size


def _refuse_options(
    categorical: Any, numeric: Any, drop: Any, scale: Any, missing: Any, known: Any
) -> None:
    """With an encoder, options that it was fitted with would have no effect."""
    given = {
        "categorical": categorical != "auto",
        "numeric": len(numeric) > 0,
        "drop": len(drop) > 0,
        "scale": scale != "unit",
        "missing": missing != "error",
        "known": known is not None,
    }
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise ValueError(f"options {wrong} have no effect if an encoder is given")


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
    code = getattr(encoder, "label_", None)
    if positive is None and classes is None:
        return code
    if classes is not None:
        return label_code(target, tuple(map(str, classes)), _words(positive))
    return None if code is None else label_code(target, code.words, _words(positive))


def _features(file: TextFile, header: Header, target: str | None, drop: Sequence[str]) -> list[str]:
    if isinstance(drop, str):
        raise ValueError(f"drop is {drop!r}, wanted a list of columns")
    positions(file, header, drop)
    return [name for name in header.names if name != target and name not in drop]


def _columns(encoder: TableEncoder, features: list[str], fitted: bool) -> list[Column]:
    """Columns of features, and what to look at them for; their positions come later."""
    if fitted:
        return [
            Column(name, -1, "number" if words is None else "words", words)
            for name, words in zip(features, encoder.categories_, strict=True)
        ]
    roles = dict.fromkeys(encoder.numeric, "number")
    roles |= dict.fromkeys(encoder.named_categorical, "words")
    return [Column(name, -1, roles.get(name, "any")) for name in features]


def _label_columns(target: str | None, code: LabelCode | None) -> list[Column]:
    if target is None:
        return []
    return [Column(target, -1, "words", None if code is None else code.words, optional=True)]


def _shape(
    file: TextFile, header: Header, columns: list[Column], delimiter: str, most: int
) -> Shape:
    places = positions(file, header, [column.name for column in columns if not column.optional])
    placed = tuple(replace(column, position=places.get(column.name, -1)) for column in columns)
    return Shape(len(header.names), delimiter, header.skip, placed, most)


def _check_columns(
    files: list[TextFile],
    pieces: list[list[Piece]],
    columns: list[Column],
    encoder: TableEncoder,
    target: str | None,
) -> None:
    """Raise the first mistake, by file and place, that a column's notes tell of."""
    found: list[tuple[int, int, str]] = []
    for number, column in enumerate(columns):
        is_label = column.name == target
        wrong = first_place(pieces, number, lambda note: note.wrong)
        if wrong is not None and column.role == "number":
            found.append((*wrong, f"column {column.name!r} holds no number"))
        if wrong is not None and is_label and column.known is not None:
            known = ", ".join(column.known[:8]) + (", ..." if len(column.known) > 8 else "")
            found.append((*wrong, f"the label in {column.name!r} is not one of {known}"))
        gap = first_place(pieces, number, lambda note: note.gap)
        if gap is not None and not is_label and encoder.missing == "error":
            reason = f"column {column.name!r} has no value (missing='zero' allows that)"
            found.append((*gap, reason))
    if found:
        file, offset, reason = min(found)
        raise locate_error(files[file], offset, reason)


def _check_mark(
    code: LabelCode | None,
    files: list[TextFile],
    shapes: list[Shape],
    pieces: list[list[Piece]],
    unlabeled: Any,
) -> None:
    """Refuse rows without label where their mark is a class: they would get it.

    The mark beside two classes and more is itself, written out.
    """
    if code is None or code.positive is not None:
        return
    classes = code.classes()
    mark = str(unlabeled) if classes.dtype.kind == "U" else unlabeled
    if mark not in classes.tolist() or len(classes) > 2:
        return
    reason = f"the label is missing, but the mark of unlabeled rows, {unlabeled!r}, is a class"
    for file, shape in zip(files, shapes, strict=True):
        if shape.columns[-1].position < 0:
            raise TableError(file.name, reason)
    place = first_place(pieces, len(shapes[0].columns) - 1, lambda note: note.gap)
    if place is not None:
        raise locate_error(files[place[0]], place[1], reason)
