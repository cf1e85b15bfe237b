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
    place : str, optional
        Where in the file: a line, a row, a record batch.
    """

    def __init__(self, path: str, reason: str, place: str | None = None) -> None:
        # All arguments go to the base class: unpickling calls the class with `args`.
        super().__init__(path, reason, place)
        self.path = path
        self.reason = reason
        self.place = place

    def __str__(self) -> str:
        where = self.path if self.place is None else f"{self.path}, {self.place}"
        return f"{where}: {self.reason}"


class DataFileError(_FileError):
    """A data file cannot be read, or holds what cannot be learned from."""


class ModelFileError(_FileError):
    """A file is not a model file that can be loaded."""


class LineError(DataFileError):
    """A line of a text file is wrong, counted from 1, or (None) the file as a whole.

    `text` is the line itself, of which only the start is shown.
    """

    #: What a line has to look like.
    wanted = ""

    def __init__(
        self, path: str, reason: str, line: int | None = None, text: bytes | None = None
    ) -> None:
        super().__init__(path, reason, None if line is None else f"line {line}")
        self.args = (path, reason, line, text)
        self.line = line
        self.text = text

    def __str__(self) -> str:
        told = super().__str__()
        if self.line is None or self.text is None:
            return told
        wanted = f"wanted '{self.wanted}', " if self.wanted else ""
        return f"{told}; {wanted}got '{shorten(self.text)}'"


class SvmlightError(LineError):
    """A file is not svmlight text that can be learned from."""

    wanted = "label index:value ..."


class TableError(LineError):
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
