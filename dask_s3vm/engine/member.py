"""The group of shards on one worker of a cluster: a dask actor."""

from collections.abc import Sequence
from typing import Any

import distributed

from dask_s3vm.engine.group import Group


class Member(Group):
    """Shards of an engine on this worker; calls run one at a time, in the worker's actor thread."""

    def run(self, method: str, numbers: Sequence[int] | None, *args: Any) -> Any:
        """Call `sum` or `each`, for all shards or some."""
        return getattr(self, method)(*args, numbers=numbers)

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
