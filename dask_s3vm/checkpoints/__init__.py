"""The state of a fit in a directory, from which another process can go on."""

from dask_s3vm.checkpoints.identity import identity_of
from dask_s3vm.checkpoints.keeper import FileKeeper
from dask_s3vm.checkpoints.state_file import holds_state

__all__ = ["FileKeeper", "holds_state", "identity_of"]
