"""The saved state of a fit in a directory; the same fit resumes from it in any process."""

from dask_s3vm.checkpoints.identity import fingerprint, identity_of
from dask_s3vm.checkpoints.state_file import FileCheckpoint, holds_state

__all__ = ["FileCheckpoint", "fingerprint", "holds_state", "identity_of"]
