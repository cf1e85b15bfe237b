"""
Two moons, eight labels
=======================

Eight rows are labeled and 392 are not. An SVM sees the labels alone. A TSVM looks for a boundary
that runs where there are few rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from dask_s3vm import L2SVM, TSVM
from dask_s3vm.datasets import hide_labels, make_moons
from dask_s3vm.plotting import plot_decision_boundary

X, y = (np.asarray(part) for part in make_moons(n_rows=400, random_state=1))
few = hide_labels(y, 8)

kernel = {"kernel": "rbf", "sigma": 0.3, "n_components": 100, "random_state": 0}
models = [L2SVM(lam=1e-2, **kernel), TSVM(lam=1e-2, positive_ratio=0.5, **kernel)]

# %%
# Train both and draw the boundary of each. Small dots are unlabeled rows.

figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for model, axis in zip(models, axes, strict=True):
    model.fit(X, few)
    error = 100 * np.mean(model.predict(X) != y)
    plot_decision_boundary(model, X, few, ax=axis)
    axis.set_title(f"{type(model).__name__}: {error:.1f} % of the rows wrong")
    print(f"{type(model).__name__}: {error:.1f} % wrong")

plt.show()
