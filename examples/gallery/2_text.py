"""
Text with 20 labels
===================

4,000 generated rows that look like documents: 5,000 columns, few entries per row. 20 rows have a
label. The share of positive documents is known.
"""

import matplotlib.pyplot as plt
import numpy as np

from dask_s3vm import L2SVM, TSVM
from dask_s3vm.datasets import hide_labels, make_text
from dask_s3vm.plotting import plot_outputs

X, y = make_text(n_rows=4000, n_features=5000)
few = hide_labels(y, 20)
ratio = float(y.mean().compute())
print(f"{X.shape[0]} rows, 20 labels, {100 * ratio:.1f} % of all rows positive")

# %%
# The histogram shows the outputs of the unlabeled rows. Outputs between -1 and +1 are inside the
# margin. A TSVM pushes rows out of it.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
for model, axis in zip((L2SVM(), TSVM(positive_ratio=ratio)), axes, strict=True):
    model.fit(X, few)
    error = 100 * np.mean(np.asarray(model.predict(X)) != np.asarray(y))
    plot_outputs(model, X, few, ax=axis)
    axis.set_title(f"{type(model).__name__}: {error:.1f} % wrong")
    print(f"{type(model).__name__}: {error:.1f} % of all rows wrong")

plt.show()
