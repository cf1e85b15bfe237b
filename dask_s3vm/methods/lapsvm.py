"""LapSVM: the supervised SVM with outputs that are smooth along a graph of the rows.

M. Belkin, P. Niyogi, V. Sindhwani, *Manifold Regularization*, JMLR 7, 2006; here in the primal
(Melacci & Belkin, JMLR 12, 2011), over the columns or the landmark features of the rows. One outer
iteration is one Newton step.
"""

import numpy as np

from dask_s3vm import interrupts
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import ClassTotals
from dask_s3vm.problems.manifold import Roughness, neighbor_edges
from dask_s3vm.problems.sample import draw_sample

#: Most rows of the graph: its cost grows with their square, that of a fit only with all rows. On
#: 70,000 images of digits (100 labels, 300 landmarks) graphs of 1,000, 2,500, 5,000, 10,000 and
#: 20,000 rows have 21.6, 20.4, 19.9, 19.7 and 19.7 % of the labels wrong; all rows, each joined to
#: its nearest ones among 5,000, 19.6 %, in twice the time; no graph 20.8 %.
MOST_ROWS = 10_000


def draw_graph(engine: Engine, totals: ClassTotals, n_neighbors: int) -> Roughness | None:
    """Draw rows, join each to its nearest neighbors; None where there is no edge.

    Neighbors are near in the columns that the engine has: for a kernel, in its features.

    Costs: 1 round, which brings up to `MOST_ROWS` rows here; their distances.
    """
    share = min(1.0, MOST_ROWS / max(int(totals.counts.sum()) + totals.n_unlabeled, 1))
    rows = draw_sample(engine, share, share).matrix().astype(np.float64)
    edges = neighbor_edges(rows, n_neighbors, interrupts.check)
    return Roughness(rows, edges) if len(edges) else None
