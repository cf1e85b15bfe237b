"""Real worker processes are killed, frozen and added while fits run: the model stays the same.

`pytest -m faults` runs every method against every fault and prints a table; a short choice of these
runs by default.
"""

import threading

import dask
import numpy as np
import pytest
from cases import METHODS, N_WORKERS, Moments, faults, fit, found, moments_of

pytestmark = [pytest.mark.faults, pytest.mark.cluster, pytest.mark.usefixtures("impatient")]

FAULTS = ["kill", "placement", "two at once", "kill again", "all", "join", "freeze"]

#: What the default run looks at: each method once, each fault once or twice.
SHORT = list(zip(METHODS, [*FAULTS[:6], "kill", "placement", *["kill"] * 5], strict=True))


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
    rng = np.random.default_rng([seed, list(METHODS).index(method), FAULTS.index(fault)])
    moments.reset(faults(world, client, rng, totals)[fault])
    before, survived = world.n_faults, False
    patience = "5 s" if fault == "freeze" else "300 s"
    try:
        with dask.config.set({"s3vm.worker-timeout": patience}):
            survived = found(fit(method)) == wanted
        for thread in moments.done:
            if isinstance(thread, threading.Thread):
                thread.join()
    finally:
        tally((method, fault, world.n_faults - before, survived))
    assert survived
    assert world.n_faults > before, "the fault never happened"


@pytest.mark.parametrize(("method", "fault"), SHORT)
def test_a_fault_changes_no_bit(world, client, known, monkeypatch, tally, method, fault):
    check(world, client, known, monkeypatch, tally, method, fault, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", METHODS)
def test_no_method_minds_any_fault(world, client, known, monkeypatch, tally, method, fault):
    check(world, client, known, monkeypatch, tally, method, fault, seed=1)
