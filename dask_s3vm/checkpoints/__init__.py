"""The saved state of a fit in a directory; the same fit resumes from it in any process."""

from dask_s3vm.checkpoints.holding import held
from dask_s3vm.checkpoints.identity import fingerprint, identity_of
from dask_s3vm.checkpoints.state_file import FileCheckpoint, check_directory, holds_state

__all__ = ["FileCheckpoint", "check_directory", "fingerprint", "held", "holds_state", "identity_of"]
