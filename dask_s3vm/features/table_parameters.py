"""Parameters of `TableEncoder`, and their checks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from dask_s3vm.features.table_facts import SCALES

#: What can be made of missing values.
MISSING = ("error", "zero", "mean", "median")


class TableParameters(BaseEstimator):
    """Parameters that say what the columns of a table are; see `TableEncoder`."""

    def __init__(
        self,
        *,
        categorical: Any = "auto",
        numeric: Sequence[str] = (),
        text: Sequence[str] = (),
        scale: str = "unit",
        missing: str = "error",
        missing_indicator: bool = False,
        null_values: Sequence[str] = (),
        handle_unknown: str = "ignore",
        n_text_features: int = 2**14,
        max_categories: int = 10_000,
        dtype: Any = "float64",
        block: str = "gcxs",
    ) -> None:
        self.categorical = categorical
        self.numeric = numeric
        self.text = text
        self.scale = scale
        self.missing = missing
        self.missing_indicator = missing_indicator
        self.null_values = null_values
        self.handle_unknown = handle_unknown
        self.n_text_features = n_text_features
        self.max_categories = max_categories
        self.dtype = dtype
        self.block = block

    # Fitting ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise ValueError for invalid parameters."""
        for name, wanted in (
            ("scale", SCALES),
            ("missing", MISSING),
            ("handle_unknown", ("ignore", "error")),
            ("block", ("gcxs", "scipy")),
        ):
            if getattr(self, name) not in wanted:
                raise ValueError(f"{name} is {getattr(self, name)!r}, wanted one of {wanted}")
        if np.dtype(self.dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype is {self.dtype!r}, wanted float32 or float64")
        if isinstance(self.categorical, str) and self.categorical != "auto":
            raise ValueError(f"categorical is {self.categorical!r}, wanted 'auto' or a list")
        for name in ("numeric", "text", "null_values"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(word, str) for word in value):
                what = "words" if name == "null_values" else "columns"
                raise ValueError(f"{name} is {value!r}, wanted a list of {what}")
        for name in ("n_text_features", "max_categories"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value < 2**31:
                raise ValueError(f"{name} is {value!r}, wanted a whole number from 1 to 2**31 - 1")
        if self.missing_indicator and self.missing == "error":
            raise ValueError(
                "missing_indicator has no effect with missing='error', wanted 'zero', 'mean' or "
                "'median'"
            )
        named = (("categorical", self.named_categorical), ("numeric", self.numeric),
                 ("text", self.text))  # fmt: skip
        for i, (one, columns) in enumerate(named):
            for other, others in named[:i]:
                if both := set(columns) & set(others):
                    raise ValueError(f"columns {sorted(both)} are in both {other} and {one}")

    def check_named(self, names: Sequence[str]) -> None:
        """Raise ValueError if a parameter names a column that a table does not have."""
        if not names:
            raise ValueError("the table has no column, wanted at least one")
        for option in ("numeric", "named_categorical", "text"):
            if absent := [name for name in getattr(self, option) if name not in names]:
                word = option.removeprefix("named_")
                raise ValueError(f"{word} names {absent}, but the columns are {list(names)[:50]}")

    @property
    def named_categorical(self) -> tuple[str, ...]:
        """Columns that are categories whatever their values."""
        return () if isinstance(self.categorical, str) else tuple(map(str, self.categorical))

    def role_of(self, name: str) -> str:
        """Return what a column has to be by the parameters: a kind, or "auto"."""
        roles = dict.fromkeys(self.numeric, "number")
        roles |= dict.fromkeys(self.named_categorical, "category")
        roles |= dict.fromkeys(self.text, "text")
        return roles.get(name, "auto")
