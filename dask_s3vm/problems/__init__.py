"""Objectives: value, gradient, curvature and line search as rounds over the rows.

A problem knows its formula and the protocol of the engine, but not how or where rows are stored.
Solvers call the methods of a problem and never see rows. Functions whose first argument is a shard
are the operations that the engine runs on every shard.
"""
