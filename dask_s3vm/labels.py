"""Labels as people have them, and which values of y mark rows without one.

This is the one place that knows. ``unlabeled="auto"`` is the missing value of the type of y: -1
among whole numbers, NaN among numbers that have it, "" (None, NA, NaN) among strings.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: The mark that depends on the type of y.
AUTO = "auto"

#: Integers below this one are themselves as floating-point numbers; beyond, two may be the same.
_EXACT = 1 << 53

#: Words that people write for a label that is missing.
_MISSING = {"na", "n/a", "nan", "none", "null", "missing", "unknown", "unlabeled", "?", "-"}

#: What y may hold, in words.
_WANTED = "wanted class labels, integers or strings, and the value `unlabeled` for rows without one"


def as_labels(labels: Any) -> np.ndarray:
    """Check labels: one-dimensional, whole numbers or strings.

    Objects become one or the other. Missing ones are NaN among numbers and "" among strings.
    """
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"y must be 1-dimensional, got shape {labels.shape}")
    if labels.dtype.kind in "OT":
        labels = _of_objects(labels.astype(object))
    if labels.dtype.kind not in "biufUS":
        raise TypeError(f"y has dtype {labels.dtype}; wanted class labels, integers or strings")
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise ValueError(f"Input y contains infinity; {_WANTED}")
        fractions = labels != np.floor(labels)
        fractions &= labels == labels
        if fractions.any():
            raise ValueError(
                f"Unknown label type: y has values such as {labels[fractions][0]}; {_WANTED}"
            )
        large = np.abs(labels) >= _EXACT
        if large.any():
            raise ValueError(
                f"y has floating-point numbers as large as {labels[large][0]:.17g}, of which two "
                "labels may have become one (integers beside missing ones become such numbers); "
                f"{_WANTED}"
            )
    return labels


def is_missing(label: Any) -> bool:
    """Whether a label is None, NaN or pandas' NA."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, (float, np.floating)) and bool(np.isnan(label))


def _of_objects(labels: np.ndarray) -> np.ndarray:
    """Convert objects to numbers if all are numbers, else to strings.

    Among strings, integers are allowed too: the value `unlabeled` may be one.
    """
    kinds = {type(label) for label in labels}
    if all(issubclass(kind, str) for kind in kinds) and kinds:
        return labels.astype(str)
    whole = (int, np.integer, np.bool_)
    if all(issubclass(kind, whole) for kind in kinds):
        try:
            return labels.astype(np.int64)
        except OverflowError:
            raise ValueError(
                f"y has {max(labels, key=abs)}, which is too large; {_WANTED}"
            ) from None
    missing = np.fromiter((is_missing(label) for label in labels), bool, len(labels))
    known = labels[~missing]
    if all(isinstance(label, (float, np.floating, *whole)) for label in known):
        return np.where(missing, np.nan, labels).astype(np.float64)
    for label in known:
        if not isinstance(label, (str, *whole)):
            raise ValueError(
                f"y has {label!r} of type {type(label).__name__} among its labels; {_WANTED}"
            )
    words = known.astype(str)
    if len(set(known.tolist())) > len(set(words.tolist())):
        raise ValueError(f"y has numbers beside strings of the same digits; {_WANTED}")
    return np.where(missing, "", labels).astype(str)


def of_kind(labels: np.ndarray, kind: str) -> np.ndarray:
    """Labels of a block as those of all blocks are: a block may hold marks alone, as numbers."""
    if kind not in "US" or labels.dtype.kind in "US":
        return labels
    if labels.dtype.kind != "f":
        return labels.astype(kind)
    words = np.array(["" if label != label else f"{label:.0f}" for label in labels.tolist()])
    return words.astype(kind)


class Tally(NamedTuple):
    """The distinct values of y, sorted, and how often each occurs."""

    values: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, labels: np.ndarray) -> "Tally":
        """Count labels."""
        return cls(*np.unique(labels, return_counts=True))

    @classmethod
    def joined(cls, parts: "Sequence[Tally]") -> "Tally":
        """Add up the counts of several blocks."""
        words = [part.values.dtype.kind for part in parts if part.values.dtype.kind in "US"]
        kind = words[0] if words else "f"
        found = np.concatenate([of_kind(part.values, kind) for part in parts])
        values, places = np.unique(found, return_inverse=True)
        weights = np.concatenate([part.counts for part in parts])
        return cls(values, np.bincount(places, weights, len(values)).astype(np.int64))


# Marks -------------------------------------------------------------------------------------------


