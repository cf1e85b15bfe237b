"""Blocks of a dask array as tasks that read and check them in one go.

A block that a reader opens as a view of a mapped file must not exist as the result of a task: dask
would copy its bytes when it sends or spills it. So a block that is made by a single task without
inputs, as readers make them, is made inside the task that turns it into a `Block`.
"""

from collections.abc import Sequence
from typing import Any

import dask
from dask.core import get_dependencies

from dask_s3vm.engine.blocks import Block, make_block


class Recipe:
    """The task that makes a block, to be run inside another task."""

    __slots__ = ("key", "task")

    def __init__(self, key: Any, task: Any) -> None:
        self.key = key
        self.task = task

    def run(self) -> Any:
        """Make the block."""
        return dask.get({self.key: self.task}, self.key)


def delayed_blocks(
    rows: Sequence[Any], labels: Sequence[Any], weights: Sequence[Any], mapped: bool
) -> list[Any]:
    """Return delayed `Block`s of the delayed blocks of one array.

    labels, weights : what is beside each block, delayed or None.
    mapped : whether rows may stay in the file that they are views of.
    """
    make, cook = dask.delayed(make_block, pure=False), dask.delayed(_cooked, pure=False)
    graph = dict(rows[0].dask)  # of all blocks
    found = []
    for block, *beside in zip(rows, labels, weights, strict=True):
        if _stands_alone(block.key, graph, beside):
            found.append(cook(Recipe(block.key, graph[block.key]), *beside, mapped))
        else:
            found.append(make(block, *beside, mapped=mapped))
    return found


def _stands_alone(key: Any, graph: dict[Any, Any], beside: list[Any]) -> bool:
    """Whether a block is made by one task from nothing, and nothing else is made of it."""
    if key not in graph:  # a persisted block: the cluster has it
        return False
    if not _is_task(graph[key]) or get_dependencies(graph, key):
        return False
    return not any(key in column.dask for column in beside if column is not None)


def _cooked(recipe: Recipe, labels: Any, weights: Any, mapped: bool) -> Block:
    return make_block(recipe.run(), labels, weights, mapped=mapped)


def _is_task(node: Any) -> bool:
    """Whether a node of a graph is work to be done, not data or another name for a node."""
    return hasattr(node, "func") or (isinstance(node, tuple) and bool(node) and callable(node[0]))
