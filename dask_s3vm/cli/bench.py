"""`dask-s3vm bench`: measurements as ratios within one run."""

from pathlib import Path

import click

from dask_s3vm.cli.tables import show


@click.group()
def bench() -> None:
    """Measure on this machine, in ratios: machines are noisy, ratios of one run are less so."""


@bench.command()
@click.option("--rows", type=int, multiple=True, default=(20_000, 200_000, 800_000))
@click.option("--repeat", type=int, default=12, show_default=True, help="Best of so many.")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float64")
@click.option("--json", "as_json", is_flag=True)
def rounds(rows: tuple[int, ...], repeat: int, dtype: str, as_json: bool) -> None:
    """One Gram product X^T (X p) over text-like rows, by every engine."""
    from dask_s3vm.bench.rounds import measure_rounds

    for n_rows in rows:
        show(measure_rounds(n_rows, repeat, dtype), as_json)
        click.echo()


@bench.command()
@click.option("--rows", type=int, default=200_000, show_default=True)
@click.option("--workers", type=int, multiple=True, default=(1, 2, 4), help="Repeat; 1, 2 and 4.")
@click.option("--repeat", type=int, default=12, show_default=True, help="Best of so many.")
@click.option("--json", "as_json", is_flag=True)
def formula(rows: int, workers: tuple[int, ...], repeat: int, as_json: bool) -> None:
    """A round on W workers, as measured and as foretold by its parts; see cluster/README.md."""
    from dask_s3vm.bench.formula import measure_formula

    show(measure_formula(rows, workers, repeat), as_json)


def _semi_supervised(method: str) -> click.Command:
    """Make the command that measures one semi-supervised method."""

    @click.option("--data", type=click.Choice(["text", "intrusion"]), default="text")
    @click.option("--rows", type=int, multiple=True, default=(20_000, 200_000))
    @click.option("--labels", type=int, default=1000, show_default=True)
    @click.option("--lam", type=float, default=1e-3, show_default=True)
    @click.option("--json", "as_json", is_flag=True)
    def run(data: str, rows: tuple[int, ...], labels: int, lam: float, as_json: bool) -> None:
        from dask_s3vm.bench.transductive import measure_transductive

        table = [measure_transductive(method, data, n_rows, labels, lam) for n_rows in rows]
        show(table, as_json)

    run.__doc__ = f"Units, rounds, objective and error of {method.upper()}, few rows labeled."
    return bench.command(name=method)(run)


tsvm = _semi_supervised("tsvm")
da = _semi_supervised("da")
qn = _semi_supervised("qn")


@bench.command()
@click.option("--rows", type=int, multiple=True, default=(23_000, 200_000))
@click.option("--lam", type=float, multiple=True, default=(1e-3, 1e-4, 1e-5))
@click.option("--gap", type=float, default=1e-6, show_default=True, help="Relative objective gap.")
@click.option("--json", "as_json", is_flag=True)
def l2svm(rows: tuple[int, ...], lam: tuple[float, ...], gap: float, as_json: bool) -> None:
    """Time to a relative gap of the objective, against liblinear, all rows labeled."""
    from dask_s3vm.bench.l2svm import measure_l2svm

    for n_rows in rows:
        show(measure_l2svm(n_rows, lam, gap), as_json)
        click.echo()


@bench.command()
@click.option("--rows", type=int, default=20_000, show_default=True)
@click.option("--steps", type=int, default=300, show_default=True, help="Steps of each kind.")
@click.option("--json", "as_json", is_flag=True)
def safety(rows: int, steps: int, as_json: bool) -> None:
    """What safety costs where nothing happens, and how long recovery takes where it does."""
    from dask_s3vm.bench.safety import measure_overhead, measure_recovery

    show(measure_overhead(rows, steps), as_json)
    click.echo()
    show(measure_recovery(5 * rows), as_json)


@bench.command()
@click.option("--fits", type=int, default=200, show_default=True)
@click.option("--rows", type=int, default=5_000, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def soak(fits: int, rows: int, as_json: bool) -> None:
    """Memory of scheduler and workers over many fits in a row on one cluster."""
    from dask_s3vm.bench.soak import measure_soak

    show(measure_soak(fits, rows), as_json)


@bench.command()
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="npz with X and y; else rows like digits are generated.",
)
@click.option("--pair", type=int, nargs=2, default=(3, 8), show_default=True, help="Two classes.")
@click.option("--rows", type=int, default=766, show_default=True, help="Most rows of them.")
@click.option("--labels", type=int, default=50, show_default=True)
@click.option("--method", multiple=True, default=("s2rlsc", "da"), show_default=True)
@click.option("--lams", type=int, default=21, show_default=True, help="Values of lam.")
@click.option("--folds", type=int, default=5, show_default=True)
@click.option("--workers", type=int, default=0, help="Worker processes for the shared search.")
@click.option("--cold", is_flag=True, help="Also a shared search without seeds.")
@click.option("--json", "as_json", is_flag=True)
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
    """Tune on lam x lam_unlabeled with shared work, against naive refitting."""
    from dask_s3vm.bench.search import METHODS, digits_like, measure_search, read_pair

    unknown = [name for name in method if name not in METHODS]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r}; there are {', '.join(METHODS)}", param_hint="--method"
        )
    X, y = digits_like(rows) if data is None else read_pair(data, pair, rows)
    show(measure_search(X, y, method, labels, lams, folds, workers, cold), as_json)
