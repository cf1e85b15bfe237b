"""`dask-s3vm tune`: choose parameters by cross-validation on the labeled rows, and train."""

from collections.abc import Mapping
from typing import Any

import click
import numpy as np

from dask_s3vm.cli.methods import (
    MethodCommand,
    kernel_parameters,
    make_estimator,
    method_parameters,
)
from dask_s3vm.cli.options import option
from dask_s3vm.cli.output import Row, show, show_json
from dask_s3vm.cli.report import ending_of
from dask_s3vm.cli.stopping import EXIT_CODES, format_errors, resumable
from dask_s3vm.cli.train import Job, look_at, shape_of, training_options
from dask_s3vm.io.store import exists, join_url
from dask_s3vm.parameters.shared import DEFAULT_LAM
from dask_s3vm.reports.record import RunRecord

#: The grid of a command that names none: the default of `lam` or `C` times these.
FACTORS = (0.01, 0.1, 1.0, 10.0, 100.0)


@click.command(cls=MethodCommand, epilog=EXIT_CODES)
@option(
    "--grid",
    multiple=True,
    group="method",
    metavar="NAME=V,V,...",
    shown="lam or C, five values around its default",
    help="Values of an option to try; repeatable. With --random, NAME=LOW..HIGH draws from a "
    "range, evenly on a logarithmic scale.",
)
@option(
    "--random",
    type=click.IntRange(1),
    group="method",
    metavar="N",
    help="Draw N candidates at random in place of trying all.",
)
@option(
    "--folds",
    type=click.IntRange(2),
    default=5,
    show_default=True,
    group="method",
    metavar="N",
    help="Number of folds of the labeled rows.",
)
@training_options
@click.pass_context
def tune(ctx: click.Context, **chosen: Any) -> None:
    """Try values of parameters on DATA, and train a model with the best.

    Each candidate is trained on all rows but one fold of the labeled ones, in turn, and scored by
    its accuracy on that fold. Of equal ones, that with the largest lam is taken. Standard output
    has the candidates, the best one first.

    \b
    Examples:
      dask-s3vm tune customers.csv --label bought
      dask-s3vm tune rows.npz --method tsvm --grid lam=1e-4,1e-3 --grid lam-unlabeled=0.1,1
      dask-s3vm tune rows.npz --kernel rbf --random 20 --grid sigma=0.1..10 --grid lam=1e-5..1
    """  # noqa: D301
    job = Job(ctx, chosen)
    if job.is_printed():
        return
    estimator = make_estimator(chosen)
    candidates = _candidates(ctx, estimator, chosen)
    job.check(estimator)
    _check_checkpoint(chosen)
    with RunRecord(chosen["report"], job.config, job.say, ending_of) as record:
        folder = chosen["checkpoint"]
        hint = "" if folder is None else f"the scores are in {folder}: run again with --resume"
        with resumable(lambda: _holds_scores(folder), hint), format_errors():
            result = _carry_out(job, estimator, candidates, record)
        _show(result, chosen["as_json"])


def _candidates(
    ctx: click.Context, estimator: Any, chosen: Mapping[str, Any]
) -> dict[str, list[Any] | Any]:
    """Return the values to try, or a distribution of them, for each parameter."""
    known = {one.key.replace("_", "-"): one for one in method_parameters()}
    names = {flag: one.parameter for flag, one in known.items()}
    kinds: dict[str, click.Parameter] = dict(known)
    for one in ctx.command.get_params(ctx):
        if getattr(one, "group", "") == "kernel":
            flag = str(one.name).replace("_", "-")
            kinds[flag], names[flag] = one, str(one.name)
    parameters, found = estimator.get_params(deep=False), {}
    for text in chosen["grid"]:
        flag, sign, values = text.partition("=")
        flag = flag.lstrip("-").replace("_", "-")
        if not sign or not values:
            raise click.UsageError(f"--grid wants NAME=VALUE,VALUE,..., got {text!r}")
        if names.get(flag) not in parameters:
            wanted = sorted(flag for flag, name in names.items() if name in parameters)
            raise click.UsageError(
                f"--grid {text}: {flag!r} is not an option of --method {chosen['method']}; "
                f"there are {', '.join(wanted)}"
            )
        if chosen.get(flag.replace("-", "_")) is not None:
            raise click.UsageError(f"--grid {text}: --{flag} sets a single value; leave out one")
        found[names[flag]] = _values(ctx, text, values, kinds[flag], chosen["random"] is not None)
    if not found:
        name = "lam" if "lam" in parameters else "C"
        usual = DEFAULT_LAM if parameters[name] is None else parameters[name]
        found[name] = [factor * float(np.min(usual)) for factor in FACTORS]
    if "kernel" not in found:  # an option that has no effect with the kernel is refused
        tried = {name: True for name in found if name in names and name not in known}
        kernel_parameters(type(estimator), {**chosen, **tried})
    return found


