"""The SVM whose outputs are smooth along a graph of neighbors, LapSVM."""

from collections.abc import Sequence
from typing import Any

from dask_s3vm.estimators._base import Solver
from dask_s3vm.estimators._fit_rows import FitRows
from dask_s3vm.estimators._l2svm import solve_l2svm
from dask_s3vm.estimators._safe import GuardedS3VM
from dask_s3vm.methods.base import BinaryJob, BinarySolution
from dask_s3vm.methods.lapsvm import draw_graph
from dask_s3vm.parameters.fields import parametrized
from dask_s3vm.parameters.methods import LapSVMParameters
from dask_s3vm.problems.manifold import Smoothness


@parametrized
class LapSVM(LapSVMParameters, GuardedS3VM):
    r"""SVM whose outputs change little between neighboring rows (Laplacian SVM), in the primal.

    The model is a mean of what the method finds and of `L2SVM`; see `supervised_part`.

    Minimizes, o = w.x, over the labeled rows and the edges E of a graph of all rows::

        1/2l sum_lab max(0, 1 - y o)^2 + lam/2 |w|^2 + lam_manifold/2|E| sum_E (o_i - o_j)^2

    The graph joins each row to its `n_neighbors` nearest ones, in either direction. It is for
    classes along curved shapes, such as images of things that turn or of digits, and for a kernel:
    a plane can hardly follow a shape. Where the classes are clusters, use `TSVM`; where neither
    holds, the graph misleads. With 20 labels or more, the labels are asked (see `supervised_part`);
    with fewer, ``safe=True`` asks them.

    Up to 10,000 rows are in the graph, drawn by their numbers and brought into this process, so
    that the cost of a fit grows linearly with the rows; more of them hardly lower the error. With a
    kernel, neighbors are near in its features. Sample weights do not weigh edges, but rows of
    weight 0 have none. With ``lam_manifold=0`` it is exactly `L2SVM`; with ``balance="paper"`` the
    minimum above is the model.

    References
    ----------
    M. Belkin, P. Niyogi, V. Sindhwani. Manifold Regularization: A Geometric Framework for Learning
    from Labeled and Unlabeled Examples. JMLR 7, 2006.
    S. Melacci, M. Belkin. Laplacian Support Vector Machines Trained in the Primal. JMLR 12, 2011.

    Examples
    --------
    >>> from dask_s3vm import LapSVM
    >>> from dask_s3vm.datasets import hide_labels, make_moons
    >>> X, y = make_moons(400, noise=0.05, random_state=0)
    >>> model = LapSVM(lam=1e-4, kernel="rbf", sigma=0.3, n_components=100, random_state=0)
    >>> float((model.fit(X, hide_labels(y, 6)).predict(X) == y).mean().compute()) > 0.95
    True
    """

    _seeks_gap = False

    def _is_supervised(self, totals: Any) -> bool:
        return self.lam_manifold == 0 or super()._is_supervised(totals)

    def _solver(self, rows: FitRows, models: Sequence[Any]) -> Solver:
        # one graph for all classes, and for all lam
        graph = None if rows.supervised else draw_graph(rows.engine, rows.totals, self.n_neighbors)

        def solve(rows: FitRows, job: BinaryJob) -> BinarySolution:
            model = models[job.place]
            smoothness = None if graph is None else Smoothness(model.lam_manifold, graph)
            return solve_l2svm(model, job, smoothness)

        return solve
