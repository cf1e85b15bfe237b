"""Compilation of kernels with numba, and the cache of compiled kernels.

numba's own cache checks one source file per kernel and lies next to the installed code. This one
lies in a directory of the user and is keyed by all sources that a kernel may be built from, so that
a kernel compiled from other sources is never loaded.
"""

import atexit
import contextlib
import functools
import hashlib
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import platformdirs
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.compiler_lock import global_compiler_lock

from dask_s3vm._version import __version__

logger = logging.getLogger(__name__)

#: Compiled kernels of other versions are removed after this many seconds without use.
KEEP = 30 * 86_400.0

_NAME = "dask-s3vm"
_PACKAGE = Path(__file__).resolve().parents[1]


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function with numba in nopython mode, release the GIL in it, and cache the result.

    A kernel may use its own subpackage, `kernels` and `numerics`, and nothing else of this package:
    a change in any of these sources, and only there, makes it compile again.

    Parameters
    ----------
    function : the function; None when options are given, as in ``@kernel(inline="always")``.
    options : further options of `numba.njit`.
    """
    if function is None:
        return functools.partial(kernel, **options)
    compiled = numba.njit(nogil=True, **options)(function)
    # numba looks through its registry of types while the first call in another thread may add to it
    for name in ("typeof_pyval", "_compilation_chain_init_hook"):
        setattr(compiled, name, global_compiler_lock(getattr(compiled, name)))
    if _PACKAGE.is_dir():  # not where the package is imported from a zip archive
        compiled._cache = _KernelCache(function)
    return compiled


@functools.cache
def source_stamp(subpackage: str) -> str:
    """Hash the versions, and all sources that the kernels of a subpackage may be built from."""
    digest = hashlib.sha256(f"{__version__} {numba.__version__}".encode())
    for folder in sorted({"numerics", "kernels", subpackage}):
        for path in sorted((_PACKAGE / folder).glob("*.py")):
            source = path.read_bytes()
            digest.update(f"{folder}/{path.name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]


@functools.cache
def cache_root() -> Path:
    """Return the directory of compiled kernels, which only this user can write to.

    It lies in ``NUMBA_CACHE_DIR`` if that is set, else in the platform's cache directory of the
    user. Where neither can be written, or another user could write to it, a private temporary
    directory takes its place.
    """
    for path in _candidates():
        if _is_private(path):
            return path
    path = Path(tempfile.mkdtemp(prefix=f"{_NAME}-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _candidates() -> Iterator[Path]:
    # a cached kernel is code that will be run: in a shared directory, each user has their own
    own = f"{_NAME}-{os.geteuid()}" if hasattr(os, "geteuid") else _NAME
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR) / own
    yield platformdirs.user_cache_path(_NAME, appauthor=False)
    yield Path(tempfile.gettempdir()) / own


def _is_private(path: Path) -> bool:
    """Whether this user, and nobody else, can write to a directory; creates it if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        status, above = path.lstat(), path.parent.stat()
        tempfile.TemporaryFile(dir=path).close()
    except OSError:
        return False
    if not hasattr(os, "geteuid"):  # Windows: a user's profile is private
        return True
    me = os.geteuid()
    # who owns the directory above, or may write to it, could put another one in this place
    replaceable = above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX
    if above.st_uid not in (me, 0) or replaceable:
        return False
    return status.st_uid == me and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@functools.cache
def _folder(subpackage: str) -> Path:
    """Return the directory of the kernels of a subpackage, compiled from its present sources."""
    path = cache_root() / f"{subpackage}-{source_stamp(subpackage)}"
    try:
        if not path.exists():
            path.mkdir(mode=0o700)
            _remove_unused(path.parent)
        os.utime(path)
    except OSError:  # another process was faster, or the disk is full: it is only a cache
        pass
    return path


def _remove_unused(root: Path) -> None:
    for path in root.iterdir():
        if path.is_dir() and time.time() - path.stat().st_mtime > KEEP:
            shutil.rmtree(path, ignore_errors=True)


@functools.cache
def _announce() -> None:
    logger.info("compiling loops for this method and kind of rows, once")


class _Locator(_CacheLocator):
    """Tells numba where the compiled kernels of a function's subpackage are."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._subpackage = function.__module__.split(".")[1]
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "_Locator":
        return cls(py_func)

    def get_cache_path(self) -> str:
        return str(_folder(self._subpackage))

    def get_source_stamp(self) -> str:
        return source_stamp(self._subpackage)

    def get_disambiguator(self) -> str:
        return str(self._line)

    def ensure_cache_path(self) -> None:
        os.makedirs(self.get_cache_path(), mode=0o700, exist_ok=True)


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class _KernelCache(FunctionCache):
    """numba's cache in our directory; a file that cannot be read is compiled again."""

    _impl_class = _KernelCacheImpl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:
            logger.debug("cached kernel cannot be read, compiling it again: %r", error)
            found = None
            with contextlib.suppress(OSError):
                self.flush()
        if found is None:
            _announce()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            logger.debug("compiled kernel cannot be cached: %r", error)
