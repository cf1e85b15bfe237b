"""Where work runs: on the current dask client if there is one, else in this process.

`current_client` finds the client. `compute_all` computes lazy values, and `run_pool` runs
independent pieces of work. Both survive lost workers: `RetryBudget` says how often to retry, and
`check_lineage` recognizes losses that no retry can repair. What `in_threads` runs stays in this
process.

`distributed` is looked up in `sys.modules` and never imported here. If nobody has imported it there
is no client, and small local work should not wait for its import.
"""

import contextlib
import itertools
import logging
import queue
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import dask
import dask.config
import dask.threaded

from dask_s3vm import _config, interrupts
from dask_s3vm.exceptions import EngineError, LineageError, WorkerLostError

if TYPE_CHECKING:
    import distributed

logger = logging.getLogger(__name__)

R = TypeVar("R")

#: Names of dask's local schedulers.
_LOCAL = ("sync", "synchronous", "single-threaded", "threads", "threading", "processes")

#: Bursts of tasks in the span of a client, some for each fit, until past ones are forgotten.
FORGET_AFTER = 100

#: Counts these bursts, by client.
_uses: "weakref.WeakKeyDictionary[distributed.Client, itertools.count[int]]" = (
    weakref.WeakKeyDictionary()
)

#: Longest wait before a retry, in seconds.
LONGEST_WAIT = 30.0


def current_client() -> "distributed.Client | None":
    """Find the client that a dask user expects to be used; None for work in this process.

    A scheduler named in dask's configuration wins, then the current client. Inside a task of a dask
    worker the work stays in the task: a fit that waited there for other tasks could block the
    worker that has to run them.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    scheduler = dask.config.get("scheduler", None)
    if isinstance(scheduler, distributed.Client):
        return scheduler
    if (isinstance(scheduler, str) and scheduler.lower() in _LOCAL) or inside_task():
        return None
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise EngineError(
            "the current dask client is asynchronous; wanted a synchronous one: "
            "create it with Client(..., asynchronous=False)"
        )
    return client


def inside_task() -> bool:
    """Whether this code runs in a task of a dask worker."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


@contextlib.contextmanager
def in_one_span(client: "distributed.Client") -> Iterator[None]:
    """Have all tasks of a client that are submitted meanwhile belong to a single span of dask.

    The scheduler opens a span of its own for every burst of tasks, and neither it nor the workers
    ever forget its statistics (`distributed.spans`). A span of the caller stays in force. Of its
    own one, the scheduler is asked to forget past tasks now and then.
    """
    if "span" in dask.get_annotations():
        yield
        return
    span = f"s3vm-{client.id}"
    with dask.annotate(span={"name": ("s3vm",), "ids": (span,)}):
        yield
    if next(_uses.setdefault(client, itertools.count(1))) % FORGET_AFTER == 0:
        from dask_s3vm.engine.watch import forget_later

        forget_later(client, span)


def task_key(name: str) -> str:
    """Return a new key for a task, or for data, of this package.

    For every group of tasks that comes and goes, dask's scheduler keeps a record in its span (see
    `in_one_span`). Tasks whose keys begin alike are of one group, so that a fit is one and not six.
    Dask remembers the last 100,000 keys for good: a text is shorter than a tuple.
    """
    return f"s3vm-{uuid.uuid4().hex}-{name}"


def submitted(
    client: "distributed.Client", function: Callable[..., Any], *args: Any, **kwargs: Any
) -> "distributed.Future":
    """As `client.submit`, with a new key."""
    return client.submit(function, *args, key=task_key(function.__name__), **kwargs)


def compute_all(lazy: Sequence[Any]) -> tuple[Any, ...]:
    """As `dask.compute`; on a cluster, detects lost workers and retries."""
    client = current_client()
    if client is None:
        return _compute_here(lazy)
    from dask_s3vm.engine.calls import LOST
    from dask_s3vm.engine.watch import gathered, release
    from dask_s3vm.engine.workers import worker_threads

    budget = RetryBudget()
    worker_threads(client)
    while True:
        with in_one_span(client):
            futures = client.compute(list(lazy))
        try:
            return tuple(gathered(client, futures))
        except LOST as error:
            release(client, futures)
            check_lineage(error)
            budget.spend(error)
            worker_threads(client, patience=_config.replacement_timeout())


