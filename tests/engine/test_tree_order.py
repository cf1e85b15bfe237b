"""The fixed order of addition."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine.local import Group
from dask_s3vm.engine.shard import Shard
from dask_s3vm.engine.tree import TreeSum, add, cover, sum_nodes


def recursive_sum(leaves):
    """The order of the tree, written down directly."""
    if len(leaves) == 1:
        return leaves[0]
    middle = len(leaves) // 2
    return recursive_sum(leaves[:middle]) + recursive_sum(leaves[middle:])


def wild_leaves(n, seed):
    """Vectors whose sum depends on the order of addition."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-12, 12, size=(n, 3))


def splits(draw, n):
    inner = draw(st.sets(st.integers(1, n - 1), max_size=n - 1)) if n > 1 else set()
    return [0, *sorted(inner), n]


def subtree_range(n, lo, hi, node):
    """Whether `node` is a node of the tree below (lo, hi)."""
    if (lo, hi) == node:
        return True
    if hi - lo <= 1:
        return False
    middle = (lo + hi) // 2
    return subtree_range(n, lo, middle, node) or subtree_range(n, middle, hi, node)


@given(data=st.data(), n=st.integers(1, 70), seed=st.integers(0, 10**6))
def test_any_split_in_any_order_gives_the_bits_of_the_recursion(data, n, seed):
    leaves = wild_leaves(n, seed)
    edges = splits(data.draw, n)
    nodes = []
    for first, stop in itertools.pairwise(edges):
        trees = [TreeSum(node) for node in cover(first, stop, n)]
        for number in data.draw(st.permutations(range(first, stop))):
            (tree,) = [t for t in trees if t.top[0] <= number < t.top[1]]
            tree.put((number, number + 1), (leaves[number].copy(), float(leaves[number, 0])))
        nodes += [(tree.top, tree.total()) for tree in trees]
    vector, number = sum_nodes(data.draw(st.permutations(nodes)), n)
    wanted = recursive_sum(list(leaves))
    assert vector.tobytes() == wanted.tobytes()
    assert number == wanted[0]


@given(data=st.data(), n=st.integers(1, 40), seed=st.integers(0, 10**6), threads=st.integers(1, 4))
@settings(deadline=None, max_examples=40)
def test_groups_of_any_size_and_threads_give_the_bits_of_the_recursion(data, n, seed, threads):
    leaves = wild_leaves(n, seed)
    empty = np.zeros((0, 1))
    shards = [Shard(number, 0, 1, empty) for number in range(n)]
    edges = splits(data.draw, n)
    nodes = []
    for first, stop in itertools.pairwise(edges):
        group = Group(shards[first:stop], n, threads)
        parts = group.sum(lambda shard: (leaves[shard.number].copy(),))
        nodes += [(node, (part,)) for node, part in zip(cover(first, stop, n), parts, strict=True)]
        group.close()
    (total,) = sum_nodes(nodes, n)
    assert total.tobytes() == recursive_sum(list(leaves)).tobytes()


def test_the_leaves_of_these_tests_do_depend_on_the_order():
    leaves = wild_leaves(64, 1)
    assert recursive_sum(list(leaves)).tobytes() != leaves[::-1].cumsum(axis=0)[-1].tobytes()


@given(data=st.data(), n=st.integers(1, 10**6))
def test_cover_is_exact_made_of_nodes_and_small(data, n):
    first = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(first + 1, n))
    nodes = cover(first, stop, n)
    assert nodes[0][0] == first
    assert nodes[-1][1] == stop
    assert all(a[1] == b[0] for a, b in itertools.pairwise(nodes))
    assert len(nodes) <= max(1, 2 * math.ceil(math.log2(n)))
    if n <= 300:
        assert all(subtree_range(n, 0, n, node) for node in nodes)


def test_cover_of_all_is_the_top():
    assert cover(0, 13, 13) == [(0, 13)]


def test_read_only_arrays_are_added_and_left_alone():
    left, right = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    left.flags.writeable = False
    (total,) = add((left,), (right,))
    assert total.tolist() == [4.0, 6.0]
    assert left.tolist() == [1.0, 2.0]
    assert right.tolist() == [3.0, 4.0]


def test_the_right_operand_is_never_written():
    left, right = np.array([1.0]), np.array([3.0])
    add((left,), (right,))
    assert right.tolist() == [3.0]


def test_an_incomplete_tree_is_an_error():
    with pytest.raises(AssertionError, match="missing"):
        sum_nodes([((0, 1), (1.0,))], 2)


def test_an_error_in_one_shard_reaches_the_caller_from_any_thread():
    shards = [Shard(number, 0, 1, np.zeros((0, 1))) for number in range(12)]
    group = Group(shards, 12, 3)

    def fail(shard):
        if shard.number == 7:
            raise LookupError("shard 7")
        return (1.0,)

    for _ in range(20):
        with pytest.raises(LookupError, match="shard 7"):
            group.sum(fail)
    assert group.sum(lambda shard: (1, 0.5)) == (12, 6.0)
    group.close()


def test_each_keeps_the_order_of_the_shards():
    shards = [Shard(number, 0, 1, np.zeros((0, 1))) for number in range(50)]
    group = Group(shards, 50, 3)
    assert group.each(lambda shard, add: shard.number + add, 100) == list(range(100, 150))
    group.close()
