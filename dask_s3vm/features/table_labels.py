"""Labels of a table: words in a file, classes for an estimator."""

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["LabelCode", "label_code"]


@dataclass(frozen=True)
class LabelCode:
    """How the words of a label column become classes.

    Attributes
    ----------
    name : str
        The column.
    words : tuple of str
        All labels that are known.
    positive : tuple of str or None
        Labels of class 1, the others being class 0; None: each label is a class.
    """

    name: str
    words: tuple[str, ...]
    positive: tuple[str, ...] | None = None

    def classes(self) -> np.ndarray:
        """Return the class of each of `words`.

        0 and 1 with `positive`; else whole numbers if all words are, else numbers, else the words.
        """
        if self.positive is not None:
            return np.isin(np.array(self.words), self.positive).astype(np.int64)
        for kind in (int, float):
            try:
                return np.array([kind(word) for word in self.words])
            except (ValueError, OverflowError):
                continue
        return np.array(self.words, dtype=np.str_)

    def decode(self, codes: np.ndarray, unlabeled: Any) -> np.ndarray:
        """Return the classes of codes; `unlabeled` for codes below 0."""
        classes = self.classes()
        mark = str(unlabeled) if classes.dtype.kind == "U" else unlabeled
        # one array of classes and mark: so the type is the same in every block
        held = np.append(classes, np.array([mark]))
        return held[np.where(codes < 0, len(classes), codes)]

    def dtype(self, unlabeled: Any) -> np.dtype:
        """Type of the labels."""
        return self.decode(np.empty(0, dtype=np.int32), unlabeled).dtype


def label_code(name: str, words: tuple[str, ...], positive: tuple[str, ...] | None) -> LabelCode:
    """Make a `LabelCode`; refuse a positive label that does not occur."""
    if positive is not None:
        absent = [word for word in positive if word not in words]
        if absent:
            known = ", ".join(repr(word) for word in words[:10])
            raise ValueError(f"positive names {absent}, but the labels of {name!r} are {known}")
        if len(positive) == len(words):
            raise ValueError(f"positive names all labels of {name!r}: {list(words)[:10]}")
    return LabelCode(name, words, positive)
