"""Functions that run on the scheduler of a cluster: questions to it, and what it shall forget."""

from collections.abc import Callable, Sequence
from typing import Any


def working_for(
    client: str, workers: list[str], holding: bool, dask_scheduler: Any = None
) -> list[str]:
    """Return those of some workers with a task that a client wants, or that such a task needs.

    holding : whether results that a worker holds count too, not only what it is to compute.
    """

    def is_wanted(task: Any) -> bool:
        return any(state.client_key == client for state in task.who_wants or ())

    states = [dask_scheduler.workers[address] for address in workers]
    return [
        state.address
        for state in states
        if any(
            _leads_to(task, is_wanted)
            for task in {*state.processing, *(state.has_what if holding else ())}
        )
    ]


def stranded(keys: Sequence[Any], dask_scheduler: Any = None) -> bool:
    """Whether tasks, or what they need, could run, and dask will never start them.

    A worker that joins gets the tasks without a worker that are restricted to it, or not restricted
    at all, but not those that merely prefer another one.
    """
    wanted = set(keys)
    return bool(dask_scheduler.running) and any(
        task.loose_restrictions and _leads_to(task, lambda one: one.key in wanted)
        for task in dask_scheduler.unrunnable
    )


def _leads_to(task: Any, is_end: Callable[[Any], bool]) -> bool:
    """Whether a task, or one that needs it, is of some kind."""
    stack, seen = [task], set()
    while stack:
        one = stack.pop()
        if is_end(one):
            return True
        seen.add(one)
        stack += [other for other in one.dependents if other not in seen]
    return False


def forget_past(span: str, dask_scheduler: Any = None) -> None:
    """Forget the groups of tasks of a span of dask that are gone, except the one that ended last.

    The scheduler itself would keep a record of each group, and one of each graph, for as long as it
    lives (`distributed.spans`). The last one says when the span ended.
    """
    found = dask_scheduler.extensions["spans"].spans.get(span)
    if found is None:
        return
    present = set(dask_scheduler.task_groups.values())
    last = max(found.groups, key=lambda group: group.stop, default=None)
    found.groups.intersection_update({*present, last})
    if found.metadata:
        del found.metadata["collections"][:-1]
