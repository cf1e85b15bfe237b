"""RCV1-v2: the LYRL2004 vector and topic files, or scikit-learn's fetcher, as rows and a topic.

Vectors (``lyrl2004_vectors_*.dat``): ``document  index:value ...``, which is svmlight text with the
document's number in the place of a label. Topics (``rcv1-v2.topics.qrels``): ``TOPIC document 1``.
"""

import os
from itertools import pairwise
from typing import Any, Literal

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sklearn.datasets
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.utils import parse_bytes
from pyarrow import csv
from scipy.sparse import csr_array

from dask_s3vm.engine.containers import as_block
from dask_s3vm.io.errors import TableError, told
from dask_s3vm.io.formats import FORMATS
from dask_s3vm.io.sources import BROKEN_TEXT, DataFile, UrlPath, find_files
from dask_s3vm.io.svmlight import read_svmlight

__all__ = ["fetch_rcv1", "read_rcv1", "read_topics"]

#: Columns of the LYRL2004 vectors.
N_FEATURES = 47_236


def read_rcv1(
    urlpath: UrlPath,
    *,
    topics: str | os.PathLike[str] | None = None,
    topic: str = "CCAT",
    n_features: int = N_FEATURES,
    blocksize: int | str = "32MiB",
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = np.float64,
) -> tuple[da.Array, da.Array | None]:
    """Read RCV1-v2 from the files of Lewis et al. (2004).

    Parameters
    ----------
    urlpath : str, path or list of these
        Vector files, ``lyrl2004_vectors_train.dat`` and ``..._test_pt0.dat`` to ``pt3``; also
        compressed, also a glob pattern.
    topics : str or path, optional
        The file of topics, ``rcv1-v2.topics.qrels``, also compressed. Without it, no labels.
    topic : str
        The topic that is class 1: "CCAT", "GCAT", or any other of the 103, in any case.
    n_features : int
        Number of columns.
    blocksize, block, dtype
        See `read_svmlight`.

    Returns
    -------
    X : dask.array.Array of shape (n_documents, n_features)
        The vectors.
    y : dask.array.Array of shape (n_documents,) or None
        1 for documents of the topic, 0 for others. A document that is not in the file of topics
        at all is an error, when the labels are computed.

    Raises
    ------
    SvmlightError
        If a vector file is not as it should be, with file and line.
    TableError
        If the file of topics is not, or does not have the topic.
    """
    files = find_files(urlpath, FORMATS["svmlight"].fits)
    parts = [
        read_svmlight(
            file.name,
            n_features=n_features,
            zero_based=False,
            blocksize=blocksize,
            block=block,
            dtype=dtype,
        )
        for file in files
    ]
    X = da.concatenate([rows for rows, _ in parts]) if len(parts) > 1 else parts[0][0]
    if topics is None:
        return X, None
    known, chosen = read_topics(topics, topic)
    labels = [
        numbers.map_blocks(
            _is_of_topic,
            known=known,
            chosen=chosen,
            names=(file.name, os.fspath(topics)),
            dtype=np.int64,
            meta=np.empty(0, np.int64),
        )
        for file, (_, numbers) in zip(files, parts, strict=True)
    ]
    return X, da.concatenate(labels) if len(labels) > 1 else labels[0]


def read_topics(path: str | os.PathLike[str], topic: str) -> tuple[np.ndarray, np.ndarray]:
    """Read the file of topics.

    Returns
    -------
    known : array of int64
        Numbers of all documents in the file, in rising order.
    chosen : array of bool
        Which of them are of the topic.
    """
    (file,) = find_files(path)
    names, numbers = _topic_rows(file)
    is_member = pc.equal(names, topic.upper())
    if not pc.any(is_member).as_py():
        there = sorted(pc.unique(names).to_pylist())
        raise TableError(file.name, f"topic {topic!r} does not occur; there are {there[:200]}")
    known = np.unique(numbers)
    return known, np.isin(known, numbers[is_member.to_numpy(zero_copy_only=False)])


