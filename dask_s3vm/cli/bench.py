"""`dask-s3vm bench`: measurements as ratios within one run; see `dask_s3vm.bench`."""

from pathlib import Path
from typing import Any

import click

from dask_s3vm.cli.options import json_option
from dask_s3vm.cli.output import show, show_tables


def _with_default(*names: str, **more: Any) -> Any:
    """Decorate a command with an option whose help shows its default."""
    return click.option(*names, show_default=True, **more)


@click.group()
def bench() -> None:
    """Measure ratios on this machine: within one run, ratios are less noisy than times."""


@bench.command()
@_with_default(
    "--rows", multiple=True, default=(20_000, 200_000, 800_000), help="Number of rows; repeatable."
)
@_with_default("--repeat", default=12, help="Runs; the best counts.")
@_with_default(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float64",
    help="Type of the values.",
)
@_with_default("--columns", default=47_236, help="Number of columns.")
@_with_default("--nonzeros", default=76, help="Mean number of nonzeros of a row.")
@_with_default(
    "--spread",
    type=click.Choice(["zipf", "uniform"]),
    default="zipf",
    help="Frequencies of the columns: as in text, or all alike.",
)
@json_option
def rounds(rows: tuple[int, ...], as_json: bool, **more: Any) -> None:
    """Time a Gram product X^T (X p) of sparse rows in every engine."""
    from dask_s3vm.bench.methods import measure_rounds

    show_tables({f"{n:,} rows": measure_rounds(n, **more) for n in rows}, as_json)


@bench.command()
@_with_default("--rows", default=200_000, help="Number of rows.")
@_with_default("--workers", multiple=True, default=(1, 2, 4), help="Number of workers; repeatable.")
@_with_default("--repeat", default=12, help="Runs; the best counts.")
@json_option
def formula(rows: int, workers: tuple[int, ...], repeat: int, as_json: bool) -> None:
    """Compare the time of a round on W workers with its prediction.

    The parts of the prediction are explained in cluster/README.md.
    """
    from dask_s3vm.bench.methods import measure_formula

    show(measure_formula(rows, workers, repeat), as_json)


def _semi_supervised(method: str) -> click.Command:
    """Make the command that measures one semi-supervised method."""

    @_with_default(
        "--data",
        type=click.Choice(["text", "intrusion"]),
        default="text",
        help="Kind of generated rows.",
    )
    @_with_default(
        "--rows", multiple=True, default=(20_000, 200_000), help="Number of rows; repeatable."
    )
    @_with_default("--labels", default=1000, help="Number of labeled rows.")
    @_with_default("--lam", default=1e-3, help="Regularization.")
    @json_option
    def run(data: str, rows: tuple[int, ...], labels: int, lam: float, as_json: bool) -> None:
        from dask_s3vm.bench.methods import measure_transductive

        table = [measure_transductive(method, data, n_rows, labels, lam) for n_rows in rows]
        show(table, as_json)

    run.__doc__ = f"Measure units, rounds and error of {method.upper()} with few labels."
    return bench.command(name=method)(run)


tsvm = _semi_supervised("tsvm")
da = _semi_supervised("da")
qn = _semi_supervised("qn")


@bench.command()
@_with_default(
    "--rows", multiple=True, default=(23_000, 200_000), help="Number of rows; repeatable."
)
@_with_default(
    "--lam", multiple=True, default=(1e-3, 1e-4, 1e-5), help="Regularization; repeatable."
)
@_with_default("--gap", default=1e-6, help="Relative gap of the objective.")
@json_option
def l2svm(rows: tuple[int, ...], lam: tuple[float, ...], gap: float, as_json: bool) -> None:
    """Time L2SVM and liblinear to a gap of the objective.

    All rows are labeled.
    """
    from dask_s3vm.bench.methods import measure_l2svm

    show_tables({f"{n:,} rows": measure_l2svm(n, lam, gap) for n in rows}, as_json)


@bench.command()
@_with_default("--rows", default=20_000, help="Number of rows.")
@_with_default("--steps", default=300, help="Steps with and without safety.")
@json_option
def safety(rows: int, steps: int, as_json: bool) -> None:
    """Measure the cost of fault tolerance and the time of a recovery."""
    from dask_s3vm.bench.safety import measure_overhead, measure_recovery

    tables = {"overhead": measure_overhead(rows, steps), "recovery": measure_recovery(5 * rows)}
    show_tables(tables, as_json)


