"""The interval for a counted share, against scipy."""

import pytest
from scipy.stats import binomtest

from dask_s3vm.methods.base import share_interval


@pytest.mark.parametrize(("k", "n"), [(0, 5), (5, 5), (3, 10), (30, 1000), (500, 1000)])
def test_it_is_wilsons(k, n):
    wanted = binomtest(k, n).proportion_ci(0.95, method="wilson")
    low, high = share_interval(k / n, n)
    assert low == pytest.approx(wanted.low, abs=1e-4)
    assert high == pytest.approx(wanted.high, abs=1e-4)
