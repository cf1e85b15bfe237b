"""True sizes of sparse blocks, for dask's scheduler.

dask measures scipy's old ``spmatrix`` only: a ``csr_array`` or a ``sparse.GCXS`` of any size counts
as 56 bytes, and placement, work stealing and spilling silently go wrong. The ``dask.sizeof`` entry
point of this package calls `register` when dask is imported, on the client and on every worker, so
this module must not import anything heavy.
"""

from collections.abc import Callable
from typing import Any


def register(sizeof: Any) -> None:
    """Teach dask's `sizeof` dispatch about scipy's sparse arrays and the `sparse` package."""
    _extend_lazily(sizeof, "scipy", _register_scipy)
    _extend_lazily(sizeof, "sparse", _register_sparse)


def _extend_lazily(sizeof: Any, toplevel: str, extra: Callable[[Any], None]) -> None:
    """Run `extra` when dask first measures a type of package `toplevel`, after dask's own rules."""
    own = getattr(sizeof, "_lazy", {}).get(toplevel)

    @sizeof.register_lazy(toplevel)
    def load() -> None:
        if own is not None:
            own()
        extra(sizeof)


def _register_scipy(sizeof: Any) -> None:
    import scipy.sparse as sp

    names = ("data", "indices", "indptr", "offsets", "rows")

    @sizeof.register(sp.sparray)
    def sizeof_sparray(block: Any) -> int:
        held = [getattr(block, name, None) for name in names]
        arrays = [*held, *(block.coords if block.format == "coo" else ())]
        return sum(getattr(array, "nbytes", 0) for array in arrays) + 200


def _register_sparse(sizeof: Any) -> None:
    import sparse

    @sizeof.register(sparse.SparseArray)
    def sizeof_sparse(block: Any) -> int:
        return int(block.nbytes) + 200
