"""Copying between streams."""

from typing import BinaryIO

__all__ = ["copy_bytes"]

_STEP = 4 << 20


def copy_bytes(source: BinaryIO, target: BinaryIO, size: int | None = None) -> None:
    """Copy bytes from one stream to another, in steps.

    Parameters
    ----------
    source, target : binary files
        From where, to where.
    size : int, optional
        How many; by default all that follow.

    Raises
    ------
    OSError
        If there are fewer.
    """
    left = size
    while left is None or left > 0:
        chunk = source.read(_STEP if left is None else min(left, _STEP))
        if not chunk:
            if left:
                raise OSError("a part is shorter than it was")
            return
        target.write(chunk)
        left = None if left is None else left - len(chunk)
