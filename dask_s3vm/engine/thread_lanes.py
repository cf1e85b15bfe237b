"""Several solves at once in one process: each in a thread, over the same rows.

A solve alternates between passes over the rows and work on vectors of length d at the client. With
an engine of several threads the passes are spread over the cores, but not the vectors, and not the
Python between two rounds. Where there are as many solves as threads, each thread has a solve to
itself instead: an engine of one thread, with row state of its own. A pass gives the same bits with
any number of threads, so a solve has the bits that it has alone.
"""

import contextvars
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, TypeVar

from dask_s3vm import _config, interrupts
from dask_s3vm.engine.local import LocalEngine
from dask_s3vm.engine.shard import shared

R = TypeVar("R")


class Stopped(KeyboardInterrupt):
    """Raised in a solve whose work is no longer needed: another one has failed."""


class _Stop(interrupts.Interrupt):
    """The flag that asks one solve to stop."""

    def error(self) -> Stopped:
        """Create the exception that `interrupts.check` raises."""
        return Stopped()


class LaneThread(threading.Thread):
    """Runs a function, in a copy of this context but with a flag of its own that asks it to stop.

    Parameters
    ----------
    body : the function; the thread begins at once.
    """

    def __init__(self, body: Callable[[], None]) -> None:
        self.stop = _Stop()
        run = contextvars.copy_context().run
        args = (interrupts.call_under, self.stop, body)
        super().__init__(target=run, args=args, name="s3vm-lane", daemon=True)
        self.start()


class ThreadLane(LocalEngine):
    """The engine of one solve among several: one thread, row state of its own.

    Parameters
    ----------
    whole : has the rows, and counts the rounds of all lanes and their times.
    lock : held by who counts.
    """

    def __init__(self, whole: LocalEngine, lock: threading.Lock) -> None:
        shards = [shared(shard) for shard in whole.shared_rows().shards]
        super().__init__(shards, whole.layout, 1)
        self.times = whole.times
        self._whole = whole
        self._lock = lock

    def _count(self, n_rounds: int) -> None:
        """See `LocalEngine`."""
        with self._lock:
            self._whole._count(n_rounds)
            self.rounds = self._whole.rounds


def run_in_threads(
    engine: LocalEngine, works: Sequence[Callable[[ThreadLane], R]], n_threads: int
) -> list[R]:
    """Call each work with an engine over the same rows, in threads; results in their order.

    An exception of one work ends all of them; no thread is left behind.
    """
    results: list[Any] = [None] * len(works)
    waiting = iter(list(enumerate(works)))  # yields each item once, even to several threads
    endings: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    lock = threading.Lock()

    def body() -> None:
        try:
            with _config.one_thread(), closing(ThreadLane(engine, lock)) as lane:
                for number, work in waiting:
                    results[number] = work(lane)
        except BaseException as error:
            endings.put(error)
        else:
            endings.put(None)

    threads: list[LaneThread] = []
    try:
        for _ in range(n_threads):
            threads.append(LaneThread(body))
        for _ in threads:
            error = interrupts.take(endings)
            if error is not None:
                raise error
        return results
    except BaseException:
        for thread in threads:
            thread.stop.ask()
        raise
    finally:
        for thread in threads:
            thread.join()
