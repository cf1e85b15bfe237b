"""Independent pieces of work on shared data: tasks on a client's workers, else threads here.

What a piece gives must follow from its arguments alone: then it does not matter who does it, in
which order, or how often it is done again because a worker was lost.
"""

import contextlib
import logging
import uuid
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import distributed

from dask_s3vm import _config
from dask_s3vm.engine.budget import Budget
from dask_s3vm.engine.calls import LOST
from dask_s3vm.engine.clients import current_client, worker_threads
from dask_s3vm.engine.watch import gathered, next_done, watched

logger = logging.getLogger(__name__)


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
        yield from _on_workers(client, work, shared, arguments)
        return
    n_threads = min(_config.local_threads() if in_kernels else 1, len(arguments))
    if n_threads <= 1:
        for number, args in enumerate(arguments):
            yield number, work(shared, *args)
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="s3vm-pool") as threads:
        try:
            pending = {threads.submit(work, shared, *args): i for i, args in enumerate(arguments)}
            for done in as_completed(pending):
                yield pending[done], done.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _on_workers(
    client: distributed.Client,
    work: Callable[..., Any],
    shared: Any,
    arguments: Sequence[tuple[Any, ...]],
) -> Generator[tuple[int, Any], None, None]:
    missing = set(range(len(arguments)))
    budget, patience = Budget(), None
    while missing:
        worker_threads(client, patience=patience)  # there are some, and they run this version
        patience = _config.replacement_timeout()
        pending: dict[distributed.Future, int] = {}
        try:
            held = watched(
                client,
                lambda: client.scatter(shared, broadcast=True, hash=False, asynchronous=True),
            )
            token = uuid.uuid4().hex[:12]
            for number in sorted(missing):
                key = f"s3vm-piece-{token}-{number}"
                future = client.submit(work, held, *arguments[number], key=key, priority=-number)
                pending[future] = number
            coming = distributed.as_completed(list(pending), loop=client.loop)
            while pending:
                done = next_done(client, coming)
                (result,) = gathered(client, [done])  # waits while dask runs a lost piece again
                number = pending.pop(done)
                missing.discard(number)
                done.release()
                budget.progress()
                yield number, result
        # scattered data has no history: with the last worker that holds it, it is lost
        except LOST as error:
            logger.warning("sending the shared data again")
            budget.spend(error)
        finally:
            with contextlib.suppress(Exception):  # nothing to cancel where nobody answers
                client.cancel(list(pending))
