"""Kinds of values that options take, from a command line or from a TOML file."""

from typing import Any

import click


class Word(click.ParamType):
    """A word or a whole number, kept as text: `all`, `-1`, `spam`."""

    name = "text"
    #: what a TOML file may give
    toml: tuple[type, ...] = (str, int)

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return it as text."""
        return str(value)


class YesNo(click.Choice):
    """`auto`, `yes` or `no`: the last two are truth values, and may be so in a TOML file."""

    toml: tuple[type, ...] = (str, bool)

    def __init__(self) -> None:
        super().__init__(["auto", "yes", "no"])

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return True, False or "auto"."""
        if isinstance(value, bool):
            return value
        return {"yes": True, "no": False}.get(super().convert(value, param, ctx), "auto")


class Renamed(click.ParamType):
    """An option that is called something else now: whatever is given, the new name is told."""

    name = "renamed"
    toml: tuple[type, ...] = (str, int, float, bool, list)

    def __init__(self, now: str) -> None:
        self._now = now

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Refuse it."""
        self.fail(f"this option is called {self._now}", param, ctx)


class Numbers(click.ParamType):
    """Numbers with commas between them; a list in a TOML file. One alone stays a number."""

    name = "numbers"
    toml: tuple[type, ...] = (str, int, float, list)

    def __init__(self, whole: bool = False) -> None:
        self._read: Any = int if whole else float

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return a number, or a tuple of several."""
        if isinstance(value, str):
            value = value.split(",")
        elif not isinstance(value, list | tuple):
            value = [value]
        try:
            if any(isinstance(item, bool) for item in value):
                raise TypeError("a truth value")
            found = tuple(self._read(item) for item in value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a list of numbers", param, ctx)
        if not found:
            self.fail("there is no number", param, ctx)
        return found[0] if len(found) == 1 else found


class Place(click.ParamType):
    """A file, a folder, or the URL of one."""

    name = "path"
    toml: tuple[type, ...] = (str,)

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return it as it is."""
        if not str(value):
            self.fail("the path is empty", param, ctx)
        return str(value)


class LabelPlace(Place):
    """A file of labels, or `column:NAME`."""

    name = "path|column:name"


#: How a column of a table is named where a file could stand.
COLUMN = "column:"


def is_local(value: str) -> bool:
    """Whether a place is a path of this machine, rather than a URL or a column."""
    return "://" not in value and not value.startswith(COLUMN)