def find_classes(tally: Tally | None, unlabeled: Any, supervised: bool = False) -> np.ndarray:
    """Return the classes among the values of y, without the marks of unlabeled rows.

    Numbers beside NaN, and so nullable integers and booleans, are classes of integers.

    With `supervised`, y of exactly {-1, +1} are two classes although -1 is the usual mark: read
    otherwise, they could never be trained on. With ``unlabeled="auto"``, {-1, 0, +1} is refused
    unless it is plain which of two readings is meant: see `_refuse_two_readings`.
    """
    assert tally is not None, "y was checked to be there"
    values = tally.values
    if _is_auto(unlabeled):
        _refuse_two_readings(tally)
    classes = values[~_is_mark(values, unlabeled)]
    if _has_nan(values) and not _has_nan(classes):  # whole numbers that are floats for NaN alone
        classes = classes.astype(np.int64)
    if len(classes) == 0:
        raise ValueError(f"y has no labeled row: every entry is {_named(values, unlabeled)}")
    if (values.dtype.kind in "US" and "" in classes.astype(str)) or _has_nan(classes):
        raise ValueError(
            f"y has missing labels, and unlabeled={unlabeled!r} does not stand for them; pass "
            'unlabeled="auto", which does'
        )
    if len(classes) >= 2:
        return classes
    if len(values) == 2 and set(values.tolist()) == {-1, 1}:
        if supervised:
            return values
        raise ValueError(
            "y has only one class, 1: its other value, -1, is the mark of rows without a label; "
            "wanted at least two classes. If -1 is a class, use the classes 0 and 1, or another "
            "mark, for example unlabeled=0"
        )
    raise ValueError(f"y has only one class, {classes.tolist()[0]!r}; wanted at least two classes")


def _refuse_two_readings(tally: Tally) -> None:
    """Refuse y whose values may mark rows without a label, but are no mark of its type.

    Unlabeled rows are usually most of all. If most are the largest unsigned number, it is likely
    what became of -1, and a word such as "NA" is what others write for nothing. Blanks are nothing,
    however few. 0 marks unlabeled rows for SVMlin, -1 for scikit-learn and here: so where y is -1,
    0 and +1, and 0 is more frequent than -1.
    """
    values, counts = tally
    if not len(values):
        return
    most, kind = values[counts.argmax()].item(), values.dtype.kind
    blank = [word for word in values.tolist() if word and not word.strip()] if kind in "US" else []
    if blank:
        raise ValueError(
            f"y has the label {blank[0]!r}, blanks alone: if it marks rows without a label, pass "
            f"unlabeled={blank[0]!r}, or make it empty; if it is a class, pass unlabeled=None"
        )
    if (kind in "US" and str(most).casefold() in _MISSING) or (
        kind == "u" and most == np.iinfo(values.dtype).max
    ):
        often = "which often means that there is none"
        if kind == "u":
            often = f"which -1 becomes in the type {values.dtype}"
        raise ValueError(
            f"the most frequent label of y is {most!r}, {often}: if it marks rows without a label, "
            f"pass unlabeled={most!r}; if it is a class, pass unlabeled=None"
        )
    if kind in "iuf" and values.tolist() == [-1, 0, 1] and counts[0] < counts[1]:
        raise ValueError(
            f"y has the values -1, 0 and +1 ({counts[0]}, {counts[1]} and {counts[2]} times), "
            "which can be read in two ways: if 0 marks rows without a label, and the classes are "
            "-1 and +1, pass unlabeled=0; if -1 marks them, and the classes are 0 and 1, pass "
            "unlabeled=-1 (if all three are classes, unlabeled=None)"
        )


def is_unlabeled(
    labels: np.ndarray, unlabeled: Any, classes: np.ndarray | None = None
) -> np.ndarray:
    """Which entries of y mark rows without a label; `classes`, where known, are no marks."""
    if classes is None and _is_auto(unlabeled):
        _refuse_two_readings(Tally.of(labels))
    marked = _is_mark(labels, unlabeled)
    if classes is not None:
        marked &= ~np.isin(labels, of_kind(classes, labels.dtype.kind))
    return marked


def mark_for(dtype: np.dtype, unlabeled: Any = AUTO) -> Any:
    """The value that marks rows without a label in a y of this type."""
    if not _is_auto(unlabeled):
        return unlabeled
    return {"f": np.nan, "U": "", "S": b"", "O": None, "T": ""}.get(dtype.kind, -1)


def _is_auto(unlabeled: Any) -> bool:
    return isinstance(unlabeled, str) and unlabeled == AUTO


def _has_nan(values: np.ndarray) -> bool:
    return values.dtype.kind == "f" and bool(np.isnan(values).any())


def _is_mark(values: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Which values are marks."""
    kind, none = values.dtype.kind, np.zeros(len(values), dtype=bool)
    if unlabeled is None:
        return none
    if kind in "US":
        words = values.astype(str)
        if _is_auto(unlabeled):
            return (words == "") | _minus_ones(words)
        return np.asarray(words == ("" if is_missing(unlabeled) else str(unlabeled)))
    if _is_auto(unlabeled):
        unlabeled = np.nan if _has_nan(values) else -1
        if kind == "b":
            return none
    if is_missing(unlabeled):
        return np.isnan(values) if kind == "f" else none
    if not isinstance(unlabeled, (int, float, np.number)):
        return none
    return np.asarray(values == unlabeled)


def _minus_ones(words: np.ndarray) -> np.ndarray:
    """Which strings are "-1": a mark among words, but unclear among numbers written out."""
    found = np.asarray(words == "-1")
    if found.any():
        others = np.unique(words[~found & (words != "")])
        if len(others) and all(other.lstrip("+-").isdigit() for other in others.tolist()):
            raise ValueError(
                'y has the strings "-1" and other numbers written as strings; pass '
                'unlabeled="-1" if that marks rows without a label, or unlabeled="" if it is a '
                "class"
            )
    return found


def _named(values: np.ndarray, unlabeled: Any) -> str:
    mark = values[0].item() if _is_auto(unlabeled) and len(values) else unlabeled
    return f"{mark!r}, the mark of rows without a label"