def _compute_here(lazy: Sequence[Any]) -> tuple[Any, ...]:
    """As `dask.compute` without a client, in threads that end with it.

    For every thread but the main one that computes something, dask itself keeps a pool until the
    process ends. Fits run in threads of their own.
    """
    threads = (None, "threads", "threading", dask.threaded.get)
    named = dask.config.get("scheduler", None) not in threads
    if named or dask.config.get("pool", None) is not None:
        return dask.compute(*lazy)
    pool = ThreadPoolExecutor(dask.config.get("num_workers", None) or _config.available_cores())
    try:
        # a function: given a name or nothing, dask would import `distributed` to look for a client,
        # which takes longer than small work
        return dask.compute(*lazy, scheduler=dask.threaded.get, pool=pool)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def run_pool(
    work: Callable[..., Any],
    shared: Any,
    arguments: Sequence[tuple[Any, ...]],
    in_kernels: bool = True,
) -> Generator[tuple[int, Any], None, None]:
    """Yield (i, work(shared, *arguments[i])) for all i, in the order of completion.

    The result of a piece must depend on its arguments alone: then it does not matter where it runs,
    in which order, or whether it runs again because a worker was lost. Closing the generator
    cancels the pieces that have not started.

    Parameters
    ----------
    work : a function; on a cluster it and its arguments are pickled.
    shared : first argument of every piece; on a cluster, sent to every worker once.
    arguments : the other arguments of each piece.
    in_kernels : whether pieces spend their time in code that releases the GIL. Without a client,
        such pieces run in several threads, others one by one in this thread.
    """
    client = current_client()
    if client is not None:
        from dask_s3vm.engine.workers import run_on_workers

        yield from run_on_workers(client, work, shared, arguments)
        return
    n_threads = min(_config.local_threads() if in_kernels else 1, len(arguments))
    if n_threads <= 1:
        for number, args in enumerate(arguments):
            yield number, work(shared, *args)
        return
    yield from _run_in_threads(n_threads, work, shared, arguments)


def _run_in_threads(
    n_threads: int, work: Callable[..., Any], shared: Any, arguments: Sequence[tuple[Any, ...]]
) -> Generator[tuple[int, Any], None, None]:
    """Run pieces in daemon threads; after a cancellation these end with their present piece."""
    pieces = iter(enumerate(arguments))
    outcomes: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
    cancelled = threading.Event()

    def drain() -> None:
        for number, args in pieces:
            if cancelled.is_set():
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
        cancelled.set()


def in_threads(works: Sequence[Callable[[], R]], together: bool = True) -> list[R]:
    """Call functions in threads of this process, or one by one; return their results in order."""
    n_threads = min(_config.local_threads() if together else 1, len(works))
    if n_threads <= 1:
        return [work() for work in works]
    found = dict(_run_in_threads(n_threads, _call, None, [(work,) for work in works]))
    return [found[number] for number in range(len(works))]


def _call(_: None, work: Callable[[], R]) -> R:
    return work()


class RetryBudget:
    """The number of worker losses that a fit may still recover from.

    A loss counts until a round has been completed after it *and* `s3vm.recovery-window` is over.
    So single losses spread over a long fit never add up, but a round that can never be completed
    is given up, and so is a cluster that loses workers faster than it makes progress.
    """

    def __init__(self) -> None:
        self._losses: list[float] = []
        self._passed = 0  # number of these losses that a completed round has followed

    def progress(self) -> None:
        """Record that a round, or a piece of work, has been completed."""
        self._passed = len(self._losses)

    def spend(self, loss: BaseException) -> None:
        """Count a loss and wait before the retry; raises `WorkerLostError` if none is left."""
        now, window = time.monotonic(), _config.recovery_window()
        old = sum(now - when > window for when in self._losses[: self._passed])
        self._losses = [*self._losses[old:], now]
        self._passed -= old
        spent, attempts = len(self._losses), _config.recovery_attempts()
        if spent > attempts:
            raise WorkerLostError(
                f"gave up after {attempts} attempt(s) to recover within {now - self._losses[0]:.0f}"
                f" s; last loss: {_text(loss)}. The logs of the workers say why they ended (memory "
                "or time limit?); raise s3vm.recovery-attempts or lower s3vm.recovery-window to "
                "allow for more losses"
            ) from loss
        wait = (
            min(_config.recovery_backoff() * 2.0 ** (spent - 2), LONGEST_WAIT) if spent > 1 else 0.0
        )
        logger.warning("%s; retrying in %.1f s (attempt %d)", _text(loss), wait, spent)
        interrupts.sleep(wait)


def _text(loss: BaseException) -> str:
    return str(loss) if isinstance(loss, WorkerLostError) else repr(loss)


def check_lineage(loss: BaseException) -> None:
    """Raise `LineageError` if a loss concerns data that dask cannot compute again."""
    # dask's words for a task whose input the scheduler neither has nor knows how to compute
    if "lost dependencies" not in str(loss):
        return
    raise LineageError(
        "blocks of the data were lost with their worker and cannot be made again: they were "
        "scattered, or the futures of a persisted array are gone; wanted a lazy dask array, a "
        f"persisted one whose futures are kept during the fit, or rows in memory ({loss})"
    ) from loss
