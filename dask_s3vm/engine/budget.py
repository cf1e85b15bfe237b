"""How often to try again: attempts that are used up by losses and come back with progress."""

import logging
import time

from dask_s3vm import _config, interrupts
from dask_s3vm.exceptions import WorkerLostError

logger = logging.getLogger(__name__)

#: Longest wait between two attempts, in seconds.
LONGEST = 30.0


class Budget:
    """Attempts to go on after losses of workers.

    A loss counts until a round has been completed after it *and* `s3vm.recovery-window` is over. So
    single losses spread over a long fit never add up, a round that can never be completed is
    given up, and so is a cluster that falls apart faster than it works.
    """

    def __init__(self) -> None:
        self._losses: list[float] = []
        self._passed = 0  # of these losses: those with a completed round behind them

    def progress(self) -> None:
        """Something has been completed."""
        self._passed = len(self._losses)

    def spend(self, loss: BaseException) -> None:
        """Use up an attempt, after a pause; raises `WorkerLostError` if there is none left."""
        now, window = time.monotonic(), _config.recovery_window()
        old = sum(now - when > window for when in self._losses[: self._passed])
        self._losses = [*self._losses[old:], now]
        self._passed -= old
        spent, attempts = len(self._losses), _config.recovery_attempts()
        if spent > attempts:
            raise WorkerLostError(
                f"gave up after {attempts} attempt(s) to recover within {now - self._losses[0]:.0f}"
                f" s; last: {_text(loss)}. Why do workers die? Their logs tell (memory? time "
                "limit?); s3vm.recovery-attempts and s3vm.recovery-window allow for more"
            ) from loss
        pause = min(_config.recovery_backoff() * 2.0 ** (spent - 2), LONGEST) if spent > 1 else 0.0
        logger.warning("%s; trying again in %.1f s (%d)", _text(loss), pause, spent)
        interrupts.sleep(pause)


def _text(loss: BaseException) -> str:
    return str(loss) if isinstance(loss, WorkerLostError) else repr(loss)
