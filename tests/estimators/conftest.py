"""Fixtures of the estimators' tests."""

import pytest
from transductive_cases import clusters


@pytest.fixture(scope="module")
def small():
    """Two clusters, ten of 120 rows labeled."""
    return clusters()
