"""`dask-s3vm train`: from a file of rows to a model."""

import sys
import time
from typing import Any

import click

from dask_s3vm.cli.cluster import ClusterOptions, cluster_options, running_on
from dask_s3vm.cli.data import read_rows, split_options, training_data_options
from dask_s3vm.cli.errors import BadData, told_plainly
from dask_s3vm.cli.kernel import count_or_all, kernel_options, kernel_parameters
from dask_s3vm.cli.tables import show, work_of

_LINEAR = ("lam", "class_weight", "fit_intercept")
_NEWTON = (*_LINEAR, "tol", "max_iter")
_SEMI = ("lam_unlabeled", "positive_ratio", "threshold", *_NEWTON)
_WIDE = ("n_components", "random_state")  # landmarks, also for the linear kernel where X is wide
_SEARCH = ("lam_unlabeled", "positive_ratio", "n_restarts", "patience", "balance_tol")
_LABELS = ("C", "C_unlabeled", "positive_ratio", "center", "class_weight", "fit_intercept")
_STAR = ("C", "confidence", "positive_ratio", "min_share", "solver", "tol", "max_iter")

#: Method -> its estimator, and the options that only some methods have.
METHODS: dict[str, tuple[str, tuple[str, ...]]] = {
    "l2svm": ("L2SVM", _NEWTON),
    "tsvm": ("TSVM", (*_SEMI, "max_switches")),
    "da": ("DAS3VM", _SEMI),
    "qn": ("QNS3VM", (*_SEMI, "offset")),
    "rlsc": ("RLSC", (*_LINEAR, *_WIDE)),
    "s2rlsc": ("S2RLSC", (*_LINEAR, *_SEARCH, *_WIDE)),
    "star": ("STARSVM", _STAR),
    "qp": ("QPS3VM", (*_LABELS, "tol", "max_iter", "n_restarts", "random_state")),
    "sqp": ("SubmodularS3VM", (*_LABELS, "tol", "max_iter", "pick", "scheme")),
}

#: Parameter -> its option, where the names differ.
_OPTIONS = {"n_restarts": "restarts", "random_state": "seed", "fit_intercept": "intercept"}


