"""What problems and solvers see of the engine."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from dask_s3vm.engine.group import Operation
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.tree import Parts

T = TypeVar("T")


class Engine(Protocol):
    """Rows in shards, and rounds over them.

    An operation is a module-level function `op(shard, *args)`. It may keep per-row arrays in
    `shard.state`, and returns a tuple of numbers and arrays (`sum`) or anything small (`each`).
    Arrays to be added are new ones: the sum is made in them. Nothing with one entry per row ever
    travels to the client in a round.

    Row state and lost workers: what `prepare` was asked to do is done again on shards that had
    to be rebuilt; all other row state must follow from the arguments of the step that uses it.
    """

    layout: Layout
    #: rounds made so far
    rounds: int
    #: changes whenever shards were rebuilt: row state from before is gone
    generation: int

    def sum(self, op: Operation, *args: Any) -> Parts:
        """One round: broadcast `args`, run `op` on every shard, add up in the fixed order."""
        ...

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """One round whose results are not added: a list in the order of the shards."""
        ...

    def prepare(self, name: str, op: Operation, *args: Any) -> None:
        """Set up row state that lasts; a later call of the same name replaces it."""
        ...

    def remember(self, name: str, op: Operation, *args: Any) -> None:
        """Say how to put back row state that the shards have already; as `prepare`, but not now."""
        ...

    def forget(self) -> None:
        """Let go of all row state, and of how to put it back: another problem begins."""
        ...

    def step(self, advance: Callable[[], T]) -> T:
        """Carry out one outer step (a Newton step, a level, a stage) as a transaction.

        `advance` may depend only on what the client holds, and changes nothing that the client
        holds before it returns: a step that meets a lost worker starts again from there, and a
        checkpoint between two steps is complete.
        """
        ...

    def progress(self) -> None:
        """Say, within a long step, that starting it again would go on from here."""
        ...

    def close(self) -> None:
        """Let go of the rows."""
        ...
