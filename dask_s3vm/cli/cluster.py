"""Where a command runs: a scheduler that is there, a local cluster, or this process."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click

from dask_s3vm import _config
from dask_s3vm.cli.errors import Unreachable


@dataclass(frozen=True)
class ClusterOptions:
    """Options that say where to run; see `cluster_options`."""

    scheduler: str | None
    scheduler_file: str | None
    nworkers: int | None
    nthreads: int | None
    memory_limit: str


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --scheduler, --scheduler-file, --nworkers, --nthreads, --memory-limit."""
    options = [
        click.option("--scheduler", metavar="ADDR", help="Address of a dask scheduler to use."),
        click.option(
            "--scheduler-file",
            type=click.Path(dir_okay=False),
            help="File that a dask scheduler has written its address to.",
        ),
        click.option(
            "--nworkers",
            type=click.IntRange(0),
            help="Worker processes of the local cluster; 0 = threads of this process.",
        ),
        click.option("--nthreads", type=click.IntRange(1), help="Threads per local worker."),
        click.option("--memory-limit", default="auto", help="Memory per local worker."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@contextlib.contextmanager
def running_on(options: ClusterOptions) -> Iterator[Any]:
    """Make the cluster that the options ask for the current one; gives its client, or None."""
    import distributed

    if options.scheduler or options.scheduler_file:
        with _connect(options) as client:
            yield client
    elif options.nworkers == 0:
        import dask

        with dask.config.set({"s3vm.threads": options.nthreads or _config.available_cores()}):
            yield None
    else:
        workers, threads = _local_size(options)
        with (
            distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=threads,
                memory_limit=options.memory_limit,
                dashboard_address=":0",
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


def _local_size(options: ClusterOptions) -> tuple[int, int]:
    """Few processes with several threads each; more than one, as parsing text holds the GIL."""
    cores = _config.available_cores()
    workers = options.nworkers or (min(cores, 4) if not options.nthreads else cores)
    return workers, options.nthreads or max(1, cores // workers)


def _connect(options: ClusterOptions) -> Any:
    import distributed

    timeout = _config.connect_timeout()
    where = options.scheduler or options.scheduler_file
    kind = {"scheduler_file": options.scheduler_file} if options.scheduler_file else {}
    try:
        client = distributed.Client(options.scheduler, timeout=timeout, **kind)
    except (OSError, TimeoutError, ValueError) as error:
        raise Unreachable(
            f"cannot reach a dask scheduler at {where} (waited {timeout:g} s): {error}"
        ) from error
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError as error:
        client.close()
        raise Unreachable(f"the scheduler at {where} has no worker") from error
    return client
