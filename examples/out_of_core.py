"""Train on rows that are several times larger than the workers' memory.

Writes text-like rows as Arrow files and trains on them with workers whose memory is limited. With
--compare, it trains again without a limit: the objective is the same. The rows are never copied:
workers map the files into memory, and release pages when they come near their limit.

python examples/out_of_core.py                           # small: 20,000 rows, mapped
python examples/out_of_core.py --times 3 --compare       # three times the memory of two workers
python examples/out_of_core.py --method tsvm --keep DIR  # keep the files in DIR to use them again
"""

import argparse
import contextlib
import os
import tempfile
import threading
import time

import dask
import numpy as np
import psutil
from dask.distributed import Client, LocalCluster
from dask.utils import format_bytes, parse_bytes

from dask_s3vm import L2SVM, TSVM
from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.io import read_data, write_data

BYTES_PER_ROW = 76 * 12  # 76 entries per row, 4 bytes for the column and 8 for the value
RATIO = 0.47


def main():
    args = parse()
    limit = parse_bytes(args.memory_limit)
    rows = args.rows
    if args.times:
        rows = int(args.times * args.workers * limit / BYTES_PER_ROW)
    with contextlib.ExitStack() as stack:
        folder = args.keep or stack.enter_context(tempfile.TemporaryDirectory())
        path = write(os.path.join(folder, f"text-{rows}.arrow/"), rows)
        size = sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))
        print(f"{rows:,} rows, {format_bytes(size)} in {len(os.listdir(path))} files; memory of "
              f"{args.workers} workers: {format_bytes(args.workers * limit)}")  # fmt: skip
        # "auto" would map large data too, but copy data that fits into memory
        found = train(path, args, args.memory_limit, "always")
        if args.compare:
            full = train(path, args, 0, "never")
            print(f"relative difference of the objectives: {abs(found / full - 1):.1e}")


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000, help="number of rows [default: 20,000]")
    parser.add_argument(
        "--times", type=float, help="in place of --rows: data of this many times the memory"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--memory-limit", default="1 GiB", help="memory of each worker [default: 1 GiB]"
    )
    parser.add_argument("--method", choices=["l2svm", "tsvm"], default="l2svm")
    parser.add_argument("--compare", action="store_true", help="also train without a memory limit")
    parser.add_argument("--keep", help="folder to keep the files in [default: a temporary one]")
    return parser.parse_args()


def write(path, rows):
    if not os.path.isdir(path):
        began = time.perf_counter()
        X, y = make_text(rows, chunks=50_000)
        write_data(X, y, path)
        print(f"written in {time.perf_counter() - began:.0f} s")
    return path


def train(path, args, limit, mapped):
    """Fit on a new cluster; returns the objective."""
    X, y = read_data(path)
    model = L2SVM(lam=1e-3)
    if args.method == "tsvm":
        y = hide_labels(y, min(1000, X.shape[0] // 4), random_state=0)
        model = TSVM(lam=1e-3, lam_unlabeled=1.0, positive_ratio=RATIO)
    with (
        LocalCluster(
            n_workers=args.workers,
            threads_per_worker=1,
            memory_limit=limit,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
        dask.config.set({"s3vm.mapped": mapped, "s3vm.local-bytes": 0}),
        watching(client) as seen,
    ):
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
        same = set(client.run(os.getpid).values()) == seen["pids"]
    print(
        f"{'limit ' + str(limit) if limit else 'full memory':>14}: objective "
        f"{model.objective_:.15g}, {model.n_rounds_} rounds, {seconds:.1f} s, at most "
        f"{format_bytes(max(seen['peaks']))} in a worker, workers lost: {'none' if same else 'yes'}"
    )
    return model.objective_


@contextlib.contextmanager
def watching(client):
    """Record the peaks of the resident memory of the workers."""
    pids = client.run(os.getpid).values()
    seen = {"pids": set(pids), "peaks": [0] * len(pids)}
    over = threading.Event()

    def watch():
        workers = [psutil.Process(pid) for pid in pids]
        while not over.wait(0.05):
            with contextlib.suppress(psutil.Error):
                now = [worker.memory_info().rss for worker in workers]
                seen["peaks"] = list(np.maximum(seen["peaks"], now))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    main()
