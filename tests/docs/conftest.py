import copy

import dask
import pytest


@pytest.fixture(autouse=True)
def own_configuration():
    """Pages and scripts may change dask's configuration; the next test has it as it was."""
    before = copy.deepcopy(dask.config.config)
    yield
    dask.config.config.clear()
    dask.config.config.update(before)
