"""`dask-s3vm bench`: measurements as ratios within one run; see `dask_s3vm.bench`."""

from pathlib import Path

import click

from dask_s3vm.cli.options import json_option
from dask_s3vm.cli.output import show, show_tables


@click.group()
def bench() -> None:
    """Measure ratios on this machine: within one run, ratios are less noisy than times."""


@bench.command()
@click.option(
    "--rows",
    type=int,
    multiple=True,
    default=(20_000, 200_000, 800_000),
    show_default=True,
    help="Number of rows; repeatable.",
)
@click.option("--repeat", type=int, default=12, show_default=True, help="Runs; the best counts.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float64",
    show_default=True,
    help="Type of the values.",
)
@json_option
def rounds(rows: tuple[int, ...], repeat: int, dtype: str, as_json: bool) -> None:
    """Time a Gram product X^T (X p) of text-like rows in every engine."""
    from dask_s3vm.bench.methods import measure_rounds

    show_tables({f"{n:,} rows": measure_rounds(n, repeat, dtype) for n in rows}, as_json)


@bench.command()
@click.option("--rows", type=int, default=200_000, show_default=True, help="Number of rows.")
@click.option(
    "--workers",
    type=int,
    multiple=True,
    default=(1, 2, 4),
    show_default=True,
    help="Number of workers; repeatable.",
)
@click.option("--repeat", type=int, default=12, show_default=True, help="Runs; the best counts.")
@json_option
def formula(rows: int, workers: tuple[int, ...], repeat: int, as_json: bool) -> None:
    """Compare the time of a round on W workers with its prediction.

    The parts of the prediction are explained in cluster/README.md.
    """
    from dask_s3vm.bench.methods import measure_formula

    show(measure_formula(rows, workers, repeat), as_json)


def _semi_supervised(method: str) -> click.Command:
    """Make the command that measures one semi-supervised method."""

    @click.option(
        "--data",
        type=click.Choice(["text", "intrusion"]),
        default="text",
        show_default=True,
        help="Kind of generated rows.",
    )
    @click.option(
        "--rows",
        type=int,
        multiple=True,
        default=(20_000, 200_000),
        show_default=True,
        help="Number of rows; repeatable.",
    )
    @click.option(
        "--labels", type=int, default=1000, show_default=True, help="Number of labeled rows."
    )
    @click.option("--lam", type=float, default=1e-3, show_default=True, help="Regularization.")
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
@click.option(
    "--rows",
    type=int,
    multiple=True,
    default=(23_000, 200_000),
    show_default=True,
    help="Number of rows; repeatable.",
)
@click.option(
    "--lam",
    type=float,
    multiple=True,
    default=(1e-3, 1e-4, 1e-5),
    show_default=True,
    help="Regularization; repeatable.",
)
@click.option(
    "--gap", type=float, default=1e-6, show_default=True, help="Relative gap of the objective."
)
@json_option
def l2svm(rows: tuple[int, ...], lam: tuple[float, ...], gap: float, as_json: bool) -> None:
    """Time L2SVM and liblinear to a gap of the objective.

    All rows are labeled.
    """
    from dask_s3vm.bench.methods import measure_l2svm

    show_tables({f"{n:,} rows": measure_l2svm(n, lam, gap) for n in rows}, as_json)


@bench.command()
@click.option("--rows", type=int, default=20_000, show_default=True, help="Number of rows.")
@click.option(
    "--steps", type=int, default=300, show_default=True, help="Steps with and without safety."
)
@json_option
def safety(rows: int, steps: int, as_json: bool) -> None:
    """Measure the cost of fault tolerance and the time of a recovery."""
    from dask_s3vm.bench.safety import measure_overhead, measure_recovery

    tables = {"overhead": measure_overhead(rows, steps), "recovery": measure_recovery(5 * rows)}
    show_tables(tables, as_json)


@bench.command()
@click.option("--fits", type=int, default=200, show_default=True, help="Number of fits.")
@click.option("--rows", type=int, default=5_000, show_default=True, help="Number of rows.")
@json_option
def soak(fits: int, rows: int, as_json: bool) -> None:
    """Measure the memory of a cluster over many fits."""
    from dask_s3vm.bench.search import measure_soak

    show(measure_soak(fits, rows), as_json)


@bench.command()
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An .npz file with X and y [default: generated rows like digits].",
)
@click.option(
    "--pair", type=int, nargs=2, default=(3, 8), show_default=True, help="Two classes of --data."
)
@click.option("--rows", type=int, default=766, show_default=True, help="Maximum number of rows.")
@click.option("--labels", type=int, default=50, show_default=True, help="Number of labeled rows.")
@click.option(
    "--method",
    multiple=True,
    default=("s2rlsc", "da"),
    show_default=True,
    help="Method to tune; repeatable.",
)
@click.option("--lams", type=int, default=21, show_default=True, help="Number of values of lam.")
@click.option("--folds", type=int, default=5, show_default=True, help="Number of folds.")
@click.option(
    "--workers",
    type=int,
    default=0,
    show_default=True,
    help="Worker processes for the shared search; 0: threads.",
)
@click.option("--cold", is_flag=True, help="Also run the shared search without seeds.")
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
    as_json: bool,
) -> None:
    """Tune lam and lam_unlabeled with shared work and naively."""
    from dask_s3vm.bench.search import METHODS, digits_like, measure_search, read_pair

    unknown = [name for name in method if name not in METHODS]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r}; there are {', '.join(METHODS)}", param_hint="--method"
        )
    X, y = digits_like(rows) if data is None else read_pair(data, pair, rows)
    show(measure_search(X, y, method, labels, lams, folds, workers, cold), as_json)
