"""BLAS on one thread: the last bits of a product depend on how many threads share it."""

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import threadpoolctl

_lock = threading.Lock()
_inside = 0
_holder: "_Holder | None" = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run BLAS on one thread for a while; blocks are what threads share.

    The number of threads belongs to the process: the first of several threads that enter sets it,
    the last one that leaves has it put back. A limit that the user holds with threadpoolctl in
    another thread stays.
    """
    global _inside, _holder
    with _lock:
        if _inside == 0:
            _holder = _Holder()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _holder is not None:
                _holder.release()
                _holder = None


class _Holder:
    """A thread that holds the limit: threadpoolctl wants it put back by the thread that set it."""

    def __init__(self) -> None:
        self._ready, self._done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold, daemon=True)
        self._thread.start()
        self._ready.wait()

    def release(self) -> None:
        """Put the number of threads back."""
        self._done.set()
        self._thread.join()

    def _hold(self) -> None:
        try:
            with _controller().limit(limits=1, user_api="blas"):
                self._ready.set()
                self._done.wait()
        finally:
            self._ready.set()


@functools.cache
def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()
