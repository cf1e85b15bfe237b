"""Independent pieces of work on shared data: tasks on a client's workers, else threads here.

What a piece gives must follow from its arguments alone: then it does not matter who does it, in
which order, or how often it is done again because a worker was lost.
"""

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

from dask_s3vm import _config, interrupts
from dask_s3vm.engine.clients import current_client


def run_pool(
    work: Callable[..., Any],
    shared: Any,
    arguments: Sequence[tuple[Any, ...]],
    in_kernels: bool = True,
) -> Generator[tuple[int, Any], None, None]:
    """Yield (i, work(shared, *arguments[i])) for all i, each as soon as it is there.

    With a current client the pieces are its tasks: `shared` goes to every worker once, and pieces
    of a worker that is lost are run again by others. Otherwise threads of this process run them,
    if they spend their time `in_kernels`: others would wait for each other to run Python.
    To close the iterator calls off what has not begun.
    """
    client = current_client()
    if client is not None:
        from dask_s3vm.engine.worker_pool import on_workers

        yield from on_workers(client, work, shared, arguments)
        return
    n_threads = min(_config.local_threads() if in_kernels else 1, len(arguments))
    if n_threads <= 1:
        for number, args in enumerate(arguments):
            yield number, work(shared, *args)
        return
    yield from _in_threads(n_threads, work, shared, arguments)


def _in_threads(
    n_threads: int, work: Callable[..., Any], shared: Any, arguments: Sequence[tuple[Any, ...]]
) -> Generator[tuple[int, Any], None, None]:
    """Use threads that nobody waits for: called off, they end with the piece that they are at."""
    pieces = iter(enumerate(arguments))
    outcomes: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
    called_off = threading.Event()

    def drain() -> None:
        for number, args in pieces:
            if called_off.is_set():
                return
            try:
                outcomes.put((number, work(shared, *args), None))
            except BaseException as error:
                outcomes.put((number, None, error))

    for _ in range(n_threads):
        threading.Thread(target=drain, name="s3vm-pool", daemon=True).start()
    try:
        for _ in arguments:
            number, result, error = interrupts.take(outcomes)
            if error is not None:
                raise error
            yield number, result
    finally:
        called_off.set()
