"""How a command ends: errors and exit codes, signals, and saved states.

A command runs in a thread of its own (see `interrupts`). The main thread waits for it and receives
the signals. The first signal asks the command to stop, which it does at its next round or wait. A
second signal, or a command that takes longer than `GRACE` seconds to stop, ends the process at
once.
"""

import contextlib
import linecache
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import IO, Any, NoReturn

import click

from dask_s3vm.cli.options import name_options
from dask_s3vm.exceptions import EngineError, MemoryShortError
from dask_s3vm.interrupts import Interrupt, Work, current

#: Printed by `--help`.
EXIT_CODES = """\b
Exit codes:
  0    done
  1    the fit failed, for example because the workers lack memory
  2    wrong usage
  65   bad input: running again will not help
  69   no scheduler or no worker can be reached
  70   an error in this program
  75   stopped by a signal, state saved: run again with --resume
  130  stopped by SIGINT without a saved state (143: by SIGTERM)
"""

#: EX_TEMPFAIL of sysexits.h: run again. Batch systems can be told to requeue on it.
TEMPORARY = 75

#: Batch systems send SIGTERM; Ctrl-C at a terminal sends SIGINT.
SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: Seconds that a command has to stop in order.
GRACE = 2.5

#: Signals within this many seconds count as one: wrappers and batch systems send them twice.
BURST = 0.2


class BadData(click.ClickException):
    """The input is wrong: running again will not help."""

    exit_code = 65


class Unreachable(click.ClickException):
    """No scheduler or no worker can be reached: running again later may help."""

    exit_code = 69


class Interrupted(click.ClickException):
    """A signal stopped the run: the next one resumes from the saved state, or starts anew."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message without the word "Error": a stop is not an error."""
        click.echo(self.message, file=file, err=True)


class Internal(click.ClickException):
    """An error in this program, not in its input."""

    exit_code = 70

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"an error in dask-s3vm itself, {type(error).__name__}: {error}; add --log-level debug "
            "to see where"
        )


@contextlib.contextmanager
def format_errors() -> Iterator[None]:
    """Turn errors about the input and the cluster into one line and an exit code."""
    try:
        yield
    except MemoryShortError as error:
        raise click.ClickException(str(error)) from error
    except EngineError as error:
        raise Unreachable(str(error)) from error
    except BrokenPipeError:  # nobody reads the output any more, as after `| head`
        raise
    except (FileNotFoundError, FileExistsError, IsADirectoryError, PermissionError) as error:
        raise BadData(str(error)) from error
    except OSError as error:
        raise click.ClickException(str(error)) from error
    except (ValueError, TypeError, ImportError) as error:
        if not is_deliberate(error):
            raise
        raise BadData(name_options(str(error))) from error


@contextlib.contextmanager
def internal_errors() -> Iterator[None]:
    """Give any error that nobody foresaw the exit code 70; its traceback is for --log-level debug.

    Some errors are control flow: those of click, a stop by a signal, and an output that nobody
    reads any more, at which click ends the command in silence.
    """
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except OSError as error:  # a full disk, a lost connection: not an error in this program
        raise click.ClickException(str(error)) from error
    except Exception as error:
        logging.getLogger("dask_s3vm").debug("the error", exc_info=True)
        raise Internal(error) from error


def is_deliberate(error: BaseException) -> bool:
    """Whether a check raised the error, rather than a function that was called wrongly.

    Classes of our own say so. Others were raised by a `raise` statement of this package or of
    scikit-learn's checks; where numpy or Python itself raise them, the error is in this program.
    """
    if type(error).__module__.split(".")[0] in ("dask_s3vm", "sklearn"):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return module.startswith(("dask_s3vm.", "sklearn.")) and line.lstrip().startswith("raise")


