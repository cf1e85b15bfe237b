"""`dask-s3vm train`: from a file of rows to a model."""

import sys
import time
from typing import Any

import click

from dask_s3vm.cli.cluster import ClusterOptions, cluster_options, running_on
from dask_s3vm.cli.data import data_options, read_rows
from dask_s3vm.cli.errors import BadData, told_plainly
from dask_s3vm.cli.kernel import kernel_options, kernel_parameters
from dask_s3vm.cli.tables import show

_SEMI = ("lam", "lam_unlabeled", "positive_ratio", "threshold")
_LABELS = ("C", "C_unlabeled", "positive_ratio", "center")

#: Method -> its estimator, and the options that only some methods have.
METHODS: dict[str, tuple[str, tuple[str, ...]]] = {
    "l2svm": ("L2SVM", ("lam",)),
    "tsvm": ("TSVM", (*_SEMI, "max_switches")),
    "da": ("DAS3VM", _SEMI),
    "qp": ("QPS3VM", (*_LABELS, "n_restarts")),
    "sqp": ("SubmodularS3VM", (*_LABELS, "pick", "scheme")),
}


@click.command()
@click.argument("data", nargs=-1, required=True)
@click.option("--method", type=click.Choice(sorted(METHODS)), default="l2svm", show_default=True)
@click.option("--model", default="model.npz", show_default=True, help="Model file to write.")
@click.option("--lam", type=float, help="Regularisation (l2svm, tsvm, da); default 1e-3.")
@click.option("--lam-unlabeled", type=float, help="Weight of unlabelled rows (tsvm, da).")
@click.option("--C", "C", type=float, help="Cost of labelled rows (qp, sqp); default 1.")
@click.option("--C-unlabeled", "C_unlabeled", type=float, help="Of unlabelled rows (qp, sqp).")
@click.option("--positive-ratio", type=float, help="Share of positive rows (all but l2svm).")
@click.option("--center/--no-center", default=None, help="See QPS3VM (qp, sqp).")
@click.option("--n-restarts", type=int, help="Random starts (qp); --seed draws them.")
@click.option("--pick", type=click.Choice(["fewer", "positive"]), help="Which rows (sqp).")
@click.option("--scheme", type=click.Choice(["auto", "exact", "greedi"]), help="Greedy (sqp).")
@click.option("--max-switches", type=int, help="Most pairs to switch at a time (tsvm).")
@click.option("--threshold", type=click.Choice(["zero", "ratio"]), help="See TSVM (tsvm, da).")
@click.option("--unlabeled", default="-1", show_default=True, help="Mark of unlabelled rows.")
@click.option("--class-weight", type=click.Choice(["none", "balanced"]), default="none")
@click.option("--intercept/--no-intercept", default=True, help="Whether to have a bias.")
@click.option("--tol", type=float, default=1e-6, show_default=True, help="Relative gap at stop.")
@click.option("--max-iter", type=int, default=100, show_default=True, help="Newton steps.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
@kernel_options
@data_options
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
    n_restarts: int | None,
    pick: str | None,
    scheme: str | None,
    max_switches: int | None,
    threshold: str | None,
    unlabeled: str,
    class_weight: str,
    intercept: bool,
    tol: float,
    max_iter: int,
    as_json: bool,
    quiet: bool,
    kernel: str,
    n_components: str | None,
    sigma: float | None,
    gamma: float | None,
    degree: float | None,
    coef0: float | None,
    seed: int | None,
    n_features: int | None,
    zero_based: str,
    blocksize: str,
    **where: Any,
) -> None:
    """Train on DATA: svmlight text (.svm, .svm.gz, .bz2; several files or a glob) or one .npz."""
    import dask_s3vm

    began = time.perf_counter()
    own = {
        "lam": lam,
        "lam_unlabeled": lam_unlabeled,
        "C": C,
        "C_unlabeled": C_unlabeled,
        "positive_ratio": positive_ratio,
        "center": center,
        "n_restarts": n_restarts,
        "pick": pick,
        "scheme": scheme,
        "max_switches": max_switches,
        "threshold": threshold,
    }
    of_kernel = {
        "n_components": n_components,
        "sigma": sigma,
        "gamma": gamma,
        "degree": degree,
        "coef0": coef0,
        "seed": seed,
    }
    estimator = getattr(dask_s3vm, METHODS[method][0])(
        **_options_of(method, own),
        **kernel_parameters(kernel, of_kernel, random=bool(n_restarts)),
        unlabeled=_mark(unlabeled),
        class_weight=None if class_weight == "none" else class_weight,
        fit_intercept=intercept,
        tol=tol,
        max_iter=max_iter,
        verbose=not quiet,
    )
    with told_plainly():
        estimator._validate_params()
        with running_on(ClusterOptions(**where)):
            _say(quiet, f"reading {', '.join(data)}")
            X, y = read_rows(data, n_features, zero_based, blocksize)
            if y is None:
                raise BadData(f"{data[0]} has no labels: an array `y` is wanted beside the rows")
            read = time.perf_counter()
            _say(quiet, f"training on {X.shape[0]:,} rows x {X.shape[1]:,} features")
            estimator.fit(X, y)
            trained = time.perf_counter()
        dask_s3vm.save_model(estimator, model)
    show(
        [
            {
                "rows": int(X.shape[0]),
                "features": int(X.shape[1]),
                "objective": estimator.objective_,
                "newton_steps": _newton_steps(estimator),
                "cg_steps": sum(row.get("cg_steps", 0) for row in estimator.history_),
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
            option = name.replace("_", "-")
            raise click.UsageError(f"--{option} has no effect with --method {method}")
    return chosen


def _newton_steps(estimator: Any) -> int:
    """Newton steps of the SVM; `n_iter_` counts something else where labels are found first."""
    trained = [row for row in estimator.history_ if row.get("event") == "train"]
    return max((row["newton_steps"] for row in trained), default=estimator.n_iter_)


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
