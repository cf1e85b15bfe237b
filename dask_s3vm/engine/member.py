"""The group of shards on one worker of a cluster: a dask actor.

Every call names the *epoch* of the engine that makes it. After a loss the engine begins a new
one: what was sent before and is still on its way is then refused, and cannot touch row state.
"""

from typing import Any

import distributed

from dask_s3vm.engine.group import Group
from dask_s3vm.engine.shard import Shard, drop_state


class Member(Group):
    """Shards of an engine on this worker; calls run one at a time, in the worker's actor thread.

    Parameters
    ----------
    shards, n_shards, n_threads : see `Group`.
    epoch : the epoch of the engine.
    """

    def __init__(self, shards: list[Shard], n_shards: int, n_threads: int, epoch: int) -> None:
        super().__init__(shards, n_shards, n_threads)
        self._epoch = epoch

    def run(self, epoch: int, method: str, *args: Any) -> Any:
        """Call `sum` or `each`."""
        if epoch != self._epoch:
            raise RuntimeError(f"a call of epoch {epoch} came in epoch {self._epoch}")
        return getattr(self, method)(*args)

    def reset(self, epoch: int) -> list[int]:
        """Begin an epoch with shards as they were when built; returns their numbers."""
        self._epoch = max(epoch, self._epoch)
        for shard in self._shards:
            drop_state(shard)
        return [shard.number for shard in self._shards]

    def absorb(self, keys: list[str]) -> None:
        """Take over the shards of other actors of this worker."""
        actors = distributed.get_worker().state.actors
        taken = list(self._shards)
        for key in keys:
            other = actors[key]
            taken += other._shards
            other.close()
        self._hold(taken)

    def shed(self, numbers: list[int]) -> None:
        """Let go of shards that are elsewhere now."""
        gone = set(numbers)
        self._hold([shard for shard in self._shards if shard.number not in gone])
