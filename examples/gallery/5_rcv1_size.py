"""
Rows of the size of RCV1
========================

Generated rows with the 47,236 columns of RCV1. The page uses 10,000 rows; ``--rows 800000`` is the
size of the real set. Rows are made block by block, and none of them comes to the client.
"""

import argparse
import time

import matplotlib.pyplot as plt

from dask_s3vm import TSVM
from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.plotting import plot_objective

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=10_000)
args = parser.parse_args()

X, y = make_text(n_rows=args.rows, n_features=47_236)
few = hide_labels(y, 100)

# %%
# `n_rounds_` is the number of rounds over the rows; time is rounds times the time of one pass.

start = time.perf_counter()
model = TSVM(positive_ratio=0.47).fit(X, few)
seconds = time.perf_counter() - start
wrong = float((model.predict(X) != y).mean().compute())
print(f"{args.rows:,} rows: {model.n_rounds_} rounds, {seconds:.1f} s, {100 * wrong:.2f} % wrong")

# %%
# The objective rises from level to level, because the weight of the unlabeled rows does. Within a
# level it falls.

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
plot_objective(model, ax=axis)
plt.show()