@click.command()
@click.argument("data", nargs=-1, required=True)
@click.option("--method", type=click.Choice(sorted(METHODS)), default="l2svm", show_default=True)
@click.option("--model", default="model.npz", show_default=True, help="Model file to write.")
@click.option("--lam", type=float, help="Regularisation; default 1e-3, rlsc and s2rlsc 1.")
@click.option("--lam-unlabeled", type=float, help="Weight of unlabelled rows (not: l2svm, rlsc).")
@click.option("--positive-ratio", type=float, help="Share of positive rows (likewise).")
@click.option("--C", "C", type=float, help="Weight of the loss (qp, sqp, star); default 1.")
@click.option("--C-unlabeled", "C_unlabeled", type=float, help="Of unlabelled rows (qp, sqp).")
@click.option("--center/--no-center", default=None, help="See QPS3VM (qp, sqp).")
@click.option("--pick", type=click.Choice(["fewer", "positive"]), help="Which rows (sqp).")
@click.option("--scheme", type=click.Choice(["auto", "exact", "greedi"]), help="Greedy (sqp).")
@click.option("--max-switches", type=int, help="Most pairs to switch at a time (tsvm).")
@click.option("--threshold", type=click.Choice(["zero", "ratio"]), help="See TSVM (tsvm, da, qn).")
@click.option("--offset", type=click.Choice(["balanced", "free"]), help="See QNS3VM (qn).")
@click.option("--confidence", type=float, help="What a later label counts; default 0.7 (star).")
@click.option("--min-share", type=float, help="Least share of rows that a stage labels (star).")
@click.option(
    "--solver", type=click.Choice(["auto", "exact", "sharded"]), help="See STARSVM (star)."
)
@click.option("--unlabeled", default="-1", show_default=True, help="Mark of unlabelled rows.")
@click.option("--class-weight", type=click.Choice(["none", "balanced"]), help="Not star.")
@click.option("--intercept/--no-intercept", default=None, help="Have a bias, or not (not star).")
@click.option("--tol", type=float, help="Relative gap at stop; default 1e-6 (star: 1e-3).")
@click.option(
    "--max-iter", type=int, help="Newton steps; default 100 (qn: evaluations; 500, star: 1000)."
)
@click.option("--restarts", type=int, help="Starts of s2rlsc (default 50) and qp (0).")
@click.option("--patience", type=int, help="Stop after so many restarts in vain (s2rlsc).")
@click.option("--balance-tol", type=float, help="Around --positive-ratio (s2rlsc); default 0.1.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
@kernel_options
@training_data_options
@cluster_options
def train(
    data: tuple[str, ...],
    method: str,
    model: str,
    lam: float | None,
    lam_unlabeled: float | None,
    C: float | None,
    C_unlabeled: float | None,
    positive_ratio: float | None,
    center: bool | None,
    pick: str | None,
    scheme: str | None,
    max_switches: int | None,
    threshold: str | None,
    offset: str | None,
    confidence: float | None,
    min_share: float | None,
    solver: str | None,
    unlabeled: str,
    class_weight: str | None,
    intercept: bool | None,
    tol: float | None,
    max_iter: int | None,
    restarts: int | None,
    patience: int | None,
    balance_tol: float | None,
    as_json: bool,
    quiet: bool,
    kernel: str,
    n_components: str | None,
    sigma: float | None,
    gamma: float | None,
    degree: float | None,
    coef0: float | None,
    seed: int | None,
    label_rows: int | None,
    label_seed: int | None,
    **given: Any,
) -> None:
    """Train on DATA: svmlight text (.svm, .svm.gz; also several files, a glob), .npz, or csv."""
    import dask_s3vm

    began = time.perf_counter()
    own = {
        "lam": lam,
        "class_weight": class_weight,
        "fit_intercept": intercept,
        "confidence": confidence,
        "min_share": min_share,
        "solver": solver,
        "lam_unlabeled": lam_unlabeled,
        "C": C,
        "C_unlabeled": C_unlabeled,
        "positive_ratio": positive_ratio,
        "center": center,
        "pick": pick,
        "scheme": scheme,
        "max_switches": max_switches,
        "threshold": threshold,
        "offset": offset,
        "tol": tol,
        "max_iter": max_iter,
        "n_restarts": restarts,
        "patience": patience,
        "balance_tol": balance_tol,
    }
    of_kernel: dict[str, Any] = {
        "n_components": n_components,
        "sigma": sigma,
        "gamma": gamma,
        "degree": degree,
        "coef0": coef0,
        "seed": seed,
    }
    if kernel == "linear" and "random_state" in METHODS[method][1]:
        own["random_state"] = of_kernel.pop("seed")
        own["n_components"] = count_or_all(of_kernel.pop("n_components"))
    estimator = getattr(dask_s3vm, METHODS[method][0])(
        **_options_of(method, own),
        **kernel_parameters(kernel, of_kernel),
        unlabeled=_mark(unlabeled),
        verbose=not quiet,
    )
    with told_plainly():
        estimator._validate_params()
        source, where = split_options(given)
        with running_on(ClusterOptions(**where)):
            _say(quiet, f"reading {', '.join(data)}")
            rows = read_rows(
                data,
                unlabeled=_mark(unlabeled),
                label_rows=label_rows,
                label_seed=label_seed,
                **source,
            )
            X, y = rows
            if y is None:
                raise BadData(f"{data[0]} has no labels: an array `y` is wanted beside the rows")
            read = time.perf_counter()
            _say(quiet, f"training on {X.shape[0]:,} rows x {X.shape[1]:,} features")
            estimator.fit(X, y)
            trained = time.perf_counter()
            rows.keep_encoder(estimator)
            hidden = rows.hidden_error(estimator)
        dask_s3vm.save_model(estimator, model)
    show(
        [
            {
                "rows": int(X.shape[0]),
                "features": int(X.shape[1]),
                "objective": estimator.objective_,
                **work_of(estimator),
                **hidden,
                "termination": estimator.termination_,
                "read_s": round(read - began, 2),
                "train_s": round(trained - read, 2),
                "model": model,
            }
        ],
        as_json,
    )


def _options_of(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """Options that belong to some methods only; one that would have no effect is refused."""
    chosen = {name: value for name, value in given.items() if value is not None}
    for name in chosen:
        if name not in METHODS[method][1]:
            option = _OPTIONS.get(name, name).replace("_", "-")
            raise click.UsageError(f"--{option} has no effect with --method {method}")
    if chosen.get("class_weight") == "none":
        chosen["class_weight"] = None
    if chosen.get("n_components") == "all":
        chosen["n_components"] = None
    return chosen


def _mark(text: str) -> int | str | None:
    """Read the mark: a number, a word, or `none`."""
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        return text


def _say(quiet: bool, message: str) -> None:
    if not quiet:
        print(message, file=sys.stderr)
