"""Generated data sets, made chunk by chunk in parallel, and readers of well-known ones.

Rows of generated data do not depend on the chunks.
"""

from dask_s3vm._lazy import lazy_names
from dask_s3vm.datasets._clusters import make_g2c, make_g4c, make_moons
from dask_s3vm.datasets._intrusion import make_intrusion
from dask_s3vm.datasets._labels import hide_labels
from dask_s3vm.datasets._text import make_text

#: Loaded when first used: they import readers of files.
_READERS = {
    "fetch_rcv1": "dask_s3vm.datasets._rcv1",
    "read_kdd99": "dask_s3vm.datasets._kdd99",
    "read_rcv1": "dask_s3vm.datasets._rcv1",
}

__all__ = [
    "fetch_rcv1",
    "hide_labels",
    "make_g2c",
    "make_g4c",
    "make_intrusion",
    "make_moons",
    "make_text",
    "read_kdd99",
    "read_rcv1",
]

__getattr__, _ = lazy_names("dask_s3vm.datasets", _READERS)
