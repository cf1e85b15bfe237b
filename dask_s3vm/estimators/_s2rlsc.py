"""Semi-supervised regularized least-squares classification."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from dask_s3vm.estimators._base import LinearS3VM
from dask_s3vm.estimators._least_squares import (
    PLACEMENT,
    LeastSquaresParameters,
    SearchParameters,
    check_population,
    seed_of,
)
from dask_s3vm.estimators._parameters import (
    NOT_NEGATIVE,
    fitted,
    parameter,
    parametrized,
    redeclared,
)
from dask_s3vm.estimators._ratio import has_unlabeled, positive_ratios
from dask_s3vm.estimators._resident import Resident
from dask_s3vm.estimators._rlsc import check_lams, copy_facts
from dask_s3vm.estimators._shared import (
    ClassWeightParameters,
    InterceptParameters,
    RegularizationParameters,
    RunParameters,
    ShardedSearch,
    TransductionParameters,
)
from dask_s3vm.interrupts import interruptible
from dask_s3vm.methods.base import LinearSolution, collect
from dask_s3vm.methods.restarts import SearchSettings, window_of
from dask_s3vm.methods.rlsc import train_rlsc
from dask_s3vm.methods.s2rlsc import (
    LabelSearch,
    Placement,
    Projected,
    label_array,
    prepare_rows,
)


@parametrized
class S2RLSC(
    TransductionParameters,
    SearchParameters,
    ShardedSearch,
    InterceptParameters,
    LeastSquaresParameters,
    LinearS3VM,
    ClassWeightParameters,
    RunParameters,
):
    """Semi-supervised regularized least squares, by local search with restarts.

    Looks for labels of the unlabeled rows and a model that minimize (Gieseke et al., eq. 10)::

        1/l sum_lab (y_i - w.x_i)^2 + lam_unlabeled/u sum_unl (y_j - w.x_j)^2 + lam |w|^2

    with about a share `positive_ratio` of the unlabeled rows positive. For given labels the best w
    is known in closed form; the labels are searched by flips of single rows, each of which costs
    O(r) for r columns or landmarks, whatever the number of rows (Theorem 2). Searches start from
    random labels, `n_restarts` times, in parallel; the best one wins. With ``lam_unlabeled=0`` this
    is exactly `RLSC`.

    The searches work on a factor of u x r numbers. With ``sharded=False`` it is given to every
    worker, and restarts are tasks. With ``sharded=True`` it stays where the rows are; restarts
    advance together, and each shard makes sweeps of a (1+1)-EA over its own rows between
    synchronizations, whatever `population` says. "auto" shards a factor of more than 256 MiB, which
    takes longer to send than to search.

    Notes
    -----
    With a dask client restarts are tasks on its workers; a worker that dies costs its restarts,
    which others run again. For an int as `random_state` the result does not depend on the number of
    workers or threads.

    References
    ----------
    F. Gieseke, O. Kramer, A. Airola, T. Pahikkala. Efficient Recurrent Local Search Strategies for
    Semi- and Unsupervised Regularized Least-Squares Classification.

    Examples
    --------
    >>> from dask_s3vm import S2RLSC
    >>> from dask_s3vm.datasets import hide_labels, make_g2c
    >>> X, y = make_g2c(n_rows=500, n_features=50)
    >>> model = S2RLSC(positive_ratio=0.5, n_restarts=10, random_state=0)
    >>> model = model.fit(X, hide_labels(y, 20))
    >>> bool((model.transduction_ == y).mean().compute() > 0.95)
    True
    """

    lam: float = redeclared(RegularizationParameters, "lam", default=1.0, kw_only=False)
    balance_tol: float = parameter(
        "float",
        "The share of positive labels stays within `positive_ratio` +- this, at all times. If no "
        "number of rows does, the nearest one is kept.",
        [NOT_NEGATIVE],
        default=0.1,
    )
    center: bool = parameter(
        "bool",
        "Whether to subtract the mean from the rows first. The paper does not.",
        ["boolean"],
        default=False,
    )

    transduction_: Any = fitted(
        "array of shape (n,)",
        "Labels of the training rows: those given, and those found by the search (for more than "
        "two classes: predicted by the model). A dask array if X is one.",
    )
    n_iter_: int = fitted("int", "Restarts, the most over the binary problems.")
    history_: list[dict[str, Any]] = fitted(
        "list of dict",
        "One row per restart, in their order: fitness, fitness of its start, flips looked at and "
        "carried out, seconds.",
    )

    warm_start = False

    _renamed: ClassVar[dict[str, tuple[str, str]]] = PLACEMENT

    @interruptible
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "S2RLSC":
        """Train on labeled and unlabeled rows.

        Parameters
        ----------
        X : array of shape (n, d)
            numpy, scipy.sparse, `sparse`, or a dask array with blocks of these.
        y : array of shape (n,), numpy or dask
            Labels; `unlabeled` marks rows without one.
        sample_weight : array of shape (n,), numpy or dask, or None
            Weights of the rows, within the labeled and within the unlabeled ones.

        Returns
        -------
        self
        """
        fit_s2rlsc_path(self, [self], X, y, sample_weight)
        return self


@interruptible
def s2rlsc_path(
    X: Any, y: Any, lams: Sequence[float], *, sample_weight: Any = None, **params: Any
) -> list[S2RLSC]:
    """Train an `S2RLSC` for each of several `lam`, from one eigendecomposition.

    Parameters
    ----------
    X, y, sample_weight : see `S2RLSC.fit`.
    lams : values of lam, in any order.
    **params : other parameters of `S2RLSC`; for model selection the paper takes 10 restarts.

    Returns
    -------
    Fitted estimators, in the order of `lams`: the same as if each were fitted alone.
    """
    models = [S2RLSC(lam=lam, **params) for lam in check_lams(lams, "lams")]
    fit_s2rlsc_path(clone(models[0]), models, X, y, sample_weight)
    return models


def fit_s2rlsc_path(
    guide: S2RLSC,
    models: list[S2RLSC],
    X: Any,
    y: Any,
    sample_weight: Any,
    seeded: bool = False,
) -> None:
    """Fit models that differ in lam, on the rows that `guide` takes in.

    With `seeded`, a restart begins with the labels that the one of the same number has found for
    the model before, in place of random ones.
    """
    population = check_population(guide.population)
    solved: list[tuple[LinearSolution, np.ndarray | None, list[dict[str, Any]], bool]] = []
    lams = [model.lam for model in models]
    with guide._placed(X, y, sample_weight, lams=lams) as rows:
        supervised = not has_unlabeled(guide, rows) or guide.lam_unlabeled == 0
        ratios = positive_ratios(guide, rows)
        history = rows.history
        if supervised:
            for solution in train_rlsc(rows.engine, rows.costs, lams, guide.fit_intercept):
                solved.append((solution.linear, None, [], False))
        else:
            settings = SearchSettings(
                guide.n_restarts, population, guide.patience, seed_of(guide.random_state)
            )
            totals = rows.totals
            reduced = prepare_rows(
                rows.engine,
                rows.costs,
                guide.lam_unlabeled / totals.unlabeled_weight,
                guide.fit_intercept,
                rows.positives,
                guide.center,
            )
            where = Placement(guide._place("shards", "pool"), guide.dtype)
            projected = Projected(reduced, guide.dtype)
            starts: list[dict[int, np.ndarray]] = [{} for _ in ratios]
            for place, model in enumerate(models):
                search = LabelSearch(reduced, model.lam, totals.n_unlabeled, where, projected)
                found = []
                for number, ratio in enumerate(ratios):
                    window = window_of(totals.n_unlabeled, ratio, guide.balance_tol)
                    about = {"class": int(rows.positives[number]), "lam": float(model.lam)}
                    name = f"model {place}, class {rows.positives[number]}"
                    given = starts[number] if seeded else None
                    found.append(search.run(number, window, settings, about, history, name, given))
                labels = None
                if len(found) == 1 and not isinstance(X, Resident):
                    labels = label_array(rows.engine, found[0], sample_weight is not None)
                linear = collect(rows.engine, [one.solution for one in found])
                own = [row for row in history.rows if row["lam"] == model.lam]
                solved.append((linear, labels, own, not search.pooled))
    for model, (linear, labels, own, sharded) in zip(models, solved, strict=True):
        if model is not guide:
            copy_facts(guide, model)
        model._keep(linear, own)
        model._to_columns()
        model.sharded_ = sharded
        model.positive_ratio_ = ratios[0] if len(ratios) == 1 else np.array(ratios)
        found_classes = None if labels is None else model.classes_[labels]
        model.transduction_ = model._complete(X, y, rows.block_rows, found_classes)
