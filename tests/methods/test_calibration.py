"""Platt's sigmoid, against scikit-learn's and against Bayes' rule."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.calibration import _SigmoidCalibration

from dask_s3vm.methods.calibration import calibrate, calibrate_all
from dask_s3vm.prediction import probabilities_of


@pytest.fixture
def rows(rng):
    """Outputs whose probabilities are known: expit(2 o - 1)."""
    outputs = rng.normal(size=4000)
    return rng.random(4000) < expit(2.0 * outputs - 1.0), outputs


@pytest.mark.parametrize("n", [10, 100, 4000])
def test_it_is_the_sigmoid_of_scikit_learn(rows, n):
    z, outputs = rows[0][:n], rows[1][:n]
    other = _SigmoidCalibration().fit(outputs, z.astype(int))
    slope, level = calibrate(z, outputs, np.ones(n))
    found = expit(slope * outputs + level)
    np.testing.assert_allclose(found, other.predict(outputs), atol=2e-3)  # a ridge of 0.01


def test_the_truth_is_found(rows):
    assert calibrate(*rows, np.ones(4000)) == pytest.approx((2.0, -1.0), abs=0.15)


@pytest.mark.parametrize("shift", [0.0, 300.0])
def test_the_level_of_the_outputs_does_not_matter(rows, shift):
    slope, level = calibrate(rows[0], rows[1] + shift, np.ones(4000))
    assert (slope, level + slope * shift) == pytest.approx(calibrate(*rows, np.ones(4000)))


def test_weights_count_as_repetitions(rows):
    z, outputs = rows[0][:60], rows[1][:60]
    repeats = np.arange(60) % 3
    twice = calibrate(np.repeat(z, repeats), np.repeat(outputs, repeats), np.ones(repeats.sum()))
    assert calibrate(z, outputs, repeats.astype(float)) == pytest.approx(twice, rel=2e-2)


def test_another_share_is_bayes_rule(rows):
    z, outputs = rows
    slope, level = calibrate(z, outputs, np.ones(4000))
    moved_slope, moved_level = calibrate(z, outputs, np.ones(4000), 0.1)
    assert moved_slope == slope
    share, p = z.mean(), expit(slope * outputs + level)
    by_class = p * 0.1 / share, (1 - p) * 0.9 / (1 - share)
    np.testing.assert_allclose(
        expit(moved_slope * outputs + moved_level), by_class[0] / sum(by_class), rtol=1e-9
    )


def test_a_share_at_the_end_is_no_certainty(rows):
    slope, level = calibrate(*rows, np.ones(4000), 0.0)
    assert np.isfinite(level)
    assert expit(slope * rows[1] + level).max() > 0


def test_outputs_the_wrong_way_round_tell_nothing(rows):
    slope, level = calibrate(rows[0], -rows[1], np.ones(4000))
    assert slope == 0.0
    assert expit(level) == pytest.approx(rows[0].mean(), abs=1e-3)


def test_rows_that_separate_are_not_certain():
    z = np.arange(10) >= 5
    slope, level = calibrate(z, np.where(z, 1.0, -1.0), np.ones(10))
    assert expit(slope + level) == pytest.approx(6 / 7, abs=2e-3)


def test_equal_outputs_are_their_share():
    z = np.arange(8) < 2
    slope, level = calibrate(z, np.ones(8), np.ones(8))
    assert 0.2 < expit(slope + level) < 0.4


def test_several_classes_are_divided_by_their_sum(rng):
    codes, outputs = rng.integers(0, 3, 90), rng.normal(size=(90, 3))
    calibration = calibrate_all(codes, outputs, np.ones(90), [0, 1, 2], None)
    each = expit(outputs * calibration[:, 0] + calibration[:, 1])
    found = probabilities_of(outputs, calibration)
    np.testing.assert_allclose(found, each / each.sum(axis=1, keepdims=True), rtol=1e-12)


def test_classes_have_the_likeliest_common_sigmoid(rng):
    codes = rng.integers(0, 4, 200)
    outputs = 2.0 * rng.normal(size=(200, 4)) + 2.5 * np.eye(4)[codes]
    weights = rng.random(200)
    found = calibrate_all(codes, outputs, weights, range(4), None)
    slope, level = found[0]
    assert np.array_equal(found, np.tile([slope, level], (4, 1)))
    targets = np.full((200, 4), 1 / 204)
    targets[np.arange(200), codes] = 201 / 204

    def loss(a, b):
        p = probabilities_of(outputs, np.tile([a, b], (4, 1)))
        return -np.sum(weights[:, None] * targets * np.log(p))

    best = loss(slope, level)
    for a, b in ((0.01, 0.0), (-0.01, 0.0), (0.0, 0.01), (0.0, -0.01)):
        assert loss(slope + a, level + b) >= best - 1e-6
    p = probabilities_of(outputs, np.tile([slope, level], (4, 1)))
    assert np.array_equal(p.argmax(axis=1), outputs.argmax(axis=1))


def test_logarithms_tell_small_probabilities_apart():
    calibration = np.array([[1.0, 0.0]])
    logs = probabilities_of(np.array([-2000.0, -1000.0, 0.0]), calibration, log=True)
    np.testing.assert_allclose(logs[:, 1], [-2000.0, -1000.0, np.log(0.5)])
    far = probabilities_of(np.array([[-2000.0, -1000.0, -1001.0]]), np.tile([1.0, 0.0], (3, 1)))
    np.testing.assert_allclose(far, [[0.0, expit(1.0), expit(-1.0)]], atol=1e-12)
    assert logit(far[0, 1]) == pytest.approx(1.0)
