"""Blocks of a dask array as tasks that read and check them in one go.

A block that a reader opens as a view of a mapped file must not exist as the result of a task: dask
would copy its bytes when it sends or spills it. So a block that is made by a single task without
inputs, as readers make them, is made inside the task that turns it into a `Block`.
"""

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


def delayed_block(rows: Any, labels: Any, weights: Any, mapped: bool) -> Any:
    """Return a delayed `Block` of delayed rows; labels and weights are delayed, or None.

    mapped : whether rows may stay in the file that they are views of.
    """
    graph = rows.dask.to_dict() if hasattr(rows.dask, "to_dict") else dict(rows.dask)
    task = graph[rows.key]
    beside = [column.dask for column in (labels, weights) if column is not None]
    alone = not get_dependencies(graph, rows.key) and not any(rows.key in own for own in beside)
    if alone and _is_task(task):
        make = dask.delayed(_cooked, pure=False)
        return make(Recipe(rows.key, task), labels, weights, mapped)
    return dask.delayed(make_block, pure=False)(rows, labels, weights, mapped=mapped)


def _cooked(recipe: Recipe, labels: Any, weights: Any, mapped: bool) -> Block:
    return make_block(recipe.run(), labels, weights, mapped=mapped)


def _is_task(node: Any) -> bool:
    """Whether a node of a graph is work to be done, not data or another name for a node."""
    return hasattr(node, "func") or (isinstance(node, tuple) and bool(node) and callable(node[0]))
