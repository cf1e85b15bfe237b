"""`--checkpoint` and `--resume`: whether to go on from a state, and what a stop leaves behind."""

import contextlib
from collections.abc import Callable

import click

from dask_s3vm.cli.signals import resumable


def check_state(checkpoint: str | None, resume: bool, say: Callable[[str], None]) -> None:
    """Refuse to overwrite a state that nobody asked to go on from."""
    if checkpoint is None:
        if resume:
            raise click.UsageError("--resume wants --checkpoint DIR, where the state is")
        return
    there = _holds_state(checkpoint)
    if there and not resume:
        raise click.UsageError(
            f"--checkpoint {checkpoint}: there is the state of a fit already; say --resume to go "
            "on from it, or remove the folder"
        )
    if resume:
        say(f"going on from {checkpoint}" if there else f"no state in {checkpoint}: starting anew")


def ending_well(checkpoint: str | None) -> contextlib.AbstractContextManager[None]:
    """Turn a stop by a signal into an exit code: 75 if a state was kept, else 128 + signal."""
    return resumable(
        lambda: checkpoint is not None and _holds_state(checkpoint),
        f"the state is in {checkpoint}: run again with --resume",
    )


def _holds_state(directory: str) -> bool:
    from dask_s3vm.checkpoints import holds_state

    return holds_state(directory)
