"""What the generated data look like, generator by generator."""

from collections import Counter

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from dask_s3vm.datasets import make_g2c, make_g4c, make_intrusion, make_moons, make_text
from dask_s3vm.datasets._sampling import (
    alias_table,
    draw_item,
    normal_pair,
    permutation,
    row_keys,
    stream_seed,
    uniform_matrix,
    zipf_weights,
)
from dask_s3vm.numerics.random import row_key

SEED = stream_seed(0, "test")


def computed(made):
    return made[0].compute(), made[1].compute()


@pytest.fixture(scope="module")
def text():
    return computed(make_text(20_000, block="scipy"))


@pytest.fixture(scope="module")
def intrusion():
    return computed(make_intrusion(60_000, block="scipy"))


def test_uniform_draws_are_uniform_and_unrelated():
    draws = uniform_matrix(row_keys(SEED, 0, 20_000), 4)
    assert draws.min() >= 0
    assert draws.max() < 1
    shares = np.histogram(draws, bins=20, range=(0, 1))[0] / draws.size
    np.testing.assert_allclose(shares, 0.05, atol=0.004)
    next_row = np.hstack([draws[1:], draws[:-1]])
    np.testing.assert_allclose(np.corrcoef(next_row.T), np.eye(8), atol=0.035)


def test_normal_draws_are_normal():
    pairs = np.array([normal_pair(np.uint64(key), 0) for key in row_keys(SEED, 0, 20_000)])
    np.testing.assert_allclose(pairs.mean(axis=0), 0, atol=0.03)
    np.testing.assert_allclose(np.cov(pairs.T), np.eye(2), atol=0.04)
    np.testing.assert_allclose((np.abs(pairs) < 1).mean(), 0.6827, atol=0.01)


def test_keys_and_streams_are_distinct():
    assert len(np.unique(row_keys(SEED, 0, 100_000))) == 100_000
    assert row_keys(SEED, 40, 41)[0] == row_key(SEED, 40)
    seeds = {int(stream_seed(state, name)) for state in range(50) for name in "ab"}
    assert len(seeds) == 100


def test_permutation_holds_every_number_once():
    np.testing.assert_array_equal(np.sort(permutation(SEED, 1000)), np.arange(1000))


@pytest.mark.parametrize("size", [1, 2, 37])
def test_alias_table_draws_its_distribution(size):
    weights = zipf_weights(size, 1.0, 0.0)
    table = alias_table(weights)
    items = [draw_item(table, np.uint64(key), 0) for key in row_keys(SEED, 0, 20_000)]
    np.testing.assert_allclose(np.bincount(items, minlength=size) / 20_000, weights, atol=0.015)


def test_two_clusters():
    x, y = computed(make_g2c(20_000, 5))
    assert y.sum() == 10_000
    for label, mean in ((0, -2.5), (1, 2.5)):
        rows = x[y == label]
        np.testing.assert_allclose(rows.mean(axis=0), [mean, 0, 0, 0, 0], atol=0.05)
        np.testing.assert_allclose(np.cov(rows.T), np.eye(5), atol=0.06)


def test_four_clusters():
    x, y = computed(make_g4c(20_000, 4))
    assert y.sum() == 10_000
    for label, first in ((0, -2.5), (1, 2.5)):
        for second in (-5, 5):
            rows = x[(y == label) & (x[:, 1] * second > 0)]
            assert len(rows) == 5000
            np.testing.assert_allclose(rows.mean(axis=0), [first, second, 0, 0], atol=0.07)


@pytest.mark.parametrize("make", [make_g2c, make_g4c])
def test_default_clusters_are_those_of_the_paper(make):
    x, y = make()
    assert x.shape == (500, 500)
    assert y.compute().sum() == 250


@pytest.mark.parametrize("n_rows", [1, 2, 3, 6, 7])
def test_clusters_of_odd_sizes_are_balanced(n_rows):
    for made in (make_g2c(n_rows, 2), make_g4c(n_rows, 2), make_moons(n_rows)):
        assert abs(2 * int(made[1].compute().sum()) - n_rows) <= 1


def test_clusters_come_in_no_fixed_order():
    y = make_g2c(1000, 1)[1].compute()
    assert 200 < (y[::2] == 0).sum() < 300


def test_few_features():
    assert make_g2c(10, 1)[0].compute().shape == (10, 1)
    assert make_g4c(10, 2)[0].compute().shape == (10, 2)
    with pytest.raises(ValueError, match="n_features must be at least 2 for four clusters, got 1"):
        make_g4c(10, 1)
    with pytest.raises(ValueError, match="n_features must be a positive integer, got 0"):
        make_g2c(10, 0)


def test_moons_without_noise_are_half_circles():
    x, y = computed(make_moons(2000, noise=0))
    centers = np.where(y[:, None] == 0, [0.0, 0.0], [1.0, 0.5])
    offsets = x - centers
    np.testing.assert_allclose(np.linalg.norm(offsets, axis=1), 1)
    assert np.all(np.where(y == 0, offsets[:, 1], -offsets[:, 1]) >= 0)


def test_noise_of_moons():
    clean, noisy = (make_moons(5000, noise=noise)[0].compute() for noise in (0, 0.2))
    np.testing.assert_allclose((noisy - clean).std(axis=0), 0.2, atol=0.01)
    with pytest.raises(ValueError, match=r"noise must be a non-negative number, got -0\.1"):
        make_moons(noise=-0.1)


