"""The interface between problems and the engine: rounds over rows that stay in place."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from dask_s3vm.engine.operations import Operation
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.tree import Parts


class Mark(NamedTuple):
    """Sums at one moment: the clock, rounds made, seconds in rounds, and of these in passes."""

    clock: float
    n_rounds: int
    round_seconds: float
    pass_seconds: float


@dataclass
class RoundTimes:
    """Where the time of the rounds so far went, in seconds.

    round_seconds : in calls to the workers, as the client sees it.
    pass_seconds : of that, over the rows; of several workers, the slowest one. The rest is
        transport.
    by_worker : over the rows, by worker.
    wanted : set to have workers asked for their passes before the next round, and reset then.
    mark : all of these sums when they were last asked.
    """

    round_seconds: float = 0.0
    pass_seconds: float = 0.0
    by_worker: dict[str, float] = field(default_factory=dict)
    wanted: bool = False
    mark: Mark | None = None

    def set_mark(self, n_rounds: int, answers: dict[str, Any]) -> None:
        """Take in the passes since workers were last asked; lost workers gave no number."""
        seconds = {name: s for name, s in answers.items() if isinstance(s, float)}
        known = self.by_worker
        self.pass_seconds += max(seconds.values(), default=0.0)
        self.by_worker = known | {name: known.get(name, 0.0) + s for name, s in seconds.items()}
        self.mark = Mark(time.perf_counter(), n_rounds, self.round_seconds, self.pass_seconds)
        self.wanted = False


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
    #: where the time of these rounds went
    times: RoundTimes
    #: number of groups that were lost with their workers
    losses: int

    @property
    def shard_counts(self) -> dict[str, int]:
        """Number of shards by worker; may be asked for by any thread."""
        ...

    def sum(self, op: Operation, *args: Any) -> Parts:
        """Run a round: broadcast `args`, run `op` on every shard, add in the order of `tree`."""
        ...

    def each(self, op: Operation, *args: Any) -> list[Any]:
        """Run a round without addition: the results, in the order of the shards."""
        ...

    @property
    def loop(self) -> Callable[..., Parts] | None:
        """As `sum`, for an operation that makes several rounds, and returns first how many.

        None unless one shard of this process has all rows.
        """
        return None

    def remember(self, name: str, op: Operation, *args: Any) -> None:
        """Declare that the call ``op(shard, *args)`` would produce the present row state `name`.

        For row state whose recorded calls are not a good way to restore it, such as labels that
        were switched one at a time. To be called before the next round. Costs: no round.
        """
        ...

    def forget(self) -> None:
        """Drop all row state, before another problem is solved. Costs: 1 round."""
        ...

    def close(self) -> None:
        """Release the rows."""
        ...
