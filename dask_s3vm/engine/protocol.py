"""What problems and solvers see of the engine."""

from typing import Any, Protocol

from dask_s3vm.engine.operations import Operation
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.tree import Parts


class Engine(Protocol):
    """Rows in shards, and rounds over them.

    An operation is a module-level function `op(shard, *args)`. It may keep per-row arrays in
    `shard.state`, which it declares (see `operations`), and returns a tuple of numbers, arrays and
    lists (`sum`; lists are joined in the order of the shards) or anything small (`each`). Arrays to
    be added are new ones: the sum is made in them.

    A lost worker is the engine's business: its shards are made again elsewhere, with the row state
    that the round needs, and do their part of the round. Every shard carries out every round once.
    """

    layout: Layout
    #: rounds made so far
    rounds: int

    def sum(self, op: Operation, *args: Any) -> Parts:
        """One round: broadcast `args`, run `op` on every shard, add up in the fixed order."""
        ...

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """One round whose results are not added: a list in the order of the shards."""
        ...

    def remember(self, name: str, op: Operation, *args: Any) -> None:
        """Say by which call row state that the shards have now could be made again.

        For state that came about in another way than by one call: labels that were switched one by
        one are put back as they are. Costs nothing.
        """
        ...

    def forget(self) -> None:
        """Let go of all row state: another problem begins. Costs: 1 round."""
        ...

    def close(self) -> None:
        """Let go of the rows."""
        ...
