"""A thousand faults: several in every fit, at moments drawn at random, on long-lived clusters.

``pytest -m "slow and faults" tests/faults/test_storm.py -n 0`` prints the table. The environment
sets DASK_S3VM_FAULTS, the least number of faults (1000), and DASK_S3VM_FAULT_SEED (0).
"""

import asyncio
import contextlib
import faulthandler
import os
import sys
import threading
import time

import dask
import numpy as np
import pytest
from cases import FAULTS, METHODS, N_WORKERS, SILENT, Moments, faults, go_on, moments_of, outcome
from processes import in_process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.cluster,
    pytest.mark.usefixtures("impatient"),
    pytest.mark.timeout(3600),
]

SEED = int(os.environ.get("DASK_S3VM_FAULT_SEED", "0"))

#: Faults of each method on each kind of cluster.
QUOTA = -(-int(os.environ.get("DASK_S3VM_FAULTS", "1000")) // (len(FAULTS) * len(METHODS)))

#: Methods that keep states; RLSC is a handful of rounds.
RESUMABLE = [name for name, make in METHODS.items() if hasattr(make(), "checkpoint")]

#: Faults that are planned for a fit.
PER_FIT = 6

#: Planned so many times as often as others: those that take seconds to notice are rarer.
OFTEN = {"kill": 6, "two at once": 3, "placement": 3, "kill again": 3, "stutter": 2}

#: Faults in one action, where these are several.
AT_ONCE = {"two at once": 2, "all": N_WORKERS, "cut and kill": 2}

#: Losses add up here that would be hours apart elsewhere.
ENDURING = {"s3vm.recovery-attempts": 1000, "s3vm.recovery-window": "0 s"}


@pytest.fixture(scope="module")
def known():
    """What each method finds alone, and how many moments its fit has."""
    return {}


def plan_of(world, client, rng, totals, kind):
    """Return {moment: action}, the names of the faults planned, and a list of those that struck."""
    own = [name for name in FAULTS[kind] if name != "client"]
    share = np.array([OFTEN.get(name, 1) for name in own], dtype=float)
    names = [str(name) for name in rng.choice(own, PER_FIT, p=share / share.sum())]
    plan, struck = {}, []
    for name in names:
        for moment, action in faults(world, client, rng, totals, None)[name].items():

            def strike(name=name, action=action):
                while len(world.workers) < AT_ONCE.get(name, 1) + 1:  # somebody replaces them
                    world.start()
                struck.append(name)
                world.note(name)
                return action()

            plan.setdefault(moment, strike)
    return plan, names, struck


def weather(world, client, moments, plan, silent, method, wanted, **params):
    """Have faults strike during a fit; see `outcome`."""
    world.mend(client, N_WORKERS)
    client.run(go_on)  # some were paused
    moments.reset(plan)
    world.diary.clear()
    began = time.monotonic()
    patience = "5 s" if silent else "300 s"
    with (
        world.kept(client, N_WORKERS - 1),
        dask.config.set(ENDURING | {"s3vm.worker-timeout": patience}),
    ):
        end = outcome(method, wanted, **params)
    for thread in moments.done:
        if isinstance(thread, threading.Thread):
            thread.join()
    if end != "survived":
        print(f"{method}: {end} after {time.monotonic() - began:.1f} s")
        for when, what in world.diary:
            print(f"  {when - began:7.2f} s {what}")
    if end == "hung":
        show_waits(client)
    return end


def show_waits(client):
    """Print what a fit that does not end waits for: its threads, its tasks, the workers."""
    faulthandler.dump_traceback(sys.__stdout__, all_threads=True)
    for task in client.sync(everything_awaited):
        task.print_stack(file=sys.stdout)
    print(client.run_on_scheduler(states))


async def everything_awaited():
    return asyncio.all_tasks()


def states(dask_scheduler):
    """Return the tasks that are not done, and where they are, and the workers."""
    tasks = [
        (key, task.state, str(task.processing_on), sorted(task.host_restrictions or ()))
        for key, task in dask_scheduler.tasks.items()
        if task.state not in ("memory", "released")
    ]
    return tasks, {one.address: str(one.status) for one in dask_scheduler.workers.values()}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("world", FAULTS, indirect=True)
def test_a_storm_changes_no_bit(world, client, known, monkeypatch, tally, method, request):
    kind = request.node.callspec.params["world"]
    moments = Moments(monkeypatch)
    if method not in known:
        known[method] = moments_of(method)
    wanted, totals = known[method]
    rng = np.random.default_rng([SEED, list(METHODS).index(method), list(FAULTS).index(kind)])
    n_faults, ends = 0, []
    while n_faults < QUOTA and "hung" not in ends:
        plan, names, struck = plan_of(world, client, rng, totals, kind)
        silent = not set(names).isdisjoint(SILENT)
        ends.append(weather(world, client, moments, plan, silent, method, wanted))
        for name in struck:
            tally((f"{method} ({kind})", name, AT_ONCE.get(name, 1), ends[-1]))
            n_faults += AT_ONCE.get(name, 1)
    assert set(ends) == {"survived"}


@pytest.mark.parametrize("method", RESUMABLE)
def test_a_fit_whose_client_is_killed_goes_on_elsewhere(
    world, client, known, monkeypatch, tally, method, tmp_path
):
    """The client is killed at any moment, as is a worker while another client resumes."""
    moments = Moments(monkeypatch)
    if method not in known:
        known[method] = moments_of(method)
    wanted, totals = known[method]
    rng = np.random.default_rng([SEED, list(METHODS).index(method)])
    ends = []
    for number in range(max(1, QUOTA // 10)):
        state = {"checkpoint": tmp_path / str(number)}
        world.mend(client, N_WORKERS)
        with in_process(world, method, **state) as (process, _), contextlib.suppress(Exception):
            process.join(float(rng.uniform(0.0, 1.5)))
        plan = faults(world, client, rng, totals, None)["kill"]
        ends.append(weather(world, client, moments, plan, False, method, wanted, **state))
        tally((method, "own client", 1 + len(moments.done), ends[-1]))
    assert set(ends) == {"survived"}
