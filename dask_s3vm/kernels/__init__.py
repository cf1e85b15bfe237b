"""Compiled loops over the rows of one block: pure functions, no dask, no state.

`rows` says what a block is (CSR or dense) and how a kernel reads a row of it; `passes` are
the fused passes over a block; `line` are cheap loops over per-row outputs. Every kernel
releases the GIL and is compiled once (numba's on-disk cache).
"""
