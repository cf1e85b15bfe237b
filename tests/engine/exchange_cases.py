"""Operations of rounds with long vectors, and what is to be seen of them."""

import numpy as np
from waiting import wait_until

from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.peers import PeerGroup

ARGS = (np.linspace(0, 1, 12), np.arange(5), np.eye(3), 0.7)


def many_parts(shard, v, counts, matrix, scale):
    """Parts of all kinds and sizes; the bits of the long ones depend on the order of addition."""
    x = np.sin(np.arange(7) * (shard.number + 1)) * v.sum() * 10.0 ** (shard.number % 9 - 4)
    return (
        scale * shard.number,
        x * matrix[0, 0],
        [shard.number],
        np.outer(x, x[:3]),
        np.float64(0.1 * shard.number),
        counts + shard.number,
        np.asfortranarray(np.outer(x[:4], x[:2])),
        np.array(0.3),
        x[:1],
    )


@operation(sets="count")
def start_count(shard):
    shard.state["count"] = 0


@operation(changes="count")
def count_up(shard, v):
    shard.state["count"] += 1
    return v * 0.1 * shard.number, 1


@operation(reads=["count"])
def read_count(shard):
    return shard.state["count"]


def counted_sum(engine):
    """Bits of a sum that counts how often it is made, and these counts."""
    engine.each(start_count)
    parts = engine.sum(count_up, ARGS[0])
    return whole(parts), engine.each(read_count)


def whole(parts):
    """All bits of parts, in a form that can be compared."""
    return [
        (part.dtype.str, part.shape, part.tobytes()) if isinstance(part, np.ndarray) else part
        for part in parts
    ]


def kept(dask_worker):
    """Number of groups on a worker, and of rounds for which they keep something."""
    groups = [one for one in dask_worker.state.actors.values() if isinstance(one, PeerGroup)]
    return len(groups), sum(len(group._turns) for group in groups)


def assert_nothing_kept(client, workers=None):
    """Wait until no worker keeps parts of a round."""

    def found():
        return client.run(kept, workers=workers)

    wait_until(lambda: all(n == (1, 0) for n in found().values()), found)
