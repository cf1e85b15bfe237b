"""Measurements of the package, kept as commands: `dask-s3vm bench`."""
