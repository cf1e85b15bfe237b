"""
Network connections: how many labels?
=====================================

Generated rows in the shape of the KDD Cup 1999 set: attacks against normal connections. Each point
is the mean over three draws of labels. `examples/kdd99.py` reads the real files.
"""

import matplotlib.pyplot as plt
import numpy as np

from dask_s3vm import L2SVM, TSVM
from dask_s3vm.datasets import hide_labels, make_intrusion
from dask_s3vm.plotting import plot_error_over_labels

X, y = make_intrusion(n_rows=5000)
X, truth = X.persist(), y.compute()
ratio = float(truth.mean())
print(f"{X.shape[0]} rows, {X.shape[1]} columns, {100 * ratio:.1f} % positive")

# %%
# Compare the two on every draw. A draw can favor either of them.

errors = {"L2SVM": {}, "TSVM": {}}
for n_labels in (20, 50, 100):
    for draw in range(3):
        few = hide_labels(y, n_labels, random_state=draw)
        for model in (L2SVM(), TSVM(positive_ratio=ratio)):
            wrong = float(np.mean(np.asarray(model.fit(X, few).predict(X)) != truth))
            errors[type(model).__name__].setdefault(n_labels, []).append(wrong)
    means = ", ".join(f"{name} {100 * np.mean(e[n_labels]):.2f} %" for name, e in errors.items())
    print(f"{n_labels} labels: {means}")

figure, axis = plt.subplots(figsize=(5, 3.5), layout="constrained")
plot_error_over_labels(errors, ax=axis)
plt.show()
