"""
A table of numbers and words
============================

A csv file of customers, 20 of them with a label. Columns of words become 0/1 columns, numbers are
scaled to [0, 1]. The encoder is stored in the model file.
"""

import csv
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dask_s3vm import TSVM, load_model, save_model
from dask_s3vm.io import read_table

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
buys = rng.random(2000) < 0.4
labeled = set(rng.choice(2000, 20, replace=False))

with (folder / "customers.csv").open("w", newline="") as stream:
    rows = csv.writer(stream)
    rows.writerow(["age", "visits", "country", "device", "bought"])
    for i, bought in enumerate(buys):
        rows.writerow(
            [
                int(np.clip(rng.normal(45 if bought else 30, 8), 16, 90)),
                rng.poisson(9 if bought else 3),
                rng.choice(["de", "fr", "pl"], p=[0.6, 0.2, 0.2] if bought else [0.2, 0.3, 0.5]),
                rng.choice(["phone", "laptop"], p=[0.2, 0.8] if bought else [0.7, 0.3]),
                ("yes" if bought else "no") if i in labeled else "",
            ]
        )

# %%
# Read, train and save.

X, y, encoder = read_table(folder / "customers.csv", label="bought", positive="yes")
model = TSVM(lam=1e-2, positive_ratio=0.4).fit(X, y)
model.encoder_ = encoder
save_model(model, folder / "model.npz")
print(f"{100 * np.mean(np.asarray(model.predict(X)) != buys):.1f} % of all rows wrong")

# %%
# Later, elsewhere: new rows are encoded as the training rows were.

model = load_model(folder / "model.npz")
new = [
    {"age": 52, "visits": 11, "country": "de", "device": "laptop"},
    {"age": 21, "visits": 1, "country": "pl", "device": "phone"},
]
for row, label in zip(new, model.predict(model.encoder_.transform(new)), strict=True):
    print(row, "->", "buys" if label else "does not buy")

# %%
# The weights say which columns matter.

names, weights = encoder.get_feature_names_out(), model.coef_[0]
order = np.argsort(weights)
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.barh([names[i] for i in order], weights[order])
axis.set_xlabel("weight")
axis.set_title("positive weights speak for a purchase")
plt.show()
