"""Numerical tools for all layers: compiled functions, inner products, BLAS, random numbers."""
