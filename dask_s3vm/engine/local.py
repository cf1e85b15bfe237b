"""An engine in this process: one group, its threads."""

from dataclasses import dataclass, replace
from typing import Any

from dask_s3vm import interrupts
from dask_s3vm.engine.group import Group
from dask_s3vm.engine.operations import Operation
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.shard import Shard, drop_state
from dask_s3vm.engine.tree import Parts


class LocalEngine:
    """All shards in this process, run over by `n_threads` threads.

    The reference for every other engine: same shards, same code, same order of addition.
    """

    def __init__(self, shards: list[Shard], layout: Layout, n_threads: int) -> None:
        self.layout = layout
        self.n_threads = n_threads
        self.rounds = 0
        self._group = Group(shards, len(shards), n_threads)

    def sum(self, op: Operation, *args: Any) -> Parts:
        """See `Engine.sum`."""
        interrupts.check()
        self.rounds += 1
        return self._group.sum(op, *args)

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """See `Engine.each`."""
        interrupts.check()
        self.rounds += 1
        return self._group.each(op, *args)

    def remember(self, name: str, op: Operation, *args: Any) -> None:
        """See `Engine.remember`; rows in this process are never lost."""

    def forget(self) -> None:
        """See `Engine.forget`."""
        self.each(drop_state)

    def held(self) -> "HeldRows":
        """Return the rows, for engines that share them."""
        return HeldRows(self._group.shards, self.layout)

    def close(self) -> None:
        """See `Engine.close`."""
        self._group.close()

    def __repr__(self) -> str:
        return f"<LocalEngine: {self.layout.n_shards} shards, {self.n_threads} threads>"


@dataclass(frozen=True)
class HeldRows:
    """Shards in one process; engines made of them share the rows, and each has its own row state.

    They may be sent to other processes, where they share one copy alike.
    """

    shards: list[Shard]
    layout: Layout

    def engine(self, n_threads: int = 1) -> LocalEngine:
        """Make an engine."""
        return LocalEngine([replace(s, state={}) for s in self.shards], self.layout, n_threads)

    @property
    def nbytes(self) -> int:
        """Bytes in arrays."""
        return sum(shard.nbytes for shard in self.shards)

    def __sizeof__(self) -> int:
        """Tell dask what the rows really weigh."""
        return object.__sizeof__(self) + self.nbytes
