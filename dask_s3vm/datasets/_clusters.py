"""Dense clusters in the plane and in many dimensions."""

import math
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from dask_s3vm.datasets._sampling import (
    check_count,
    check_real,
    check_seed,
    dask_rows,
    normal_pair,
    row_chunks,
    stream_seed,
)
from dask_s3vm.numerics.compiler import kernel
from dask_s3vm.numerics.random import row_key, uniform

#: Distance of the cluster means from the origin along the first and the second feature.
_FIRST = 2.5
_SECOND = 5.0
#: First draw of the normals; draw 0 is for the order of the clusters and the angle of the moons.
_FIRST_NORMAL = 2


class _Gaussians(NamedTuple):
    seed: np.uint64
    n_clusters: int
    n_features: int


class _Moons(NamedTuple):
    seed: np.uint64
    noise: float


def make_g2c(
    n_rows: int = 500, n_features: int = 500, *, chunks: int | str = "auto", random_state: int = 0
) -> tuple[da.Array, da.Array]:
    """Make two Gaussian clusters, one for each class.

    The clusters are N(m, I) with means (-2.5, 0, ...) for class 0 and (+2.5, 0, ...) for
    class 1, with half of the rows each.

    Parameters
    ----------
    n_rows : int, default 500
        Number of rows.
    n_features : int, default 500
        Number of features, at least 1.
    chunks : int or "auto", default "auto"
        Rows per chunk; "auto" makes chunks of at most 16 MiB.
    random_state : int, default 0
        Seed. Row i depends on it, on `n_features` and on i only.

    Returns
    -------
    X : dask.array.Array
        Rows, shape (`n_rows`, `n_features`), float64.
    y : dask.array.Array
        Classes 0 and 1, shape (`n_rows`,), int8.
    """
    return _gaussians("g2c", 2, n_rows, check_count("n_features", n_features), chunks, random_state)


def make_g4c(
    n_rows: int = 500, n_features: int = 500, *, chunks: int | str = "auto", random_state: int = 0
) -> tuple[da.Array, da.Array]:
    """Make four Gaussian clusters, two for each class.

    The clusters are N(m, I) with means (-2.5, ±5, 0, ...) for class 0 and (+2.5, ±5, 0, ...)
    for class 1, with a quarter of the rows each: the widest gap does not separate the classes.

    Parameters
    ----------
    n_rows : int, default 500
        Number of rows.
    n_features : int, default 500
        Number of features, at least 2.
    chunks : int or "auto", default "auto"
        Rows per chunk; "auto" makes chunks of at most 16 MiB.
    random_state : int, default 0
        Seed. Row i depends on it, on `n_features` and on i only.

    Returns
    -------
    X : dask.array.Array
        Rows, shape (`n_rows`, `n_features`), float64.
    y : dask.array.Array
        Classes 0 and 1, shape (`n_rows`,), int8.
    """
    if check_count("n_features", n_features) < 2:
        raise ValueError(f"n_features must be at least 2 for four clusters, got {n_features!r}")
    return _gaussians("g4c", 4, n_rows, int(n_features), chunks, random_state)


def make_moons(
    n_rows: int = 1000,
    *,
    noise: float = 0.1,
    chunks: int | str = "auto",
    random_state: int = 0,
) -> tuple[da.Array, da.Array]:
    """Make two interleaved half circles, one for each class.

    Parameters
    ----------
    n_rows : int, default 1000
        Number of rows, half of them of each class.
    noise : float, default 0.1
        Standard deviation of the Gaussian noise added to both features.
    chunks : int or "auto", default "auto"
        Rows per chunk; "auto" makes chunks of at most 16 MiB.
    random_state : int, default 0
        Seed. Row i depends on it, on `noise` and on i only.

    Returns
    -------
    X : dask.array.Array
        Rows, shape (`n_rows`, 2), float64.
    y : dask.array.Array
        Classes 0 (the upper half circle) and 1, shape (`n_rows`,), int8.
    """
    noise = check_real("noise", noise, 0.0, math.inf, "a non-negative number")
    model = _Moons(stream_seed(check_seed(random_state), "moons"), noise)
    rows = row_chunks(check_count("n_rows", n_rows), chunks, 2 * 8)
    return dask_rows(model, _moon_rows, _moon_classes, rows, np.empty((0, 0)), 2)


def _gaussians(
    name: str, n_clusters: int, n_rows: int, n_features: int, chunks: Any, random_state: int
) -> tuple[da.Array, da.Array]:
    seed = stream_seed(check_seed(random_state), name)
    model = _Gaussians(seed, n_clusters, n_features)
    rows = row_chunks(check_count("n_rows", n_rows), chunks, 8 * n_features)
    return dask_rows(model, _gaussian_rows, _gaussian_classes, rows, np.empty((0, 0)), n_features)


def _gaussian_rows(model: _Gaussians, start: int, stop: int) -> np.ndarray:
    block = np.empty((stop - start, model.n_features))
    _fill_gaussians(model.seed, model.n_clusters, start, block)
    return block


def _gaussian_classes(model: _Gaussians, start: int, stop: int) -> np.ndarray:
    return _classes(model.seed, model.n_clusters, start, stop)


def _moon_rows(model: _Moons, start: int, stop: int) -> np.ndarray:
    block = np.empty((stop - start, 2))
    _fill_moons(model.seed, model.noise, start, block)
    return block


def _moon_classes(model: _Moons, start: int, stop: int) -> np.ndarray:
    return _classes(model.seed, 2, start, stop)


@kernel
def _cluster(seed: np.uint64, n_clusters: int, row: int) -> int:
    """Return the cluster of a row: each group of n rows has one row of each of the n clusters.

    `n_clusters` is a power of two, so that exclusive or with a random number is one to one. Bit 0
    of the cluster is the class, so that pairs of rows are balanced, too.
    """
    group = row // n_clusters
    # Negative numbers wrap around, so that these keys are not those of rows.
    turn = int(uniform(row_key(seed, -1 - group), 0) * n_clusters)
    return (row % n_clusters) ^ turn


@kernel
def _classes(seed: np.uint64, n_clusters: int, start: int, stop: int) -> np.ndarray:
    classes = np.empty(stop - start, np.int8)
    for i in range(stop - start):
        classes[i] = _cluster(seed, n_clusters, start + i) & 1
    return classes


@kernel
def _fill_gaussians(seed: np.uint64, n_clusters: int, start: int, block: np.ndarray) -> None:
    n_rows, n_features = block.shape
    for i in range(n_rows):
        key = row_key(seed, start + i)
        for j in range(0, n_features, 2):
            first, second = normal_pair(key, _FIRST_NORMAL + j)
            block[i, j] = first
            if j + 1 < n_features:
                block[i, j + 1] = second
        cluster = _cluster(seed, n_clusters, start + i)
        block[i, 0] += _FIRST if cluster & 1 else -_FIRST
        if n_clusters == 4:
            block[i, 1] += _SECOND if cluster & 2 else -_SECOND


@kernel
def _fill_moons(seed: np.uint64, noise: float, start: int, block: np.ndarray) -> None:
    for i in range(len(block)):
        key = row_key(seed, start + i)
        angle = math.pi * uniform(key, 0)
        first, second = normal_pair(key, _FIRST_NORMAL)
        if _cluster(seed, 2, start + i) == 0:
            block[i, 0] = math.cos(angle) + noise * first
            block[i, 1] = math.sin(angle) + noise * second
        else:
            block[i, 0] = 1.0 - math.cos(angle) + noise * first
            block[i, 1] = 0.5 - math.sin(angle) + noise * second
