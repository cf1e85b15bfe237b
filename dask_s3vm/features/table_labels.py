"""Label columns of tables: words as classes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["LabelCode", "label_code"]


@dataclass(frozen=True)
class LabelCode:
    """The classes of the words of a label column.

    Attributes
    ----------
    name : str
        The column.
    words : tuple of str
        All known labels.
    positive : tuple of str or None
        Labels of class 1, all others being class 0; None: each label is a class.
    """

    name: str
    words: tuple[str, ...]
    positive: tuple[str, ...] | None = None

    def classes(self) -> np.ndarray:
        """Return the class of each of `words`.

        0 and 1 with `positive`; else integers if all words are, else floats, else the words.
        """
        if self.positive is not None:
            return np.isin(np.array(self.words), self.positive).astype(np.int64)
        for kind in (int, float):
            try:
                return np.array([kind(word) for word in self.words])
            except (ValueError, OverflowError):
                continue
        return np.array(self.words, dtype=np.str_)

    def mark(self, unlabeled: Any, gaps: bool) -> Any:
        """Return the mark of rows without label.

        Parameters
        ----------
        unlabeled : object
            The mark that is wanted, or "auto": "" beside words, -1 beside integers, and NaN beside
            other numbers, or where there are such rows and -1 is a label.
        gaps : bool
            Whether there are rows without label.
        """
        classes = self.classes()
        if isinstance(unlabeled, str) and unlabeled == "auto":
            if classes.dtype.kind == "U":
                return ""
            return -1 if classes.dtype.kind == "i" and not (gaps and -1 in classes) else np.nan
        return str(unlabeled) if classes.dtype.kind == "U" else unlabeled

    def decode(self, codes: np.ndarray, mark: Any) -> np.ndarray:
        """Return the classes of codes; `mark` for codes below 0."""
        classes = self.classes()
        # one array of classes and mark, so that all blocks have the same dtype
        held = np.append(classes, np.array([mark]))
        return held[np.where(codes < 0, len(classes), codes)]

    def dtype(self, mark: Any) -> np.dtype:
        """Return the dtype of the labels."""
        return self.decode(np.empty(0, dtype=np.int32), mark).dtype


def label_code(name: str, words: tuple[str, ...], positive: tuple[str, ...] | None) -> LabelCode:
    """Return a `LabelCode`; raise ValueError for positive labels that do not occur."""
    if positive is not None:
        absent = [word for word in positive if word not in words]
        if absent:
            known = ", ".join(repr(word) for word in words[:10])
            raise ValueError(f"positive names {absent}, but the labels of {name!r} are {known}")
        if len(positive) == len(words):
            raise ValueError(f"positive names all labels of {name!r}: {list(words)[:10]}")
    return LabelCode(name, words, positive)
