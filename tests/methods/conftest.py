"""Walks, see `walks`, and their clock."""

import pytest
from walks import Clock, Walk, without_times

from dask_s3vm.methods import run
from dask_s3vm.methods.run import Record


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(run, "time", clock)
    return clock


@pytest.fixture(scope="module")
def whole():
    """A walk that nothing stopped: its result and its rows."""
    record = Record()
    return record.run("walk", Walk()), without_times(record.history)