def _values(
    ctx: click.Context, text: str, values: str, kind: click.Parameter, is_random: bool
) -> Any:
    """Read the values of one option, as the option itself would."""
    low, dots, high = values.partition("..")
    if not dots:
        return [_number(ctx, text, word, kind) for word in values.split(",")]
    bounds = [_number(ctx, text, word, kind) for word in (low, high)]
    if not is_random:
        raise click.UsageError(f"--grid {text}: a range is for --random N; list values instead")
    if not all(isinstance(one, int | float) for one in bounds) or not 0 < bounds[0] < bounds[1]:
        raise click.UsageError(f"--grid {text}: wanted numbers 0 < LOW < HIGH")
    from scipy.stats import loguniform

    return loguniform(*bounds)


def _number(ctx: click.Context, text: str, word: str, kind: click.Parameter) -> Any:
    try:
        value = kind.type.convert(word.strip(), kind, ctx)
    except click.BadParameter as error:
        raise click.UsageError(f"--grid {text}: {error.message}") from None
    return None if value == "all" else value


def _check_checkpoint(chosen: Mapping[str, Any]) -> None:
    if chosen["resume"] and chosen["checkpoint"] is None:
        raise click.UsageError("--resume needs --checkpoint DIR, the folder of the scores")
    if _holds_scores(chosen["checkpoint"]) and not chosen["resume"]:
        raise click.UsageError(
            f"--checkpoint {chosen['checkpoint']}: the folder holds the scores of a search "
            "already; add --resume to go on with it, or remove the folder"
        )


def _holds_scores(directory: str | None) -> bool:
    return directory is not None and exists(join_url(directory, "search.json"))


def _carry_out(
    job: Job, estimator: Any, candidates: Mapping[str, Any], record: RunRecord
) -> dict[str, Any]:
    """Read, search, train and write; returns what is to be shown."""
    from dask_s3vm import save_model
    from dask_s3vm.model_selection import S3VMGridSearchCV, S3VMRandomizedSearchCV
    from dask_s3vm.plotting import plot_search

    chosen = job.chosen
    how: dict[str, Any] = {
        "cv": chosen["folds"],
        "checkpoint": chosen["checkpoint"],
        "verbose": not chosen["quiet"],
        "ties": "simplest",
    }
    search: Any
    if chosen["random"] is None:
        search = S3VMGridSearchCV(estimator, candidates, **how)
    else:
        how |= {"n_iter": chosen["random"], "random_state": chosen["seed"] or 0}
        search = S3VMRandomizedSearchCV(estimator, candidates, **how)
    job.prepare(estimator, record)
    with job.rows(estimator, record) as (rows, _):
        X, y = rows
        job.say(f"searching on {X.shape[0]:,} rows x {X.shape[1]:,} features")
        search.fit(X, y)
        times = job.times()
        best = search.best_estimator_
        rows.attach_encoder(best)
        save_model(best, chosen["model"])
        table = _table(search.cv_results_, search.best_index_)
        result = {
            **shape_of(X),
            "folds": search.n_splits_,  # fewer than asked for if a class has few labels
            "best_accuracy": search.best_score_,
            "best": {_flag(name): value for name, value in search.best_params_.items()},
            **rows.hidden_error(best),
            **times,
            "model": chosen["model"],
        }
        record.history = best.history_
        record.facts |= {"result": result, "times": times, "candidates": table}
        record.pictures["search"] = lambda ax: plot_search(search, ax)
        look_at(job, best, rows, record)
    return {**result, "candidates": table}


def _table(results: Mapping[str, Any], best: int) -> list[Row]:
    """Return one row per candidate, the best one first."""
    ranks = results["rank_test_score"]
    order = np.lexsort((np.arange(len(ranks)) != best, ranks))
    return [
        {
            "rank": int(results["rank_test_score"][number]),
            **{_flag(name): value for name, value in results["params"][number].items()},
            "accuracy": float(results["mean_test_score"][number]),
            "std": float(results["std_test_score"][number]),
            "fit_s": round(float(results["mean_fit_time"][number]), 3),
        }
        for number in order
    ]


def _flag(parameter: str) -> str:
    """Return the name of the option of a parameter."""
    known = {one.parameter: one.key for one in method_parameters()}
    return known.get(parameter, parameter).replace("_", "-")


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show_json(result)
        return
    show(result["candidates"])
    best = " ".join(f"--{name} {value}" for name, value in result["best"].items())
    click.echo(
        f"\nbest: {best}, accuracy {result['best_accuracy']:.4f} over {result['folds']} folds"
    )
    equal = sum(row["rank"] == 1 for row in result["candidates"])
    if equal > 1:
        click.echo(f"{equal} candidates are equal by these labels; the simplest of them was taken")
    if "hidden_error_%" in result:
        error, count = result["hidden_error_%"], result["hidden_rows"]
        click.echo(f"error on {count:,} hidden labels: {error:.2f} %")
    click.echo(f"model: {result['model']}")
