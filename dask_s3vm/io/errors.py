"""Errors about files; they name the file, and cross process borders unharmed."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["DataFileError", "ModelFileError", "SvmlightError", "TableError", "told"]

_SHOWN = 80


class _FileError(ValueError):
    """Something is wrong with a file.

    Parameters
    ----------
    path : str
        The file.
    reason : str
        What is wrong with it.
    place : int or str, optional
        Where in the file: the number of a line, counted from 1, or a row, a record batch.
    text : bytes, optional
        The line itself, of which only the start is shown.
    """

    #: What a line has to look like.
    wanted = ""

    def __init__(
        self, path: str, reason: str, place: int | str | None = None, text: bytes | None = None
    ) -> None:
        # All arguments go to the base class: unpickling calls the class with `args`.
        super().__init__(path, reason, place, text)
        self.path = path
        self.reason = reason
        self.line = place if isinstance(place, int) else None
        self.place = place if self.line is None else f"line {place}"
        self.text = text

    def __str__(self) -> str:
        where = self.path if self.place is None else f"{self.path}, {self.place}"
        shown = ""
        if self.line is not None and self.text is not None:
            wanted = f"wanted '{self.wanted}', " if self.wanted else ""
            shown = f"; {wanted}got '{shorten(self.text)}'"
        return f"{where}: {self.reason}{shown}"


class DataFileError(_FileError):
    """A data file cannot be read, or holds what cannot be learned from."""


class ModelFileError(_FileError):
    """A file is not a model file that can be loaded."""


class SvmlightError(DataFileError):
    """A file is not svmlight text that can be learned from."""

    wanted = "label index:value ..."


class TableError(DataFileError):
    """A file is not a table that can be learned from."""


@contextmanager
def told(
    name: str,
    broken: tuple[type[BaseException], ...],
    reason: str = "",
    kind: type[DataFileError] = DataFileError,
) -> Iterator[None]:
    """Say which file it was that could not be read, if that ends in one of the `broken` errors."""
    try:
        yield
    except (DataFileError, FileNotFoundError):
        raise
    except broken as error:
        shown = str(error) or type(error).__name__
        raise kind(name, f"{reason}: {shown}" if reason else shown) from error


def shorten(raw: bytes, length: int = _SHOWN) -> str:
    """Return `raw` as printable text of at most about `length` characters."""
    text = raw[: length + 1].decode("utf-8", "backslashreplace").rstrip("\r\n")
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= length else text[: length - 3] + "..."
