"""Which rows are labelled, unlabelled and for testing."""

import numpy as np


def three_way(y, sizes, seed):
    """Random rows to be labelled, unlabelled and tested on; both classes twice among the first."""
    rng = np.random.default_rng(seed)
    if sum(sizes) > len(y):
        raise ValueError(f"sizes {sizes} need {sum(sizes)} rows, there are {len(y)}")
    need = min(2, sizes[0] // 2)
    while True:
        order = rng.permutation(len(y))
        parts = np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])
        if np.bincount(y[parts[0]], minlength=2).min() >= need:
            return parts


def draw(y, n_labels, seed):
    """Random rows to be labelled, some of each class."""
    rng = np.random.default_rng(seed)
    n_classes = len(np.unique(y))
    while True:
        chosen = rng.choice(len(y), n_labels, replace=False)
        if len(np.unique(y[chosen])) == n_classes:
            return chosen


def marked(y, labelled):
    """Labels of some rows, -1 for the others."""
    few = np.full(len(y), -1)
    few[labelled] = y[labelled]
    return few


def training(X, y, labelled, unlabelled):
    """Rows of a split to train on, and their marks."""
    rows = np.concatenate([labelled, unlabelled])
    return X[rows], np.concatenate([y[labelled], np.full(len(unlabelled), -1)])


def given(found, part):
    """Labels that were found, but those of labelled rows as they were given."""
    return np.where(part >= 0, part, found)