def supervised(command: Callable[[], Any]) -> Any:
    """Run a command so that signals stop it; returns its result.

    Python delivers signals to the main thread only. In any other thread the command is just called.
    """
    if threading.current_thread() is not threading.main_thread():
        return command()
    interrupt = SignalInterrupt()
    work = Work(command, interrupt)
    disabled = logging.root.manager.disable
    before = {number: signal.signal(number, interrupt.receive) for number in SIGNALS}
    try:
        work.start()
        while not work.ended(GRACE / 10.0):
            if interrupt.overdue():
                interrupt.end()
        return work.result()
    except Interrupted:
        raise
    except (StopRequested, Exception):
        if interrupt.number is None:
            raise
        # any failure after a signal is a consequence of it: the workers may have received it too
        raise interrupt.outcome() from None
    finally:
        logging.disable(disabled)
        for number, handler in before.items():
            signal.signal(number, handler)


class StopRequested(KeyboardInterrupt):
    """Raised in the thread of a command that a signal asked to stop."""


class SignalInterrupt(Interrupt):
    """Receives signals; the first one asks the command to stop.

    Attributes
    ----------
    number : int or None
        The first signal.
    has_state : callable
        Whether the command has saved a state to resume from.
    hint : str
        How to resume; shown if there is a state.
    """

    def __init__(self) -> None:
        super().__init__()
        self.number: int | None = None
        self.has_state: Callable[[], bool] = lambda: False
        self.hint = ""
        self._since = 0.0

    def receive(self, number: int, frame: FrameType | None = None) -> None:
        """Handle a signal."""
        now = time.monotonic()
        if self.number is None:
            self.number, self._since = number, now
            logging.disable(logging.WARNING)  # dask warns about connections that close now
            self.ask()
        elif now - self._since > BURST:
            self.end()

    def error(self) -> StopRequested:
        """See `Interrupt.error`."""
        return StopRequested()

    def overdue(self) -> bool:
        """Whether the command was asked to stop more than `GRACE` seconds ago."""
        return self.number is not None and time.monotonic() - self._since > GRACE

    def outcome(self) -> Interrupted:
        """Return the message and the exit code: 75 if a state was saved, else 128 + signal."""
        assert self.number is not None
        message = f"stopped by {signal.Signals(self.number).name}"
        if self.has_state():
            return Interrupted(f"{message}; {self.hint}", TEMPORARY)
        if self.hint:  # a state was wanted
            message += " before a first state was saved: there is nothing to resume"
        return Interrupted(message, 128 + self.number)

    def end(self) -> NoReturn:
        """End this process and its children now."""
        outcome = self.outcome()
        with contextlib.suppress(Exception):
            outcome.show()
        end_process(outcome.exit_code)


@contextlib.contextmanager
def resumable(has_state: Callable[[], bool], hint: str) -> Iterator[None]:
    """Make a stop by a signal end with exit code 75 and a hint, if a state was saved."""
    interrupt = current()
    if not isinstance(interrupt, SignalInterrupt):  # signals are not handled here
        yield
        return
    interrupt.has_state, interrupt.hint = has_state, hint
    try:
        yield
    except StopRequested:
        raise interrupt.outcome() from None


def end_process(code: int) -> NoReturn:
    """End this process and its children without waiting for anything."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def check_state(checkpoint: str | None, resume: bool, say: Callable[[str], None]) -> None:
    """Check `--checkpoint` and `--resume`; refuse to overwrite a state without `--resume`."""
    if checkpoint is None:
        if resume:
            raise click.UsageError("--resume needs --checkpoint DIR, the folder of the state")
        return
    saved = _holds_state(checkpoint)
    if saved and not resume:
        raise click.UsageError(
            f"--checkpoint {checkpoint}: the folder holds the state of a fit already; add --resume "
            "to resume from it, or remove the folder"
        )
    if resume:
        say(
            f"resuming from {checkpoint}"
            if saved
            else f"no state in {checkpoint}: starting from the beginning"
        )


def closing_run(checkpoint: str | None) -> contextlib.AbstractContextManager[None]:
    """Turn a stop by a signal into an exit code: 75 if a state was saved, else 128 + signal."""
    return resumable(
        lambda: checkpoint is not None and _holds_state(checkpoint),
        "" if checkpoint is None else f"the state is in {checkpoint}: run again with --resume",
    )


def _holds_state(directory: str) -> bool:
    from dask_s3vm.checkpoints import holds_state

    return holds_state(directory)
