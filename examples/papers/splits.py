"""Which rows are labeled, unlabeled and for testing."""

import numpy as np


def three_way(y, sizes, seed):
    """Random rows to be labeled, unlabeled and tested on; both classes twice among the first."""
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
    """Random rows to be labeled, some of each class."""
    rng = np.random.default_rng(seed)
    n_classes = len(np.unique(y))
    while True:
        chosen = rng.choice(len(y), n_labels, replace=False)
        if len(np.unique(y[chosen])) == n_classes:
            return chosen


def marked(y, labeled):
    """Labels of some rows, -1 for the others."""
    few = np.full(len(y), -1)
    few[labeled] = y[labeled]
    return few


def training(X, y, labeled, unlabeled):
    """Rows of a split to train on, and their marks."""
    rows = np.concatenate([labeled, unlabeled])
    return X[rows], np.concatenate([y[labeled], np.full(len(unlabeled), -1)])


def given(found, part):
    """Labels that were found, but those of labeled rows as they were given."""
    return np.where(part >= 0, part, found)
