"""
A search with 30 labels
=======================

Only the labeled rows are split into folds. Each training part contains all unlabeled rows.
Candidates that differ in `lam` alone share their work.
"""

import matplotlib.pyplot as plt
import numpy as np

from dask_s3vm import DAS3VM
from dask_s3vm.datasets import hide_labels, make_g2c
from dask_s3vm.model_selection import LabeledKFold, S3VMGridSearchCV

X, y = make_g2c(n_rows=300, n_features=20)
few = hide_labels(y, 30)

grid = {"lam": [1e-3, 1e-2, 1e-1, 1.0], "lam_unlabeled": [0.1, 1.0]}
search = S3VMGridSearchCV(DAS3VM(positive_ratio=0.5), grid, cv=LabeledKFold(5)).fit(X, few)
print("best:", search.best_params_, f"score {search.best_score_:.3f}")
print(f"error on all rows: {100 * float((search.predict(X) != y).mean()):.1f} %")

# %%
# A fold has six labels here, so scores are coarse and candidates tie.

scores = np.reshape(search.cv_results_["mean_test_score"], (4, 2))
figure, axis = plt.subplots(figsize=(5, 3.5), layout="constrained")
for column, weight in enumerate(grid["lam_unlabeled"]):
    axis.semilogx(grid["lam"], scores[:, column], "o-", label=f"lam_unlabeled = {weight}")
axis.set_xlabel("lam")
axis.set_ylabel("accuracy on held-out labels")
axis.legend()
plt.show()
