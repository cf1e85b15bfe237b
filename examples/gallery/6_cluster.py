"""
The same bits on a cluster
==========================

A fit on a cluster of two processes gives the model of a single process, bit for bit. A cluster of
several machines needs the address of its scheduler instead: ``Client("tcp://host:8786")``.
"""

import dask
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client, LocalCluster

from dask_s3vm import TSVM
from dask_s3vm.datasets import hide_labels, make_text


def train():
    """Train on small shards, so that both workers get some of them."""
    X, y = make_text(n_rows=4000, n_features=5000, chunks=500)
    with dask.config.set({"s3vm.local-bytes": 0, "s3vm.shard-bytes": "256 KiB"}):
        return TSVM(positive_ratio=0.47).fit(X, hide_labels(y, 50))


# %%
# Without ``local-bytes`` a fit this small would stay in the client's process, where it is faster.

if __name__ == "__main__":
    alone = train()
    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with local as cluster, Client(cluster) as client:
        print(f"workers: {len(client.scheduler_info()['workers'])}")
        shared = train()
    print("same weights, bit for bit:", bool(np.all(alone.coef_ == shared.coef_)))

    figure, axis = plt.subplots(figsize=(4, 4), layout="constrained")
    axis.plot(alone.coef_[0], shared.coef_[0], ".", markersize=3)
    axis.set_xlabel("weights of one process")
    axis.set_ylabel("weights of two workers")
    plt.show()
