"""What tells a fit from others: functions by what they do, not by their name alone."""

import functools

from dask_s3vm import L2SVM
from dask_s3vm.checkpoints.identity import differences, identity_of


def told(kernel):
    return identity_of(L2SVM(kernel=kernel), {}, {})


def scaled(factor):
    return lambda x, y: factor * float(x @ y)


def power(x, y, degree):
    return float(x @ y) ** degree


def test_functions_of_one_scope_are_told_apart():
    first, second = (lambda x, y: float(x @ y)), (lambda x, y: 2.0 * float(x @ y))
    assert first.__qualname__ == second.__qualname__
    assert differences(told(first), told(second))
    assert not differences(told(first), told(first))


def test_what_a_function_holds_counts():
    assert differences(told(scaled(1.0)), told(scaled(2.0)))
    assert not differences(told(scaled(2.0)), told(scaled(2.0)))


def test_partial_functions_have_an_identity():
    assert differences(
        told(functools.partial(power, degree=2)), told(functools.partial(power, degree=3))
    )
    assert not differences(
        told(functools.partial(power, degree=2)), told(functools.partial(power, degree=2))
    )


class Callable:
    def __call__(self, x, y):
        return float(x @ y)


def test_objects_that_can_be_called_are_known_by_their_class():
    assert "Callable" in str(told(Callable()))
