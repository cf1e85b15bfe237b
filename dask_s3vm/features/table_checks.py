"""Columns of a table that are likely not what an encoder takes them for."""

import math
from collections.abc import Callable

from dask_s3vm.exceptions import warn
from dask_s3vm.features.table_columns import is_number
from dask_s3vm.features.table_facts import (
    ENOUGH_WORDS,
    Facts,
    Moments,
    is_date,
    refuse_mixed,
)

#: With fewer values in a column, one cannot tell that they do not repeat.
MANY_VALUES = 200


def check_words(name: str, found: Facts) -> None:
    """Refuse categories that are mostly numbers or dates; warn of ids and of these as words."""
    words = found.words or ()
    refuse_mixed(name, words)
    for is_one, kind, how in _AS_WORDS:
        if len(words) >= ENOUGH_WORDS and all(map(is_one, words)):
            warn(
                f"column {name!r} holds {kind} as words, such as {min(words)!r}, each a category: "
                f"make {kind} of them, as pandas.{how} does, or name it in categorical= if it is "
                "meant",
                UserWarning,
            )
            return
    if found.n_words >= MANY_VALUES and len(words) > found.n_words / 2:
        warn(
            f"column {name!r} has {len(words)} categories in {found.n_words} rows, such as "
            f"{min(words)!r}: little can be learned from categories that do not repeat; drop "
            "it, or name it in text= if it is text, in categorical= if it is meant",
            UserWarning,
        )


def check_numbers(name: str, numbers: Moments) -> None:
    """Warn of the numbers of rows, in whatever order: n whole numbers of that range and spread."""
    n, low = numbers.count, numbers.low
    if n < MANY_VALUES or numbers.high - low != n - 1 or low != math.floor(low):
        return
    if math.isclose(numbers.squares, n * (n * n - 1) / 12, rel_tol=1e-9):
        warn(
            f"column {name!r} numbers the rows, from {low:.0f} to {numbers.high:.0f}: "
            "nothing can be learned from that; drop it, or name it in numeric= if it is meant",
            UserWarning,
        )


def _is_written_number(word: str) -> bool:
    """Whether a word is a number, and not a code such as 01234."""
    digits = word.lstrip("+-")
    return is_number(word) and not (digits[:1] == "0" and digits[1:2].isdigit())


def _is_written_date(word: str) -> bool:
    return not is_number(word) and is_date(word)


#: What words may be instead, and what of pandas makes it of them.
_AS_WORDS: tuple[tuple[Callable[[str], bool], str, str], ...] = (
    (_is_written_number, "numbers", "to_numeric"),
    (_is_written_date, "dates", "to_datetime"),
)
