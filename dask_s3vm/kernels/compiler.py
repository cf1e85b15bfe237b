"""How kernels are compiled, and where compiled ones are kept between runs.

numba's own cache looks at one source file per kernel and lies beside the installed code. Ours lies
in a directory of the user, and a kernel that was compiled from other sources is never found there.
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

from dask_s3vm._version import __version__

logger = logging.getLogger(__name__)

#: Compiled kernels of other versions are removed when nobody has used them for so many seconds.
KEEP = 30 * 86_400.0

_NAME = "dask-s3vm"
_PACKAGE = Path(__file__).resolve().parents[1]


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function with numba: no Python inside, the GIL released, kept between runs.

    A kernel may build on its own subpackage and on `dask_s3vm.kernels`, and on nothing else of this
    package: these are the sources whose change makes it compile again.

    Parameters
    ----------
    function : the function; None to give options first, as in ``@kernel(inline="always")``.
    options : further options of `numba.njit`.
    """
    if function is None:
        return functools.partial(kernel, **options)
    compiled = numba.njit(nogil=True, **options)(function)
    if _PACKAGE.is_dir():  # not inside an archive
        compiled._cache = _KernelCache(function)
    return compiled


@functools.cache
def source_stamp(subpackage: str) -> str:
    """Hash the versions and all sources that the kernels of a subpackage are built from."""
    digest = hashlib.sha256(f"{__version__} {numba.__version__}".encode())
    for folder in sorted({"kernels", subpackage}):
        for path in sorted((_PACKAGE / folder).glob("*.py")):
            source = path.read_bytes()
            digest.update(f"{folder}/{path.name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]


@functools.cache
def cache_root() -> Path:
    """Find the directory that compiled kernels are kept in: ours, and nobody else can write to it.

    That of ``NUMBA_CACHE_DIR``, if set; else the user's cache directory by the convention of the
    platform; where that cannot be written or is not the user's own, a private temporary one.
    """
    for path in _candidates():
        if _is_private(path):
            return path
    path = Path(tempfile.mkdtemp(prefix=f"{_NAME}-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _candidates() -> Iterator[Path]:
    # a cached kernel is code that will be run: where a directory is shared, everyone has their own
    own = f"{_NAME}-{os.geteuid()}" if hasattr(os, "geteuid") else _NAME
    if numba.config.CACHE_DIR:
        yield Path(numba.config.CACHE_DIR) / own
    yield platformdirs.user_cache_path(_NAME, appauthor=False)
    yield Path(tempfile.gettempdir()) / own


def _is_private(path: Path) -> bool:
    """Whether a directory, made if there is none, can be written by us and by nobody else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.stat()
        tempfile.TemporaryFile(dir=path).close()
    except OSError:
        return False
    if not hasattr(os, "geteuid"):  # Windows: the profile of a user is their own
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@functools.cache
def _folder(subpackage: str) -> Path:
    """Directory of the compiled kernels of a subpackage, as its sources are now."""
    path = cache_root() / f"{subpackage}-{source_stamp(subpackage)}"
    try:
        if not path.exists():
            path.mkdir(mode=0o700)
            _remove_unused(path.parent)
        os.utime(path)
    except OSError:  # somebody else was quicker, or the disk is full: it is only a cache
        pass
    return path


def _remove_unused(root: Path) -> None:
    for path in root.iterdir():
        if path.is_dir() and time.time() - path.stat().st_mtime > KEEP:
            shutil.rmtree(path, ignore_errors=True)


@functools.cache
def _announce() -> None:
    logger.info("compiling kernels, first run only")


class _Locator(_CacheLocator):
    """Tells numba where the kernels of a function's subpackage are kept."""

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
    """The cache of numba in our directory; a file that cannot be read costs a compilation."""

    _impl_class = _KernelCacheImpl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:
            logger.debug("compiled kernel not read: %r", error)
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
            logger.debug("compiled kernel not kept: %r", error)