def fetch_rcv1(
    topic: str = "CCAT",
    *,
    subset: Literal["all", "train", "test"] = "all",
    blocksize: int | str = "32MiB",
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = np.float64,
    **options: Any,
) -> tuple[da.Array, da.Array]:
    """Get RCV1-v2 through scikit-learn, which downloads and keeps it.

    Parameters
    ----------
    topic : str
        The topic that is class 1.
    subset : {"all", "train", "test"}
        All 804,414 documents, or the 23,149 of the training set, or the others.
    blocksize : int or str
        Size of a block.
    block, dtype
        See `read_svmlight`.
    **options : object
        More for `sklearn.datasets.fetch_rcv1`, such as `data_home`.

    Returns
    -------
    X, y : dask.array.Array
        As of `read_rcv1`.
    """
    found = sklearn.datasets.fetch_rcv1(subset=subset, **options)
    names = [str(name).upper() for name in found.target_names]
    if topic.upper() not in names:
        raise ValueError(f"topic is {topic!r}, wanted one of {names}")
    rows = csr_array(found.data).astype(dtype)
    target = csr_array(found.target)[:, [names.index(topic.upper())]]
    y = np.asarray(target.todense()).reshape(-1).astype(np.int64)
    size = rows.data.nbytes + rows.indices.nbytes
    count = max(1, min(-(-size // parse_bytes(blocksize)), rows.shape[0]))
    edges = np.linspace(0, rows.shape[0], count + 1).astype(int).tolist()
    chunks = tuple(int(high - low) for low, high in pairwise(edges))
    name = f"rcv1-{tokenize(rows.data, rows.indices, block, edges)}"
    layer = {
        (name, i, 0): as_block(rows[low:high], block)
        for i, (low, high) in enumerate(pairwise(edges))
    }
    meta = as_block(csr_array((0, 0), dtype=rows.dtype), block)
    graph = HighLevelGraph({name: layer}, {name: set()})
    X = da.Array(graph, name, chunks=(chunks, (rows.shape[1],)), meta=meta)
    return X, da.from_array(y, chunks=(chunks,))


def _topic_rows(file: DataFile) -> tuple[Any, np.ndarray]:
    """Return topics and numbers of documents of all lines."""
    wrong: list[Any] = []
    columns = ["topic", "document", "one"]

    def refuse(row: Any) -> str:
        wrong.append(row)
        return "error"

    try:
        with (
            told(file.name, BROKEN_TEXT, "cannot be read", TableError),
            file.opened() as stream,
        ):
            table = csv.read_csv(
                stream,
                # Only a single thread can tell line numbers.
                csv.ReadOptions(column_names=columns, use_threads=False),
                csv.ParseOptions(
                    delimiter=" ",
                    quote_char=False,
                    ignore_empty_lines=False,
                    invalid_row_handler=refuse,
                ),
                csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string())),
            ).combine_chunks()
    except pa.ArrowInvalid as error:
        if not wrong:
            raise TableError(file.name, f"cannot be read: {error}") from error
        row = wrong[0]
        reason = f"has {row.actual_columns} fields, wanted 3: topic, document, 1"
        raise TableError(file.name, reason, row.number, row.text.encode()) from None
    topics, documents = (table[name].combine_chunks() for name in columns[:2])
    good = pc.match_substring_regex(documents, r"^[0-9]{1,18}$")
    if not pc.all(good).as_py():
        line = pc.index(good, False).as_py()
        reason = "the second field is not the number of a document"
        text = f"{topics[line]} {documents[line]}".encode()
        raise TableError(file.name, reason, line + 1, text)
    return topics, documents.cast(pa.int64()).to_numpy()


def _is_of_topic(
    numbers: np.ndarray,
    known: np.ndarray,
    chosen: np.ndarray,
    names: tuple[str, str],
    block_info: Any = None,
) -> np.ndarray:
    places = np.searchsorted(known, numbers)
    places[places == len(known)] = 0
    absent = known[places] != numbers
    if absent.any():
        first = int(absent.argmax())
        row = first + (block_info[0]["array-location"][0][0] if block_info else 0)
        reason = f"document {int(numbers[first])} (row {row + 1}) has no topic in {names[1]}"
        raise TableError(names[0], reason)
    return chosen[places].astype(np.int64)
