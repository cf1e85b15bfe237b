"""A keeper that remembers in a directory."""

import os
import time
from pathlib import Path

from dask_s3vm.checkpoints.identity import Identity
from dask_s3vm.checkpoints.state_file import read_state, remove_state, write_state
from dask_s3vm.methods.keeping import Keeper, Snapshot


class FileKeeper(Keeper):
    """Remembers in a directory too, so that another process can go on.

    Not every state offered is written: see `Keeper.due`. The last one is, by `rescue`.

    Parameters
    ----------
    directory : where; it is made if it is not there.
    identity : what the fit is a fit of.
    interval : least seconds between two states that are written.

    Raises
    ------
    CheckpointError
        If there is a state of something else, or one that cannot be read.
    """

    def __init__(
        self, directory: str | os.PathLike[str], identity: Identity, interval: float = 5.0
    ) -> None:
        super().__init__(interval)
        self._directory = Path(directory)
        self._identity = identity
        kept = read_state(self._directory, identity)
        if kept is not None:
            self.last = Snapshot(**kept)
        self._written = self.last

    def offer(self, snapshot: Snapshot, began: float | None = None) -> None:
        """Remember a state, and write it if it is time."""
        due = began is not None or self.due
        self.last = snapshot
        if due:
            self._write(began)

    def rescue(self) -> None:
        """Write the last state if it is not written yet."""
        if self.last is not self._written:
            self._write()

    def finish(self) -> None:
        """Remove the file."""
        super().finish()
        remove_state(self._directory)

    def _write(self, began: float | None = None) -> None:
        began = time.perf_counter() if began is None else began
        snapshot = self.last
        write_state(
            self._directory,
            self._identity,
            {"states": snapshot.states, "history": snapshot.history, "rounds": snapshot.rounds},
        )
        self._written = snapshot
        self._charge(began)
