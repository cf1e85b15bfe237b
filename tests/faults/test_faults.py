"""Real worker processes are killed, frozen, cut off and added while fits run: same model.

`pytest -m faults` runs every method against every fault and prints a table; a short choice of these
runs by default. `test_storm.py` has a thousand faults, several in a fit.
"""

import contextlib
import threading

import dask
import numpy as np
import pytest
from cases import FAULTS, METHODS, N_WORKERS, SILENT, Moments, faults, go_on, moments_of, outcome
from processes import in_process

pytestmark = [pytest.mark.faults, pytest.mark.cluster, pytest.mark.usefixtures("impatient")]

#: What the default run looks at: each method once, each fault once or twice.
SHORT = list(zip(METHODS, [*FAULTS["plain"][:6], "kill", "placement", *["kill"] * 7], strict=True))


@pytest.fixture(scope="module")
def known():
    """What each method finds alone, and how many moments its fit has."""
    return {}


def check(world, client, known, monkeypatch, tally, method, fault, seed):
    moments = Moments(monkeypatch)
    world.mend(client, N_WORKERS)
    if method not in known:
        known[method] = moments_of(method)
    wanted, totals = known[method]
    place = [seed, list(METHODS).index(method), sum(map(ord, fault))]
    rng = np.random.default_rng(place)
    before = world.n_faults
    patience = "5 s" if fault in SILENT else "300 s"
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set({"s3vm.worker-timeout": patience}))
        other = None
        if fault == "client":
            other, _ = stack.enter_context(in_process(world, "l2svm"))
        moments.reset(faults(world, client, rng, totals, other)[fault])
        end = outcome(method, wanted)
        for thread in moments.done:
            if isinstance(thread, threading.Thread):
                thread.join()
    tally((method, fault, world.n_faults - before, end))
    if fault == "pause":  # a worker that no longer works
        client.run(go_on)
    assert end == "survived"
    assert world.n_faults > before, "the fault never happened"


@pytest.mark.parametrize(("method", "fault"), SHORT)
def test_a_fault_changes_no_bit(world, client, known, monkeypatch, tally, method, fault):
    check(world, client, known, monkeypatch, tally, method, fault, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("world", "fault"),
    [(kind, fault) for kind, own in FAULTS.items() for fault in own],
    indirect=["world"],
)
def test_no_method_minds_any_fault(world, client, known, monkeypatch, tally, method, fault):
    check(world, client, known, monkeypatch, tally, method, fault, seed=1)