@bench.command()
@_with_default("--rows", default=20_000, help="Number of rows.")
@_with_default("--messages", default=300, help="Number of messages, and of rounds.")
@json_option
def live(rows: int, messages: int, as_json: bool) -> None:
    """Measure what the live page costs a fit on two worker processes."""
    from dask_s3vm.bench.live import measure_live

    show(measure_live(rows, messages), as_json)


@bench.command()
@_with_default("--rows", multiple=True, default=(2_000, 10_000), help="Number of rows; repeatable.")
@_with_default("--labels", default=100, help="Number of labeled rows.")
@json_option
def others(rows: tuple[int, ...], labels: int, as_json: bool) -> None:
    """Time fits with few labels, beside those of scikit-learn."""
    from dask_s3vm.bench.others import measure_others

    show([row for n_rows in rows for row in measure_others(n_rows, labels)], as_json)


@bench.command()
@_with_default("--fits", default=200, help="Number of fits.")
@_with_default("--rows", default=5_000, help="Number of rows.")
@_with_default("--workers", default=2, help="Worker processes; 0: fits in this process.")
@click.option("--plot", type=click.Path(dir_okay=False), help="Picture to draw, .png or .svg.")
@json_option
def soak(fits: int, rows: int, workers: int, plot: str | None, as_json: bool) -> None:
    """Measure the memory of a cluster over many fits, beside that of plain dask."""
    from dask_s3vm.bench.soak import measure_soak

    found = measure_soak(fits, rows, workers)
    show(found.rows(), as_json)
    if plot is not None:
        found.plot().figure.savefig(plot)


@bench.command()
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An .npz file with X and y [default: generated rows like digits].",
)
@_with_default("--pair", type=int, nargs=2, default=(3, 8), help="Two classes of --data.")
@_with_default("--rows", default=766, help="Maximum number of rows.")
@_with_default("--labels", default=50, help="Number of labeled rows.")
@_with_default(
    "--method", multiple=True, default=("s2rlsc", "da"), help="Method to tune; repeatable."
)
@_with_default("--lams", default=21, help="Number of values of lam.")
@_with_default("--folds", default=5, help="Number of folds.")
@_with_default("--workers", default=0, help="Worker processes for the shared search; 0: threads.")
@click.option("--cold", is_flag=True, help="Also run the shared search without seeds.")
@click.option("--text", is_flag=True, help="Generate rows like text instead.")
@click.option("--in-turn", is_flag=True, help="Compare with the shared search, fit after fit.")
@json_option
def search(
    data: Path | None,
    pair: tuple[int, int],
    rows: int,
    labels: int,
    method: tuple[str, ...],
    lams: int,
    folds: int,
    workers: int,
    cold: bool,
    text: bool,
    in_turn: bool,
    as_json: bool,
) -> None:
    """Tune lam and lam_unlabeled with shared work and naively."""
    from dask_s3vm.bench.search import (
        METHODS,
        digits_like,
        measure_search,
        read_pair,
        text_pair,
    )

    unknown = [name for name in method if name not in METHODS]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r}; there are {', '.join(METHODS)}", param_hint="--method"
        )
    generate = text_pair if text else digits_like
    X, y = generate(rows) if data is None else read_pair(data, pair, rows)
    show(measure_search(X, y, method, labels, lams, folds, workers, cold, in_turn), as_json)


@bench.command()
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An .npz file with counts of words: data, indices, indptr, shape and y [default: "
    "generated text of 20 classes].",
)
@_with_default("--rows", default=20_000, help="Number of rows that are generated.")
@_with_default("--labels", default=1_000, help="Number of labeled rows, for TSVM.")
@_with_default("--lam", type=float, multiple=True, default=(1e-4, 1e-5), help="lam; repeatable.")
@_with_default("--workers", default=0, help="Worker processes; 0: threads.")
@json_option
def many(
    data: Path | None,
    rows: int,
    labels: int,
    lam: tuple[float, ...],
    workers: int,
    as_json: bool,
) -> None:
    """Train many classes at once and in turn, beside liblinear and one class."""
    from dask_s3vm.bench.many import measure_classes, read_counts, text_of_classes

    X, y = text_of_classes(rows, 20) if data is None else read_counts(data)
    show(measure_classes(X, y, labels, lam, workers), as_json)
