"""Compiled loops over the rows of one block: pure functions, no dask, no state.

rows        what a block is (CSR or dense), and the primitives that read one row of it
passes      fused passes over a block: products with X and X^T from one read of each row
smooth      the smooth losses of QN-S3VM, and the label probabilities of deterministic annealing
dual        coordinate ascent on the dual SVM, and rows that get their labels in stages
flips       local search over labels by flips of single rows
population  the (mu+nu)-EA over labels
greedy      lazy greedy choice of rows
ramp        coordinate ascent with the ramp loss
soft_labels labels between -1 and 1
digits      order statistics of outputs, digit by digit

Every kernel releases the GIL and is compiled once; `numerics.compiler` caches it on disk.
"""
