"""Train on click logs that are larger than memory: 39 hashed indicators a row, a million columns.

Rows are generated chunk by chunk into Arrow files, which store column numbers only: all values are
1. The fits map the files and keep row state in memory, about 30 bytes a row. Files of an earlier
run with --keep are used again.

python examples/click_logs.py                                     # small: 20,000 rows
python examples/click_logs.py --rows 100_000_000 --keep DIR       # 16 GB in DIR
python examples/click_logs.py --methods tsvm qn --checkpoint DIR  # can be interrupted and resumed
"""

import argparse
import contextlib
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
import psutil
import scipy.sparse as sp
from dask.utils import format_bytes

from dask_s3vm import L2SVM, QNS3VM, TSVM
from dask_s3vm.datasets import hide_labels
from dask_s3vm.io import read_data, write_data

FIELDS = 39
CHUNK = 250_000
RATIO = 0.25  # of the rows, those that were clicked
NOISE = 0.03  # of the labels, those that are wrong
AUDIENCES = 5  # of each class
OWN = 0.5  # of the fields of a row, those with values of its audience
POSITIVE = RATIO + NOISE - 2 * RATIO * NOISE  # share of the label 1

MODELS = {
    "l2svm": lambda args: L2SVM(lam=args.lam, checkpoint=args.checkpoint),
    "tsvm": lambda args: TSVM(lam=args.lam, positive_ratio=POSITIVE, checkpoint=args.checkpoint),
    "qn": lambda args: QNS3VM(lam=args.lam, positive_ratio=POSITIVE, checkpoint=args.checkpoint),
}


def main():
    args = parse()
    with contextlib.ExitStack() as stack:
        folder = args.keep or stack.enter_context(tempfile.TemporaryDirectory())
        size = write(folder, args.rows, args.columns)
        X, y = read_data([path_of(folder, start) for start in range(0, args.rows, CHUNK)])
        print(f"{args.rows:,} rows x {args.columns:,} columns, {format_bytes(size)}", flush=True)
        fresh = make_chunk(args.rows, min(args.rows, CHUNK), args.columns)
        for name in args.methods:
            report(name, MODELS[name](args), X, y, fresh, args.labels)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=10_000, help="labels that tsvm and qn see")
    parser.add_argument("--lam", type=float, default=0.02)  # 5e-4 per entry of a row
    parser.add_argument("--methods", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--keep", help="folder to keep the files in [default: a temporary one]")
    parser.add_argument("--checkpoint", help="folder for the state of the fits")
    return parser.parse_args()


def make_chunk(start, n, columns):
    """Rows and labels; field f of a row has one of 10 to a million values, few of them frequent.

    A row belongs to one of many audiences of its class, which have frequent values of their own in
    some of its fields.
    """
    rng = np.random.default_rng(start)
    clicked = rng.random(n) < RATIO
    audience = 2 * rng.integers(AUDIENCES, size=n) + clicked
    kinds = np.geomspace(10, 1e6, FIELDS)
    near = np.square(np.square(rng.random((n, FIELDS))))  # to 0, the most frequent value
    value = (kinds * near).astype(np.uint64)
    own = rng.random((n, FIELDS)) < OWN
    value += own * (np.uint64(1_000_003) * (1 + audience.astype(np.uint64)))[:, None]
    value %= kinds.astype(np.uint64)
    field = np.arange(FIELDS, dtype=np.uint64) << np.uint64(32)
    mixed = (value + field) * np.uint64(0x9E3779B97F4A7C15)
    hashed = ((mixed >> np.uint64(33)) % np.uint64(columns)).astype(np.int32)
    hashed.sort(axis=1)
    first = np.ones(hashed.shape, dtype=bool)
    first[:, 1:] = hashed[:, 1:] != hashed[:, :-1]  # two fields may share a column
    indptr = np.append(0, np.cumsum(first.sum(axis=1)))
    indices = hashed[first]
    X = sp.csr_array((np.ones(len(indices), dtype=np.float32), indices, indptr), (n, columns))
    return X, (clicked ^ (rng.random(n) < NOISE)).astype(np.int8)


def path_of(folder, start):
    return os.path.join(folder, f"clicks-{start:011}.arrow")


def write(folder, rows, columns):
    """Write the chunks that are not there; returns the size of all."""
    os.makedirs(folder, exist_ok=True)

    def one(start):
        path = path_of(folder, start)
        if not os.path.exists(path):
            X, y = make_chunk(start, min(CHUNK, rows - start), columns)
            # one batch in a file: a batch is a shard, and each shard costs vectors of all columns
            write_data(da.from_array(X, chunks=X.shape, asarray=False), y, path)
        return os.path.getsize(path)

    began = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        size = sum(pool.map(one, range(0, rows, CHUNK)))
    print(f"written in {time.perf_counter() - began:.0f} s", flush=True)
    return size


def report(name, model, X, y, fresh, labels):
    """Fit with rows in files, and tell what it took and the error on rows never seen."""
    if name != "l2svm":
        y = hide_labels(y, min(labels, X.shape[0] // 4), random_state=0)
    began, cpu_began = time.perf_counter(), time.process_time()
    with dask.config.set({"s3vm.mapped": "always"}), watching() as seen:
        model.fit(X, y)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    rows, truth = fresh
    error = 100.0 * np.mean(model.predict(rows) != truth)
    print(
        f"{name:>6}: {seconds:.1f} s ({cpu:.1f} s of CPU), {model.n_rounds_} rounds, at most "
        f"{format_bytes(seen['peak'])} of memory, error {error:.2f} %",
        flush=True,
    )


@contextlib.contextmanager
def watching():
    """Record the peak of the memory of this process; pages of files do not count."""
    seen, over = {"peak": 0}, threading.Event()

    def watch():
        while not over.wait(0.5):
            now = psutil.Process().memory_info()
            seen["peak"] = max(seen["peak"], now.rss - now.shared)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    main()
