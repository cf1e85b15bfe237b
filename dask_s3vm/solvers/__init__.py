"""Solvers for smooth problems: modified finite Newton with conjugate gradients, and L-BFGS.

They work on numpy vectors of length d. Every access to the rows is a round through a `Problem`.
`few_rows` works on the inner products of a few rows in this process.
"""
