"""Which worker gets which shards: at first, after a loss, and when workers join."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from dask_s3vm.engine.workers import MIN_GAIN, first_runs, hand_out, rebalance

workers = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 4), min_size=1)


def fullest(threads, *holdings):
    return max(
        sum(len(held.get(worker, ())) for held in holdings) / n for worker, n in threads.items()
    )


def spread_over(n_shards, threads):
    runs = first_runs(n_shards, list(threads.values()))
    return {worker: list(range(*run)) for worker, run in zip(threads, runs, strict=False)}


@given(st.integers(1, 200), workers, st.data())
def test_what_is_missing_goes_to_those_who_have_least(n_shards, threads, data):
    held = spread_over(n_shards, threads)
    lost = data.draw(st.sampled_from(sorted(held)))
    missing = held.pop(lost)
    if not threads.keys() - {lost}:
        return
    left = {worker: n for worker, n in threads.items() if worker != lost}
    given_out = hand_out(missing, left, held)
    assert sorted(itertools.chain(*given_out.values())) == missing
    assert set(given_out) <= set(left)
    for numbers in given_out.values():
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
    # no worker has more than a share and a shard, unless it had that before
    worst = max(fullest(left, held), (n_shards + sum(left.values())) / sum(left.values()))
    assert fullest(left, held, given_out) <= worst + 1e-9


@given(st.integers(1, 200), workers, st.dictionaries(st.sampled_from("wxyz"), st.integers(1, 4)))
def test_shards_move_to_new_workers_only_if_that_is_worth_it(n_shards, threads, joined):
    held = spread_over(n_shards, threads)
    everyone = threads | joined
    moving = rebalance(everyone, held)
    moved = set(itertools.chain(*moving.values()))
    after = {worker: [n for n in numbers if n not in moved] for worker, numbers in held.items()}
    for worker, numbers in moving.items():
        after[worker] = after.get(worker, []) + numbers
    assert sorted(itertools.chain(*after.values())) == list(range(n_shards))
    if moving:
        assert fullest(everyone, after) <= (1 - MIN_GAIN) * fullest(everyone, held) + 1e-9
        assert not rebalance(everyone, after)  # at rest
    else:
        share = n_shards / sum(everyone.values())
        assert (1 - MIN_GAIN) * fullest(everyone, held) < share + 1


def test_one_more_among_many_is_not_worth_it():
    held = {f"w{i:02}": list(range(20 * i, 20 * i + 20)) for i in range(20)}
    threads = dict.fromkeys([*held, "new"], 1)
    assert rebalance(threads, held) == {}


def test_the_replacement_of_one_in_four_gets_its_share():
    held = {"a": list(range(4)), "b": list(range(4, 8)), "c": list(range(8, 12))}
    moving = rebalance(dict.fromkeys("abcd", 1), held)
    assert moving == {"d": [3, 7, 11]}
