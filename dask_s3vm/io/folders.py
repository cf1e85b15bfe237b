"""A folder on any file system that fsspec knows, whose files appear whole or not at all."""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from fsspec.core import url_to_fs  # type: ignore[import-untyped]

__all__ = ["Store", "split_target"]

_UNFINISHED = ".unfinished"


@dataclass(frozen=True)
class Store:
    """A folder.

    Attributes
    ----------
    fs : fsspec.AbstractFileSystem
        Where it lies.
    root : str
        Its path there.
    """

    fs: Any
    root: str

    @property
    def is_local(self) -> bool:
        """Whether this machine's file system has the folder."""
        names = self.fs.protocol
        return "file" in ((names,) if isinstance(names, str) else names)

    def path(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return f"{self.root.rstrip('/')}/{name}"

    def address(self, name: str = "") -> str:
        """Return the path as users write it: a plain local path, or a full address."""
        path = self.path(name).rstrip("/")
        return path if self.is_local else str(self.fs.unstrip_protocol(path))

    def make(self) -> None:
        """Create the folder if it is not there."""
        self.fs.makedirs(self.root, exist_ok=True)

    def exists(self, name: str) -> bool:
        """Tell whether there is a file or folder of this name."""
        return bool(self.fs.exists(self.path(name)))

    def names(self) -> list[str]:
        """Return the names of all that is in the folder; none if it does not exist."""
        if not self.fs.isdir(self.root):
            return []
        found = self.fs.ls(self.root, detail=False)
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self.fs.open(self.path(name), "rb") as stream:
            return bytes(stream.read())

    def read_json(self, name: str) -> Any:
        """Return what a JSON file holds; None if it is missing or broken."""
        try:
            return json.loads(self.read(name))
        except (OSError, ValueError):
            return None

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file."""
        with self.writing(name) as stream:
            stream.write(json.dumps(value).encode())

    def open(self, name: str) -> Any:
        """Open a file for reading."""
        return self.fs.open(self.path(name), "rb")

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """Open a file that gets its name only when it is complete."""
        hidden = f".{name}.{uuid.uuid4().hex}{_UNFINISHED}"
        try:
            with self.fs.open(self.path(hidden), "wb") as stream:
                yield stream
                stream.flush()
                if self.is_local:
                    os.fsync(stream.fileno())
            self.rename(hidden, name)
        finally:
            with suppress(FileNotFoundError):
                self.remove(hidden)

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another name: one step, where the file system is this machine's."""
        if self.is_local:
            os.replace(self.path(old), self.path(new))
        else:
            self.fs.mv(
                self.path(old), self.path(new), recursive=bool(self.fs.isdir(self.path(old)))
            )

    def remove(self, name: str) -> None:
        """Remove a file, or a folder and all in it."""
        path = self.path(name)
        self.fs.rm(path, recursive=bool(self.fs.isdir(path)))

    def discard(self, name: str) -> None:
        """Remove a folder that others may still be writing to.

        It gets another name first, so that nothing new can come into it.
        """
        if self.exists(name):
            rubbish = f".{name}.{uuid.uuid4().hex}{_UNFINISHED}"
            self.rename(name, rubbish)
            for _ in range(5):
                with suppress(OSError):
                    self.remove(rubbish)
                    return

    def remove_unfinished(self) -> None:
        """Remove files that a process which was killed has left behind."""
        for name in self.names():
            if name.endswith(_UNFINISHED):
                self.remove(name)

    def inside(self, name: str) -> "Store":
        """Return a folder inside this one."""
        return Store(self.fs, self.path(name))


def split_target(url: str) -> tuple[Store, str]:
    """Return the folder that a file or folder is to be in, and its name there."""
    fs, path = url_to_fs(url)
    folder, _, name = str(path).rstrip("/").rpartition("/")
    if not name:
        raise ValueError(f"path is {url!r}, wanted the name of a file or folder")
    return Store(fs, folder or "/"), name