def test_text_shape(text):
    x, y = text
    assert x.shape == (20_000, 47_236)
    assert abs(y.mean() - 0.47) < 0.012
    lengths = np.diff(x.indptr)
    assert abs(lengths.mean() / 76 - 1) < 0.02
    assert lengths.min() >= 1
    assert 0.5 < lengths.std() / lengths.mean() < 0.8


def test_text_rows_have_unit_length(text):
    x, _ = text
    np.testing.assert_allclose(np.add.reduceat(x.data**2, x.indptr[:-1]), 1, rtol=1e-12)


def test_text_columns_are_skewed_and_scrambled(text):
    x, _ = text
    held = np.bincount(x.indices, minlength=x.shape[1])
    ordered = np.sort(held)[::-1]
    assert ordered[:472].sum() > 0.25 * x.nnz
    assert 5 < ordered[0] / ordered[500] < 50
    assert ordered[500] > 10 * ordered[20_000]
    assert (held > 0).mean() > 0.9
    assert abs(np.corrcoef(np.arange(len(held)), held)[0, 1]) < 0.03


def test_text_values_favor_rare_and_repeated_words(text):
    x, _ = text
    held = np.bincount(x.indices, minlength=x.shape[1])[x.indices]
    assert x.data[held > 2000].mean() < 0.6 * x.data[held < 20].mean()


def test_text_is_hard_with_few_labels_and_easy_with_many(text):
    x, y = text
    few = LinearSVC(C=10).fit(x[:200], y[:200]).score(x[-4000:], y[-4000:])
    many = LinearSVC(C=1).fit(x[:-4000], y[:-4000]).score(x[-4000:], y[-4000:])
    assert 0.03 <= 1 - many <= 0.06
    assert 0.09 <= 1 - few <= 0.30


def test_text_without_noise_is_nearly_separable():
    x, y = computed(make_text(6000, 5000, 76, n_topics=10, noise=0, block="scipy"))
    assert LinearSVC().fit(x[:5000], y[:5000]).score(x[5000:], y[5000:]) > 0.96


@pytest.mark.parametrize("ratio", [0.1, 0.9])
def test_text_class_share(ratio):
    y = make_text(50_000, 100, 5, positive_ratio=ratio, n_topics=2)[1].compute()
    assert abs(y.mean() - ratio) < 0.01


@pytest.mark.parametrize(
    ("n_features", "nonzeros", "mean"),
    [(1, 1, 1), (2, 76, 1), (3, 1, 1), (7, 2, 2), (40, 19.5, 19.5), (300, 76, 76), (50, 1e6, 25)],
)
def test_text_of_odd_shapes(n_features, nonzeros, mean):
    x = make_text(4000, n_features, nonzeros, block="scipy")[0].compute()
    lengths = np.diff(x.indptr)
    assert lengths.min() >= 1
    assert lengths.max() <= max(1, n_features // 2)
    assert abs(lengths.mean() / mean - 1) < 0.03


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"nonzeros": 0.5}, r"nonzeros must be a number of at least 1, got 0\.5"),
        ({"nonzeros": float("nan")}, "nonzeros must be a number of at least 1, got nan"),
        ({"n_features": 0}, "n_features must be a positive integer, got 0"),
        ({"n_features": 2**31}, "n_features must be at most 2147483647, got 2147483648"),
        ({"n_topics": 1}, "n_topics must be at least 2, got 1"),
        ({"positive_ratio": 1.0}, r"positive_ratio must be a number above 0 and below 1, got 1\.0"),
        ({"positive_ratio": 0}, "positive_ratio must be a number above 0 and below 1, got 0"),
        ({"noise": 0.6}, r"noise must be a number from 0 to 0\.5, got 0\.6"),
    ],
)
def test_wrong_text_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make_text(**kwargs)


def test_wrong_text_types():
    with pytest.raises(TypeError, match=r"noise must be a number from 0 to 0\.5, got 'much'"):
        make_text(noise="much")


def test_intrusion_shape(intrusion):
    x, y = intrusion
    assert x.shape == (60_000, 127)
    assert abs(x.nnz / len(y) / 17 - 1) < 0.05
    assert abs(y.mean() - 0.8) < 0.01
    assert x.data.min() > 0
    assert x.data.max() <= 1


def test_intrusion_categories(intrusion):
    full = intrusion[0][:10_000].toarray()
    for low, high in ((38, 41), (41, 116), (116, 127)):
        indicators = full[:, low:high]
        assert set(np.unique(indicators)) == {0.0, 1.0}
        assert np.all(indicators.sum(axis=1) == 1)
    assert (full[:, :38] == 0).mean() > 0.5


def test_intrusion_rows_repeat(intrusion):
    x, _ = intrusion
    bounds = zip(x.indptr[:-1], x.indptr[1:], strict=True)
    times = Counter(x.indices[a:b].tobytes() + x.data[a:b].tobytes() for a, b in bounds)
    assert len(times) < 0.5 * x.shape[0]
    assert max(times.values()) > 0.1 * x.shape[0]


def test_intrusion_is_nearly_separable(intrusion):
    x, y = intrusion
    model = LinearSVC(C=10, dual=False)
    few = 1 - model.fit(x[:1000], y[:1000]).score(x[30_000:], y[30_000:])
    many = 1 - model.fit(x[:30_000], y[:30_000]).score(x[30_000:], y[30_000:])
    assert 0.0005 < many < 0.005
    assert many < few < 0.03
