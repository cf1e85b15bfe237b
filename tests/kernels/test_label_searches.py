"""Searches over labels: brute force, balance, and the family tree of a population."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.engine.blocks import frozen
from dask_s3vm.kernels import flips
from dask_s3vm.kernels.flips import UNLIMITED, add_factor_rows, change_of, flip_in_turn, row_lengths
from dask_s3vm.kernels.population import evolve, search
from dask_s3vm.numerics.random import below, row_uniform
from dask_s3vm.problems.label_search import Factor, Task, Window, restart, restarts, window_of

KINDS = [(1, 1), (5, 25), (3, 2), (1, 7)]


def problem(seed, n, r, dtype=np.float64):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, r)).astype(dtype) / np.sqrt(n * r)
    return frozen(np.ascontiguousarray(G)), rng.normal(size=r) / np.sqrt(r) * 0.3


def lengths_of(G):
    return frozen(row_lengths(G))


def brute_force(G, fixed, low, high):
    """Largest |z|^2 over all labels within the window."""
    y = np.array(list(itertools.product((-1, 1), repeat=len(G))))
    y = y[((y > 0).sum(axis=1) >= low) & ((y > 0).sum(axis=1) <= high)]
    return np.square(fixed + y @ G).sum(axis=1).max()


@pytest.mark.parametrize("population", KINDS)
@pytest.mark.parametrize("n", [1, 2, 5, 10, 14])
def test_fifty_restarts_find_the_best_of_all_labels(population, n):
    for seed in range(3):
        G, fixed = problem(seed, n, 4)
        window = window_of(n, 0.5, 0.2)
        task = Task(fixed, window, 10.0)
        found = [restart(Factor.of(G), task, population, 1000 * seed + s) for s in range(50)]
        best = min(one.fitness for one in found)
        assert best == pytest.approx(10.0 - brute_force(G, fixed, window.low, window.high))


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    r=st.integers(1, 9),
    share=st.floats(0, 1),
    tolerance=st.floats(0, 0.3),
    population=st.sampled_from(KINDS),
    dtype=st.sampled_from([np.float32, np.float64]),
)
@settings(max_examples=80, deadline=None)
def test_a_restart_keeps_the_balance_and_never_gets_worse(
    seed, n, r, share, tolerance, population, dtype
):
    G, fixed = problem(seed, n, r, dtype)
    window = window_of(n, share, tolerance)
    task = Task(fixed, window, 10.0)
    found = restart(Factor.of(G), task, population, seed)
    labels = np.where(np.unpackbits(found.bits, count=n), 1.0, -1.0)
    assert window.low <= (labels > 0).sum() <= window.high
    z = fixed + G.astype(np.float64).T @ labels
    assert np.allclose(found.z, z, atol=1e-12)
    assert found.fitness == pytest.approx(10.0 - z @ z, abs=1e-12)
    assert found.fitness <= found.start + 1e-12
    assert found.flips >= n


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    share=st.floats(0, 1),
    tolerance=st.floats(0, 0.3),
)
@settings(max_examples=50, deadline=None)
def test_a_restart_starts_from_given_labels(seed, n, share, tolerance):
    G, fixed = problem(seed, n, 4)
    window = window_of(n, share, tolerance)
    factor, task = Factor.of(G), Task(fixed, window, 10.0)
    given_bits = np.packbits(np.random.default_rng(seed).random(n) < share)
    found = restart(factor, task, (5, 25), seed, given_bits)
    labels = np.where(np.unpackbits(found.bits, count=n), 1.0, -1.0)
    z = fixed + G.T @ labels
    assert window.low <= (labels > 0).sum() <= window.high
    assert found.fitness == pytest.approx(10.0 - z @ z, abs=1e-12)
    assert found.fitness <= found.start + 1e-12
    for j in range(n):  # no flip that stays within the window is left
        flipped = labels.copy()
        flipped[j] = -flipped[j]
        if window.low <= (flipped > 0).sum() <= window.high:
            other = fixed + G.T @ flipped
            assert 10.0 - other @ other >= found.fitness - 1e-12
    again = restart(factor, task, (5, 25), seed, found.bits)
    assert again.start == pytest.approx(found.fitness, abs=1e-12)


def test_no_single_flip_lowers_the_fitness_where_flip_in_turn_ends():
    G, fixed = problem(1, 200, 6)
    lengths = lengths_of(G)
    labels, z, *_ = search(G, lengths, fixed, 0.5, 0, 200, 1, 1, np.uint64(4), 1e-13)
    changes = [change_of(G, lengths, labels, z, j, -1) for j in range(200)]
    assert min(changes) >= -1e-12


@pytest.mark.parametrize("population", [(1, 1), (5, 25)])
def test_balance_holds_at_every_flip(population):
    G, fixed = problem(5, 30, 3)
    low, high = 14, 15
    seen = []
    mu, nu = population
    rng = np.random.default_rng(0)
    labels = np.full((mu, 30), -1, dtype=np.int8)
    for slot in range(mu):
        labels[slot, rng.permutation(30)[:14]] = 1
    z = np.stack([fixed + G.T @ own for own in labels])
    counts = np.full(mu, 14)
    state = np.array([7], dtype=np.uint64)
    lengths = lengths_of(G)
    if mu == 1:
        # one flip at a time: `most` stops the search after every row
        for _ in range(400):
            count, _, _ = flip_in_turn(
                G, lengths, labels[0], z[0], fixed, int((labels[0] > 0).sum()), low, high, state,
                1e-13, 1,
            )  # fmt: skip
            labels = np.roll(labels, 1, axis=1)  # `flip_in_turn` begins at row 0
            G, lengths = frozen(np.roll(G, 1, axis=0)), frozen(np.roll(lengths, 1))
            seen.append((labels[0] > 0).sum())
            assert count == seen[-1]
    else:
        evolve(G, lengths, labels, z, fixed, counts, low, high, nu, state, 1e-13)
        seen = (labels > 0).sum(axis=1).tolist()
        assert seen == counts.tolist()
    assert set(seen) <= {14, 15}


@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), mu=st.integers(2, 8))
@settings(max_examples=60, deadline=None)
def test_labels_and_z_of_a_population_stay_together(seed, n, mu):
    G, fixed = problem(seed, n, 4)
    rng = np.random.default_rng(seed)
    labels = rng.choice([-1, 1], (mu, n)).astype(np.int8)
    z = np.stack([fixed + G.T @ own for own in labels])
    counts = (labels > 0).sum(axis=1)
    state = np.array([seed], dtype=np.uint64)
    before = np.square(z).sum(axis=1)
    best, looked, _ = evolve(G, lengths_of(G), labels, z, fixed, counts, 0, n, 3 * mu, state, 1e-13)
    assert np.allclose(z, fixed + labels @ G, atol=1e-11)
    assert counts.tolist() == (labels > 0).sum(axis=1).tolist()
    after = np.square(z).sum(axis=1)
    assert after.argmax() == best or after.max() == pytest.approx(after[best])
    assert np.sort(after)[::-1][0] >= before.max() - 1e-12
    assert after.min() >= before.min() - 1e-12
    assert looked >= n


def test_a_full_family_tree_is_started_again():
    # many flips: a slow climb from the worst labels, with a tree of 4 n + 1024 nodes
    n = 4000
    G, _ = problem(0, n, 2)
    fixed = np.array([50.0, 0.0])
    labels = np.tile(-np.sign(G[:, 0]).astype(np.int8), (5, 1))
    z = np.stack([fixed + G.T @ own for own in labels])
    counts = (labels > 0).sum(axis=1)
    state = np.array([3], dtype=np.uint64)
    *_, stayed = evolve(G, lengths_of(G), labels, z, fixed, counts, 0, n, 25, state, 1e-13)
    assert stayed > 4 * n + 1024
    assert np.allclose(z, fixed + labels @ G, atol=1e-10)
    assert (labels[0] == np.sign(G[:, 0])).mean() > 0.99


def test_rounding_errors_do_not_accumulate():
    G, fixed = problem(2, 300, 20, np.float32)
    lengths, labels = lengths_of(G), np.ones(300, dtype=np.int8)
    z = fixed + G.astype(np.float64).sum(axis=0)
    for j in np.random.default_rng(0).integers(0, 300, 20_000):
        flips.flip_row(G, labels, z, j)
    assert np.allclose(z, fixed + G.astype(np.float64).T @ labels, atol=1e-12)
    wrong = z + 1e-3  # a search recomputes z at the end
    exact = fixed.copy()
    flip_in_turn(
        G, lengths, labels, wrong, fixed, 150, 0, 300, np.zeros(1, np.uint64), 0.0, UNLIMITED
    )
    add_factor_rows(G, labels, exact)
    found = search(G, lengths, fixed, 0.5, 0, 300, 1, 1, np.uint64(0), 1e-13)
    again = fixed.copy()
    add_factor_rows(G, found[0], again)
    assert again.tobytes() == found[1].tobytes()


def test_windows():
    assert window_of(10, 0.5, 0.15) == Window(0.5, 4, 6)
    assert window_of(10, 0.5, 1e-9) == Window(0.5, 5, 5)
    assert window_of(3, 0.5, 0.1).low == window_of(3, 0.5, 0.1).high
    assert window_of(10, 0.0, 0.05) == Window(0.0, 0, 0)
    assert window_of(10, 1.0, 0.15) == Window(1.0, 9, 10)


def test_draws_are_uniform():
    state = np.array([1], dtype=np.uint64)
    drawn = np.array([below(state, 7) for _ in range(70_000)])
    counts = np.bincount(drawn, minlength=7)
    assert len(counts) == 7
    assert abs(counts - 10_000).max() < 500
    numbers = np.array([row_uniform(np.uint64(9), i) for i in range(20_000)])
    assert 0 <= numbers.min() < numbers.max() < 1
    assert abs(np.histogram(numbers, 10)[0] - 2000).max() < 220
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03


@pytest.mark.parametrize("tolerance", [0.5, 0.0])
def test_restarts_from_the_same_labels_are_what_each_finds_alone(tolerance):
    """Within a narrow window partners are drawn: seeds differ. In a wide one, one search is all."""
    n = 60
    G, fixed = problem(2, n, 6)
    factor, task = Factor.of(G), Task(fixed, window_of(n, 0.5, tolerance), 10.0)
    start = np.packbits(np.random.default_rng(5).random(n) < 0.5)
    seeds = [3, 1, 4, 15]
    found = restarts(factor, task, (5, 25), seeds, start)
    alone = [restart(factor, task, (5, 25), seed, start) for seed in seeds]
    for own, other in zip(found, alone, strict=True):
        assert own.bits.tobytes() == other.bits.tobytes()
        assert own.z.tobytes() == other.z.tobytes()
        assert own._replace(bits=0, z=0, seconds=0) == other._replace(bits=0, z=0, seconds=0)
    assert found[0].drew == (tolerance == 0.0)
    assert (len({one.bits.tobytes() for one in found}) > 1) == found[0].drew
