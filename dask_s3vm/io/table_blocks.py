"""The lazy blocks of tables whose columns are known."""

from dataclasses import dataclass
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from scipy.sparse import csr_array

from dask_s3vm.features import TableEncoder
from dask_s3vm.features.table_encoder import LabelCode, as_block
from dask_s3vm.io.errors import TableError
from dask_s3vm.io.fields import Fields, cut, look_up, make_words, missing_words, numbers_of
from dask_s3vm.io.sources import TextFile
from dask_s3vm.io.table_survey import Piece, Shape
from dask_s3vm.io.table_text import read_spans

__all__ = ["Plan", "build_arrays"]

# Blocks of a compressed file that are read in one go; before them its text is read and dropped.
_GROUP = 8


@dataclass(frozen=True)
class Plan:
    """What every block of one table has in common."""

    encoder: TableEncoder
    label: LabelCode | None
    unlabeled: Any
    delimiter: str
    block: str


def build_arrays(
    files: list[TextFile], shapes: list[Shape], pieces: list[list[Piece]], plan: Plan
) -> tuple[da.Array, da.Array | None]:
    """Build the lazy arrays. X and y share one task per block, which reads its rows once."""
    described = [(file.name, file.version, file.size) for file in files]
    state = {name: value for name, value in vars(plan.encoder).items() if name != "reading_"}
    token = tokenize(described, shapes, pieces, state, plan.label, plan.unlabeled, plan.block)
    read, x_name, y_name = (f"{part}-{token}" for part in ("read-table", "table-X", "table-y"))
    shared = (f"plan-{token}", 0)
    reading: dict[Any, Any] = {shared: plan}
    rows: list[int] = []
    for number, (file, shape, group) in enumerate(zip(files, shapes, pieces, strict=True)):
        step = 1 if file.size is not None else _GROUP
        for low in range(0, len(group), step):
            part = group[low : low + step]
            spans = [(piece.start, piece.stop, piece.rows) for piece in part]
            # Each of these names is a group of its own: tasks of one group are spread over all
            # workers, and the texts of a compressed file would travel.
            key = (f"rows-{number}-{low}-{token}", 0)
            reading[key] = (_read, file, spans, shape, shared)
            for k in range(len(part)):
                reading[(read, len(rows))] = (getitem, key, k)
                rows.append(part[k].rows)
    chunks = tuple(rows)
    x_layer = {(x_name, i, 0): (getitem, (read, i), 0) for i in range(len(rows))}
    graph = HighLevelGraph({read: reading, x_name: x_layer}, {read: set(), x_name: {read}})
    dtype = np.dtype(plan.encoder.dtype)
    x_meta = as_block(csr_array((0, 0), dtype=dtype), plan.block)
    width = (plan.encoder.n_features_out_,)
    X = da.Array(graph, x_name, chunks=(chunks, width), meta=x_meta)
    if plan.label is None:
        return X, None
    y_layer = {(y_name, i): (getitem, (read, i), 1) for i in range(len(rows))}
    graph = HighLevelGraph({read: reading, y_name: y_layer}, {read: set(), y_name: {read}})
    y_meta = np.empty(0, dtype=plan.label.dtype(plan.unlabeled))
    return X, da.Array(graph, y_name, chunks=(chunks,), meta=y_meta)


def _read(
    file: TextFile, spans: list[tuple[int, int, int]], shape: Shape, plan: Plan
) -> list[tuple[Any, Any]]:
    """Read some pieces of a file, one after the other."""
    places = [(start, stop) for start, stop, _ in spans]
    if file.size is None:
        texts = read_spans(file, places)
    else:
        texts = (file.read_exactly(*place) for place in places)
    found = []
    for text, (_, _, rows) in zip(texts, spans, strict=True):
        try:
            fields = cut(text, shape.n_fields, shape.delimiter)
            if len(fields.starts) != rows:
                raise ValueError(f"{len(fields.starts)} rows, expected {rows}")
            found.append(_encode(fields, shape, plan))
        except ValueError as error:
            reason = f"has changed since it was surveyed: {error}"
            raise TableError(file.name, reason) from error
    return found


def _encode(fields: Fields, shape: Shape, plan: Plan) -> tuple[Any, Any]:
    missing = missing_words()
    columns: list[np.ndarray] = []
    for column, words in zip(shape.columns, plan.encoder.categories_, strict=False):
        if words is None:
            values, wrong, _ = numbers_of(fields, column.position, missing)
            if wrong >= 0:
                raise ValueError(f"column {column.name!r} holds no number")
            columns.append(values)
        else:
            columns.append(_codes(fields, column.position, words))
    rows = as_block(plan.encoder.assemble(columns), plan.block)
    if plan.label is None:
        return rows, None
    codes = _codes(fields, shape.columns[-1].position, plan.label.words)
    return rows, plan.label.decode(codes, plan.unlabeled)


def _codes(fields: Fields, position: int, words: tuple[str, ...]) -> np.ndarray:
    if position < 0:  # a file without labels
        return np.full(len(fields.starts), -1, dtype=np.int32)
    starts, stops = fields.starts[:, position], fields.stops[:, position]
    return look_up(fields.text, starts, stops, make_words(words))
