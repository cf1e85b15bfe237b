"""Measurements for `dask-s3vm bench`: rounds and fits, parameter searches, fault tolerance."""
