"""The program `dask-s3vm`, also `python -m dask_s3vm`."""

import atexit
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; a signal at any moment, the first and the last, gives an exit code."""
    _on_signals(lambda number, frame: os._exit(128 + number))
    from dask_s3vm.cli import main as command
    from dask_s3vm.cli.stopping import SIGNALS, TEMPORARY, end_process

    code = 0
    try:
        command()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    _on_signals(lambda number, frame: os._exit(code))
    if code not in (TEMPORARY, *(128 + number for number in SIGNALS)):
        # after an interrupt threads may be at work, and are not waited for
        atexit._run_exitfuncs()
    end_process(code)  # Python would put back the handlers of signals on its way out


def _on_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)


if __name__ == "__main__":
    main()
