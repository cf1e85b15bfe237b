"""The interface between solvers and the engine: rounds over rows that stay in place."""

from typing import Any, Protocol

from dask_s3vm.engine.operations import Operation
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.tree import Parts


class Engine(Protocol):
    """Rows in shards, and rounds over them.

    A round runs one operation on every shard. An operation is a module-level function
    ``op(shard, *args)``. It may leave per-row arrays in `shard.state`, and declares that it does
    (see `operations`). Its result is what travels to the client:

    - for `sum`, a tuple of numbers, arrays and lists. Numbers and arrays are added; lists are
      concatenated in the order of the shards. The arrays must be new ones: the sum is accumulated
      in them.
    - for `each`, any object. In the rounds of a solver it is a few numbers. Operations that return
      something per row (a copy of row state for a checkpoint, projected or distinct rows, the last
      candidates of a selection) cost that much traffic and client memory.

    The engine recovers from lost workers. It builds their shards again on other workers, restores
    the row state that the round needs, and runs the operation there. Every round takes effect
    exactly once on the row state of every shard.
    """

    layout: Layout
    #: number of rounds so far
    rounds: int

    def sum(self, op: Operation, *args: Any) -> Parts:
        """Run a round: broadcast `args`, run `op` on every shard, add in the order of `tree`."""
        ...

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """Run a round without addition: the results, in the order of the shards."""
        ...

    def remember(self, name: str, op: Operation, *args: Any) -> None:
        """Declare that the call ``op(shard, *args)`` would produce the present row state `name`.

        For row state whose recorded calls are not a good way to restore it, such as labels that
        were switched one at a time. Costs: no round.
        """
        ...

    def forget(self) -> None:
        """Drop all row state, before another problem is solved. Costs: 1 round."""
        ...

    def close(self) -> None:
        """Release the rows."""
        ...
