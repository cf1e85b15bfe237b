"""Facts about placed rows by which they are known again."""

import hashlib
import zlib
from collections import Counter
from typing import Any

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import Shard
from dask_s3vm.kernels.rows import CSR

#: Bytes at either end of a shard's arrays that are looked at.
SAMPLE = 1 << 16


def fingerprint(engine: Engine) -> dict[str, Any]:
    """Shape, stored entries, labels, cuts between shards, and a sample of the values.

    Costs: 1 round, no pass over the rows: of their arrays both ends are looked at, of labels and
    weights all.
    """
    found = engine.each(digest)
    layout = engine.layout
    whole = hashlib.sha256(repr(layout.starts).encode())
    if layout.order is not None:
        whole.update(layout.order.tobytes())
    whole.update(repr([code for _, _, code in found]).encode())
    labels: Counter[int] = Counter()
    for _, counts, _ in found:
        labels.update(counts)
    return {
        "shape": [int(layout.n_rows), int(layout.n_features)],
        "stored entries": sum(stored for stored, _, _ in found),
        "labels": {str(code): labels[code] for code in sorted(labels)},
        "digest": whole.hexdigest()[:32],
    }


def digest(shard: Shard) -> tuple[int, dict[int, int], int]:
    """(stored entries, rows of each class number, checksum) of a shard."""
    rows = shard.rows
    code = 0
    for array in rows if isinstance(rows, CSR) else (rows,):
        flat = array.reshape(-1)
        n = SAMPLE // array.itemsize
        for part in (flat[:n], flat[-n:]):
            code = zlib.crc32(part.tobytes(), code)
    counts: dict[int, int] = {}
    if shard.codes is not None:
        code = zlib.crc32(shard.codes.tobytes(), code)
        values, numbers = np.unique(shard.codes, return_counts=True)
        counts = dict(zip(values.tolist(), numbers.tolist(), strict=True))
    if shard.weights is not None:
        code = zlib.crc32(shard.weights.tobytes(), code)
    stored = len(rows.indices) if isinstance(rows, CSR) else rows.size
    return int(stored), counts, code
