"""The fixed order of addition: a binary tree over shard numbers.

Node (lo, hi) is the sum over shards lo..hi-1; a node of more than one shard is the sum of its two
halves. Floating-point sums depend on their order. Partial results are therefore added along this
tree and never in order of arrival, and the bits are the same for one thread and for any number of
workers. A group sums the subtrees of which it holds all shards; the client adds the rest.
"""

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

Node = tuple[int, int]
Parts = tuple[Any, ...]


def cover(first: int, stop: int, n: int) -> list[Node]:
    """List, in order, the largest nodes of the tree over `n` shards within first..stop-1."""
    found: list[Node] = []
    stack = [(0, n)]
    while stack:
        lo, hi = stack.pop()
        if hi <= first or stop <= lo or lo == hi:
            continue
        if first <= lo and hi <= stop:
            found.append((lo, hi))
        else:
            middle = (lo + hi) // 2
            stack += [(middle, hi), (lo, middle)]
    return found


def cover_all(numbers: Sequence[int], n: int) -> list[Node]:
    """As `cover`, for any ascending shard numbers."""
    # a node is a range, so it lies within one run of consecutive numbers
    starts = [i for i, number in enumerate(numbers) if i == 0 or number != numbers[i - 1] + 1]
    runs = itertools.pairwise([*starts, len(numbers)])
    return [node for low, high in runs for node in cover(numbers[low], numbers[high - 1] + 1, n)]


def node_edges(n: int, n_nodes: int) -> list[int]:
    """List the boundaries of the nodes on the first level that has `n_nodes` nodes or more."""
    edges = [0, n]
    while len(edges) <= n_nodes:
        middles = [(lo + hi) // 2 for lo, hi in itertools.pairwise(edges)]
        finer = sorted({*edges, *middles})
        if finer == edges:
            break
        edges = finer
    return edges


def add(left: Parts, right: Parts) -> Parts:
    """Add two partial results entry by entry; left arrays that are writeable receive the sum."""
    return tuple(_add(a, b) for a, b in zip(left, right, strict=True))


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray) and a.ndim and a.flags.writeable:
        a += b
        return a
    return a + b


class TreeSum:
    """Adds partial results in the order of the tree, in whatever order they arrive. Thread-safe.

    Parameters
    ----------
    top : the node to be computed.
    """

    def __init__(self, top: Node) -> None:
        self.top = top
        self._total: Parts | None = None
        self._waiting: dict[Node, Parts] = {}
        self._lock = threading.Lock()

    def put(self, node: Node, parts: Parts) -> None:
        """Add the sum of a node; the thread that completes a pair carries on with the parent."""
        while node != self.top:
            parent, sibling = _family(node, self.top)
            with self._lock:
                other = self._waiting.pop(sibling, None)
                if other is None:
                    self._waiting[node] = parts
                    return
            parts = add(parts, other) if node < sibling else add(other, parts)
            node = parent
        self._total = parts

    def total(self) -> Parts:
        """Return the sum, after all of its parts have been put."""
        if self._total is None:
            raise AssertionError(f"parts of the sum over shards {self.top} are missing")
        return self._total


def _family(node: Node, top: Node) -> tuple[Node, Node]:
    """Return the parent and the sibling of a node below `top`."""
    lo, hi = top
    while True:
        middle = (lo + hi) // 2
        left, right = (lo, middle), (middle, hi)
        if node == left:
            return (lo, hi), right
        if node == right:
            return (lo, hi), left
        lo, hi = left if node[1] <= middle else right


def sum_in_turn(node: Node, part_of: Callable[[int], Parts]) -> Parts:
    """Sum a node in this thread alone: `part_of` returns the result of a shard."""
    lo, hi = node
    if hi - lo == 1:
        return part_of(lo)
    middle = (lo + hi) // 2
    left = sum_in_turn((lo, middle), part_of)
    return add(left, sum_in_turn((middle, hi), part_of))


def sum_nodes(nodes: Iterable[tuple[Node, Parts]], n: int) -> Parts:
    """Sum nodes that several groups returned and that together cover all `n` shards."""
    total = TreeSum((0, n))
    for node, parts in nodes:
        total.put(node, parts)
    return total.total()


def by_node(nodes: Sequence[Node], parts: Parts) -> Iterator[tuple[Node, Parts]]:
    """Split the results of several nodes, one after the other in a flat tuple."""
    size = len(parts) // len(nodes)
    for number, node in enumerate(nodes):
        yield node, parts[number * size : (number + 1) * size]
