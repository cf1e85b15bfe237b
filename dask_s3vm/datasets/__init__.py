"""Generated data sets, made chunk by chunk in parallel. Rows do not depend on the chunks."""

from dask_s3vm.datasets._clusters import make_g2c, make_g4c, make_moons
from dask_s3vm.datasets._intrusion import make_intrusion
from dask_s3vm.datasets._labels import hide_labels
from dask_s3vm.datasets._text import make_text

__all__ = ["hide_labels", "make_g2c", "make_g4c", "make_intrusion", "make_moons", "make_text"]
