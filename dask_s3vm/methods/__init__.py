"""The algorithms: one file is one paper's outer loop, from rows in an engine to weights."""
