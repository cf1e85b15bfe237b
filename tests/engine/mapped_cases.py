"""Rows in a raw file, and dask arrays of blocks that are views of a map of it."""

import itertools
import uuid

import dask.array as da
import numpy as np
import scipy.sparse as sp
import sparse


def write_rows(path, X, chunks):
    """Write the column numbers and then the values of each block; return where they lie."""
    places = []
    with open(path, "wb") as stream:
        stream.write(b"head....")
        for low, high in itertools.pairwise(np.cumsum([0, *chunks])):
            part = X[low:high]
            places.append((stream.tell(), part.indptr.copy(), X.dtype.str))
            stream.write(part.indices.astype(np.uint32).tobytes())
            stream.write(b"\0" * (stream.tell() % 8))
            stream.write(part.data.tobytes())
            stream.write(b"\0" * (-stream.tell() % 8))
    return places


def opener(path, places, width, form="csr", mode="r"):
    """Return a function that opens block number i; nested, so that workers get it by value."""

    def block(i):
        at, indptr, dtype = places[i]
        stored = int(indptr[-1])
        if not stored:
            return sp.csr_array((len(indptr) - 1, width), dtype=dtype)
        indices = np.memmap(path, np.int32, mode, at, stored)
        values = np.memmap(path, dtype, mode, at + 4 * stored + 4 * (stored % 2), stored)
        matrix = sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, width))
        if form == "csr":
            return matrix
        return sparse.GCXS((values, indices, indptr), shape=matrix.shape, compressed_axes=(0,))

    return block


def mapped_array(path, X, chunks, form="csr", mode="r"):
    """Write rows to a file; return a lazy dask array of views of it."""
    block = opener(path, write_rows(path, X, chunks), X.shape[1], form, mode)
    # one task a block, as readers have it: a view that is handed from task to task may be copied
    name = f"mapped-{uuid.uuid4().hex}"
    tasks = {(name, number, 0): (block, number) for number in range(len(chunks))}
    return da.Array(tasks, name, (tuple(chunks), (X.shape[1],)), meta=X[:0])
