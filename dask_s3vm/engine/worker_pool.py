"""The part of `pool` that runs pieces as tasks of a cluster."""

import contextlib
import logging
import uuid
from collections.abc import Callable, Generator, Sequence
from typing import Any

import distributed

from dask_s3vm import _config
from dask_s3vm.engine.budget import Budget
from dask_s3vm.engine.calls import LOST
from dask_s3vm.engine.watch import gathered, next_done, watched
from dask_s3vm.engine.workers import worker_threads

logger = logging.getLogger(__name__)


def on_workers(
    client: distributed.Client,
    work: Callable[..., Any],
    shared: Any,
    arguments: Sequence[tuple[Any, ...]],
) -> Generator[tuple[int, Any], None, None]:
    """See `pool.run_pool`."""
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
