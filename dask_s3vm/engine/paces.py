"""How fast workers are, so that a slow one gets fewer shards.

A round ends when the slowest worker has answered. On a machine that somebody else uses too, or that
is older than the others, that one worker decides for all. Moving shards costs reading their rows
again. So only a worker that is much slower for long counts as slow.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping

from dask_s3vm.engine.workers import Holdings

logger = logging.getLogger(__name__)

#: A worker is slow if a shard takes it so many times as long as it takes most others,
SLOW = 2.0

#: in so many looks in a row, which are `s3vm.elastic-interval` apart,
LOOKS = 5

#: and if its passes take at least this share of the time: else the others hardly wait for it.
SHARE = 0.25


class Paces:
    """Finds slow workers from the seconds of their passes.

    clock : tells the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}  # by worker, at the last look
        self._sizes: dict[str, int] = {}  # number of shards by worker, at the last look
        self._when = clock()
        self._slowness: dict[str, float] = {}  # by worker that is slow: a power of 2
        self._doubts: dict[str, int] = {}  # by worker: looks in a row that say otherwise
        self.changed = False  # whether a worker has become slow, or fast, since `weights`

    def look(
        self, seconds: Mapping[str, float], threads: Mapping[str, int], held: Holdings
    ) -> None:
        """Take in the seconds that passes have taken on each worker so far."""
        now, sizes = self._clock(), {worker: len(numbers) for worker, numbers in held.items()}
        spent = {
            worker: total - self._seconds[worker]
            for worker, total in seconds.items()
            if sizes.get(worker) and worker in threads and worker in self._seconds
        }
        wall, same = now - self._when, sizes == self._sizes
        self._seconds, self._sizes, self._when = dict(seconds), sizes, now
        self._slowness = {name: n for name, n in self._slowness.items() if name in threads}
        if not same or len(spent) < 2 or min(spent.values()) <= 0.0:
            return
        paces = {name: used * threads[name] / sizes[name] for name, used in spent.items()}
        usual = sorted(paces.values())[(len(paces) - 1) // 2]
        for worker, pace in paces.items():
            self._judge(worker, pace / usual, busy=spent[worker] >= SHARE * wall)

    def weights(self, threads: Mapping[str, int]) -> dict[str, float]:
        """Return the threads of each worker, divided by how many times as long it takes."""
        self.changed = False
        return {worker: n / self._slowness.get(worker, 1.0) for worker, n in threads.items()}

    def _judge(self, worker: str, ratio: float, busy: bool) -> None:
        known = self._slowness.get(worker, 1.0)
        slow_enough = ratio >= SLOW and busy
        if not slow_enough if known == 1.0 else 0.7 * known <= ratio < 4.0 * known:
            self._doubts.pop(worker, None)
            return
        self._doubts[worker] = self._doubts.get(worker, 0) + 1
        if self._doubts[worker] < LOOKS:
            return
        del self._doubts[worker]
        self.changed = True
        self._slowness.pop(worker, None)
        if ratio >= SLOW:
            self._slowness[worker] = 2.0 ** math.floor(math.log2(ratio))
            logger.warning("worker %s takes %.1f times as long as others", worker, ratio)
