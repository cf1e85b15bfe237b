"""Which workers there are now, asked in passing: nobody ever waits for the answer."""

import asyncio
import time
from concurrent.futures import Future
from typing import Any

import distributed

from dask_s3vm import _config
from dask_s3vm.engine.workers import running_workers


class Census:
    """Knows the workers of a cluster, as of a few seconds ago.

    `due` costs a look at the clock, and now and then (`s3vm.elastic-interval`) a request in the
    background.
    """

    def __init__(self, client: distributed.Client) -> None:
        self._client = client
        self._asked: Future[dict[str, Any]] | None = None
        self._next = time.monotonic() + _config.elastic_interval()
        self._workers: dict[str, int] = {}

    def due(self) -> bool:
        """Whether there is news."""
        if self._asked is not None:
            if not self._asked.done():
                return False
            asked, self._asked = self._asked, None
            if asked.cancelled() or asked.exception() is not None:
                return False
            self._workers = running_workers(asked.result())
            return True
        interval = _config.elastic_interval()
        if interval > 0.0 and time.monotonic() >= self._next:
            self._next = time.monotonic() + interval
            loop = self._client.loop.asyncio_loop
            self._asked = asyncio.run_coroutine_threadsafe(self._ask(), loop)
        return False

    def forget(self) -> None:
        """Drop what was asked: it may tell of workers that are lost by now."""
        self._asked = None

    def workers(self) -> dict[str, int]:
        """Threads of the workers, by address."""
        return self._workers

    async def _ask(self) -> dict[str, Any]:
        return await asyncio.wait_for(
            self._client.scheduler.identity(), _config.scheduler_timeout()
        )
