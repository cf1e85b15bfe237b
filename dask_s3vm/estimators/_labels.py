"""Labels of the user's kind: which are classes, which mark a row without a label."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dask_s3vm.methods.base import ClassTotals


def find_classes(values: np.ndarray | None, unlabeled: Any, supervised: bool = False) -> np.ndarray:
    """Return the classes among the distinct values of y, without the mark of unlabeled rows.

    With `supervised`, y of exactly {-1, +1} are two classes although -1 is the default mark:
    read otherwise, they could never be trained on.
    """
    assert values is not None, "y was checked to be there"
    mark = _mark_like(values, unlabeled)
    classes = values if mark is None else values[values != mark]
    if len(classes) == 0:
        raise ValueError(
            f"y has no labeled row: every entry is {unlabeled!r}, the mark of rows without a label"
        )
    if len(classes) >= 2:
        return classes
    if set(values.tolist()) == {-1, 1} and len(values) == 2:
        if supervised:
            return values
        raise ValueError(
            "y has the values -1 and +1, and -1 is the mark of unlabeled rows, which leaves one "
            "class; use the classes 0 and 1, or another mark, for example unlabeled=0"
        )
    raise ValueError(f"y has only one class, {classes[0]!r}; wanted at least two classes")


def class_costs(
    classes: np.ndarray, totals: ClassTotals, class_weight: Mapping[Any, float] | str | None
) -> np.ndarray:
    """Cost of a row by its class: class weight over the total sample weight of labeled rows."""
    total = float(totals.weights.sum())
    if not total > 0:
        raise ValueError("sample_weight is zero on every labeled row; wanted some weight")
    empty = [label for label, weight in zip(classes, totals.weights, strict=True) if not weight > 0]
    if len(classes) - len(empty) < 2:
        raise ValueError(
            "sample_weight leaves fewer than two classes: it is zero on every row of class "
            f"{', '.join(repr(label) for label in empty)}"
        )
    costs = _class_weights(classes, totals, class_weight) / total
    if not costs.any():
        raise ValueError(f"class_weight is zero for every class, got {class_weight!r}")
    return costs


def _class_weights(
    classes: np.ndarray, totals: ClassTotals, class_weight: Mapping[Any, float] | str | None
) -> np.ndarray:
    weights = np.ones(len(classes))
    if class_weight is None:
        return weights
    if class_weight == "balanced":
        present = totals.weights > 0
        weights[present] = totals.weights.sum() / (present.sum() * totals.weights[present])
        return weights
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}")
    known = classes.tolist()
    for label, weight in class_weight.items():
        if label not in known:
            raise ValueError(
                f"class_weight names {label!r}, which is not among the classes {known}"
            )
        if not (np.isfinite(weight) and weight >= 0):
            raise ValueError(f"class_weight[{label!r}] must be finite and >= 0, got {weight!r}")
        weights[known.index(label)] = weight
    return weights


def _mark_like(values: np.ndarray, unlabeled: Any) -> Any:
    """Bring the mark to the type of y; None if it cannot occur there."""
    if unlabeled is None:
        return None
    if values.dtype.kind in "US":
        return np.array(str(unlabeled)).astype(values.dtype.kind)
    return unlabeled if isinstance(unlabeled, (int, float, np.number)) else None
