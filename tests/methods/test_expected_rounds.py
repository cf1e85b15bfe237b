"""How many rounds a fit is said to take."""

import pytest

from dask_s3vm import L2SVM
from dask_s3vm.parameters.methods import METHODS, MethodFacts

WITH_FIGURES = {
    "l2svm", "tsvm", "da", "cccp", "qn", "rlsc", "s2rlsc", "star", "qp", "sqp", "s3vm", "lapsvm",
}  # fmt: skip


def expected_rounds(method, lam=1e-3, n_problems=1):
    return METHODS[method].facts.expected_rounds(lam, n_problems)


def test_every_method_has_figures():
    own = {name for name, kind in METHODS.items() if kind.__module__.startswith("dask_s3vm.")}
    assert own == WITH_FIGURES
    usual = MethodFacts("", "", "", (), "").rounds
    for method in WITH_FIGURES:
        facts = METHODS[method].facts
        low, high = expected_rounds(method)
        assert 2 <= low <= high
        assert facts.rounds != usual
        assert facts.row_bytes > 0


def test_less_regularization_takes_more_rounds():
    assert expected_rounds("tsvm", 1e-2) == (52, 511)
    assert expected_rounds("tsvm", 1e-4) == (274, 3982)
    between = expected_rounds("tsvm", 1e-3)
    assert 52 < between[0] < 274
    assert 511 < between[1] < 3982
    assert expected_rounds("tsvm", 1e-30) == expected_rounds("tsvm", 1e-7)
    assert expected_rounds("tsvm", 1e-2, n_problems=3) == (156, 1533)


@pytest.mark.parametrize("lam", [1e-2, 1e-4])
def test_a_fit_takes_about_that_many(sparse_data, lam):
    low, high = expected_rounds("l2svm", lam)
    assert low / 3 <= L2SVM(lam=lam).fit(*sparse_data).n_rounds_ <= high
