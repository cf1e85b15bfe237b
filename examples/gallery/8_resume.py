"""
Stop a fit and resume it
========================

A fit with `checkpoint` leaves its state behind when it is stopped. The same fit then resumes and
ends with the same bits as one that was never stopped.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

from dask_s3vm import DAS3VM
from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.plotting import plot_annealing

X, y = make_text(n_rows=2000, n_features=2000)
few = hide_labels(y, 50)
whole = DAS3VM(positive_ratio=0.47).fit(X, few)


class Stop(Exception):
    """Stands for Ctrl-C, a time limit or a machine that goes down."""


steps = []


def stop(row):
    """Stop after five steps."""
    steps.append(row)
    if len(steps) == 5:
        raise Stop


# %%
# The first fit is stopped after five steps. The second one needs the same directory, nothing else.

with tempfile.TemporaryDirectory() as state:
    try:
        DAS3VM(positive_ratio=0.47, checkpoint=state, callbacks=stop).fit(X, few)
    except Stop:
        print("stopped")
    model = DAS3VM(positive_ratio=0.47, checkpoint=state).fit(X, few)
print("same weights, bit for bit:", bool(np.all(model.coef_ == whole.coef_)))

# %%
# The path of the annealing: as the temperature falls, labels become certain.

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
plot_annealing(model, ax=axis)
plt.show()
