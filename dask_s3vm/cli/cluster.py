"""Where a command runs: a scheduler that is there, a local cluster, or this process."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from dask_s3vm import _config
from dask_s3vm.cli.errors import Unreachable
from dask_s3vm.cli.tls import has_certificate, refusal, security_of, tls_options


@dataclass(frozen=True)
class ClusterOptions:
    """Options that say where to run; see `cluster_options`."""

    scheduler: str | None
    scheduler_file: str | None
    nworkers: int | None
    nthreads: int | None
    memory_limit: str
    tls_ca_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    def check_unused(self) -> None:
        """Refuse options about processes where there are none."""
        for name in ("tls_ca_file", "tls_cert", "tls_key", "memory_limit"):
            value = getattr(self, name)
            if value not in (None, "auto"):
                raise click.UsageError(
                    f"--{name.replace('_', '-')} {value} has no effect on threads of this process; "
                    "ask for worker processes with --nworkers N, or name a --scheduler"
                )

    def security(self, *roles: str) -> Any:
        """The `distributed.Security` that the options ask for, or None."""
        return security_of(self.tls_ca_file, self.tls_cert, self.tls_key, roles)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --scheduler, --scheduler-file, --nworkers, --nthreads, --memory-limit, --tls-*."""
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
            help="Run on so many worker processes of this machine [default: 0, threads only].",
        ),
        click.option(
            "--nthreads",
            type=click.IntRange(1),
            help="Threads, per process [default: as many as there are cores].",
        ),
        click.option("--memory-limit", default="auto", help="Memory per local worker."),
    ]
    command = tls_options(command)
    for option in reversed(options):
        command = option(command)
    return command


@contextlib.contextmanager
def running_on(options: ClusterOptions) -> Iterator[Any]:
    """Make the cluster that the options ask for the current one; gives its client, or None."""
    if options.scheduler or options.scheduler_file:
        with _connect(options) as client:
            yield client
    elif not options.nworkers:
        import dask
        from dask.threaded import get

        options.check_unused()
        threads = options.nthreads or _config.available_cores()
        # where dask's configuration names none: a word, or nothing, would have dask import
        # `distributed`, to look for a client
        scheduler = dask.config.get("scheduler", None) or get
        with dask.config.set(
            {"s3vm.threads": threads, "num_workers": threads, "scheduler": scheduler}
        ):
            yield None
    else:
        with _own_cluster(options) as client:
            yield client


def _own_cluster(options: ClusterOptions) -> Any:
    """Start a cluster on this machine; with TLS if certificates are given."""
    from dask_s3vm.local_cluster import local_cluster

    workers, threads = _local_size(options)
    roles = ("worker", "scheduler", "client")
    security = options.security(*roles)
    reason = security and refusal(security, "worker")
    if reason:
        raise click.UsageError(
            f"{security.tls_worker_cert} cannot serve a local cluster: {reason}; "
            "a certificate of a worker can"
        )
    return local_cluster(workers, threads, memory_limit=options.memory_limit, security=security)


def _local_size(options: ClusterOptions) -> tuple[int, int]:
    """Number of worker processes, and of threads in each; together the cores, unless said."""
    workers = options.nworkers or 1
    return workers, options.nthreads or max(1, _config.available_cores() // workers)


def _connect(options: ClusterOptions) -> Any:
    """Connect to a scheduler that has a worker, or say why not within `s3vm.connect-timeout`."""
    import distributed

    timeout = _config.connect_timeout()
    security = options.security("client")
    address = options.scheduler or _address_in(options.scheduler_file, timeout)
    if security is not None and "://" not in address:
        address = f"tls://{address}"
    _check_protocol(address, security)
    try:
        client = distributed.Client(address, timeout=timeout, security=security)
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise Unreachable(
            f"cannot reach a dask scheduler at {address} (waited up to {timeout:g} s): "
            f"{error or type(error).__name__}{_advice(address, security)}"
        ) from error
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError as error:
        client.close()
        raise Unreachable(f"the scheduler at {address} has no worker") from error
    return client


def _address_in(file: str | None, timeout: float) -> str:
    """Read the address that a scheduler has left in a file; it may be about to write it."""
    assert file is not None
    end = time.monotonic() + timeout
    while True:
        try:
            return str(json.loads(Path(file).read_text(encoding="utf-8"))["address"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            if time.monotonic() > end:
                what = "is not there" if isinstance(error, FileNotFoundError) else "has no address"
                raise Unreachable(
                    f"the scheduler file {file} {what} (waited {timeout:g} s)"
                ) from error
        time.sleep(0.1)


def _check_protocol(address: str, security: Any) -> None:
    """Refuse at once what cannot come about: TLS without certificates, plain traffic with."""
    if address.startswith("tls://") and not has_certificate(security):
        raise Unreachable(
            f"the scheduler at {address} speaks TLS only and this program has no certificate: "
            "give --tls-ca-file, --tls-cert and --tls-key, or set distributed.comm.tls in dask's "
            "configuration"
        )
    if security is not None and not address.startswith("tls://"):
        raise Unreachable(
            f"certificates are given, and the address {address} is one of plain traffic: "
            "nothing is sent there; start the scheduler with --protocol tls"
        )


def _advice(address: str, security: Any) -> str:
    """What may be wrong with the certificates, where that is known."""
    if not address.startswith("tls://"):
        return "; a scheduler that wants TLS has an address that begins with tls://"
    from distributed import Security

    reason = refusal(security or Security())
    return f"; our own certificate is no good: {reason}" if reason else ""
