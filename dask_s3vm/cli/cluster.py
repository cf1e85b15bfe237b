"""Where a command runs: on a given scheduler, on a local cluster, or in this process.

Certificates for TLS are given as paths. Only the paths are stored, shown or logged; the keys are
read by OpenSSL alone.
"""

import contextlib
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from dask_s3vm import _config
from dask_s3vm.cli.options import add_options, names_of, option
from dask_s3vm.cli.stopping import Unreachable


@dataclass(frozen=True)
class ClusterOptions:
    """Values of `cluster_options`."""

    scheduler: str | None
    scheduler_file: str | None
    nworkers: int | None
    nthreads: int | None
    memory_limit: str
    tls_ca_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    def check_unused(self) -> None:
        """Refuse options about worker processes if there are none."""
        for name in ("tls_ca_file", "tls_cert", "tls_key", "memory_limit"):
            value = getattr(self, name)
            if value not in (None, "auto"):
                raise click.UsageError(
                    f"--{name.replace('_', '-')} {value} has no effect on threads of this process; "
                    "add --nworkers N to start worker processes, or --scheduler"
                )

    def security(self, *roles: str) -> Any:
        """Return the `distributed.Security` of the options, or None."""
        return security_of(self.tls_ca_file, self.tls_cert, self.tls_key, roles)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --scheduler, --scheduler-file, --nworkers, --nthreads, --memory-limit, --tls-*.

    The names of the options of TLS are those of `dask scheduler`.
    """
    certificate = click.Path(exists=True, dir_okay=False, readable=True)
    tls = ("scheduler", ())  # in --help-all
    options = [
        option("--scheduler", group="cluster", metavar="ADDR",
               help="Address of the dask scheduler to use."),
        option("--scheduler-file", type=click.Path(dir_okay=False), group="cluster", metavar="FILE",
               help="File that the dask scheduler has written its address to."),
        option("--nworkers", type=click.IntRange(0), group="cluster", metavar="N",
               shown="0, threads of this process",
               help="Number of worker processes to start on this machine."),
        option("--nthreads", type=click.IntRange(1), group="cluster", metavar="N",
               help="Threads per process.", shown="the cores, divided by the processes"),
        option("--memory-limit", default="auto", group="cluster", metavar="BYTES",
               help="Memory per local worker, for example 4GiB.", shown="auto, as in dask"),
        option("--tls-ca-file", type=certificate, group="cluster", topic=tls,
               shown="distributed.comm.tls in dask's configuration",
               help="Certificate authority to trust (PEM); see cluster/README.md."),
        option("--tls-cert", type=certificate, group="cluster", topic=tls,
               help="Certificate of this program (PEM).", shown="as --tls-ca-file"),
        option("--tls-key", type=certificate, group="cluster", topic=tls,
               help="Private key of --tls-cert (PEM).", shown="as --tls-ca-file"),
    ]  # fmt: skip
    return add_options(command, options)


def cluster_of(chosen: Mapping[str, Any]) -> "ClusterOptions":
    """Return the values of `cluster_options` among those of a command."""
    return ClusterOptions(**{name: chosen[name] for name in names_of(cluster_options)})


@contextlib.contextmanager
def running_on(options: ClusterOptions) -> Iterator[Any]:
    """Make the cluster of the options the current one; yields its client, or None for threads."""
    if "" in (options.scheduler, options.scheduler_file):  # a variable of a script that is not set
        raise click.UsageError(
            "--scheduler or --scheduler-file is empty, wanted an address or file"
        )
    if options.scheduler or options.scheduler_file:
        with _connect(options) as client:
            yield client
    elif not options.nworkers:
        import dask
        from dask.threaded import get

        options.check_unused()
        threads = options.nthreads or _config.available_cores()
        # a function, unless dask's configuration names a scheduler: given a name or nothing, dask
        # would import `distributed` to look for a client
        scheduler = dask.config.get("scheduler", None) or get
        with dask.config.set(
            {"s3vm.threads": threads, "num_workers": threads, "scheduler": scheduler}
        ):
            yield None
    else:
        with _start_cluster(options) as client:
            yield client


def _start_cluster(options: ClusterOptions) -> Any:
    """Start a cluster on this machine, with TLS if certificates are given."""
    from dask_s3vm.local_cluster import local_cluster

    workers = options.nworkers or 1
    threads = options.nthreads or max(1, _config.available_cores() // workers)
    security = options.security("worker", "scheduler", "client")
    reason = security and refusal(security, "worker")
    if reason:
        raise click.UsageError(
            f"{security.tls_worker_cert} cannot serve a local cluster: {reason}; "
            "use the certificate of a worker"
        )
    return local_cluster(workers, threads, memory_limit=options.memory_limit, security=security)


def _connect(options: ClusterOptions) -> Any:
    """Connect to a scheduler that has a worker.

    Raises
    ------
    Unreachable
        If that is not possible within `s3vm.connect-timeout`.
    """
    import asyncio

    import distributed

    timeout = _config.connect_timeout()
    security = options.security("client")
    address = options.scheduler or _address_in(options.scheduler_file, timeout)
    if security is not None and "://" not in address:
        address = f"tls://{address}"
    _check_protocol(address, security)
    try:
        asyncio.run(_greet(address, security, timeout))
        client = distributed.Client(address, timeout=timeout, security=security)
    # MemoryError: dask takes what other servers say for the size of a message
    except (OSError, TimeoutError, ValueError, RuntimeError, MemoryError) as error:
        raise Unreachable(
            f"cannot reach a dask scheduler at {address} (waited up to {timeout:g} s): "
            f"{str(error) or type(error).__name__}{_advice(address, security)}"
        ) from error
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError as error:
        client.close()
        raise Unreachable(f"the scheduler at {address} has no worker") from error
    return client


async def _greet(address: str, security: Any, timeout: float) -> None:
    """Connect to a scheduler, and hang up.

    A server that accepts connections and says nothing would keep dask's client waiting forever.
    """
    import asyncio

    from distributed import Security
    from distributed.comm import connect

    args = (security or Security()).get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, timeout=timeout, **args), timeout)
    comm.abort()


def _address_in(file: str | None, timeout: float) -> str:
    """Read the address from a scheduler file; wait for the file up to `timeout` seconds."""
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
    """Refuse TLS without certificates, and certificates without TLS, before connecting."""
    if address.startswith("tls://") and not has_certificate(security):
        raise Unreachable(
            f"the scheduler at {address} requires TLS, but this program has no certificate: give "
            "--tls-ca-file, --tls-cert and --tls-key, or set distributed.comm.tls in dask's "
            "configuration"
        )
    if security is not None and not address.startswith("tls://"):
        raise Unreachable(
            f"certificates are given, but the address {address} is without TLS: no data is sent "
            "there; start the scheduler with --protocol tls"
        )


def _advice(address: str, security: Any) -> str:
    """Return what is wrong with the certificates, as far as it is known."""
    if not address.startswith("tls://"):
        return "; the address of a scheduler with TLS begins with tls://"
    from distributed import Security

    reason = refusal(security or Security())
    return f"; our own certificate is no good: {reason}" if reason else ""


def security_of(
    ca_file: str | None, cert: str | None, key: str | None, roles: tuple[str, ...] = ("client",)
) -> Any:
    """Make a `distributed.Security` that requires TLS; None if no option is given.

    Missing options are taken from dask's configuration, as in dask's own commands.

    Parameters
    ----------
    ca_file, cert, key : str or None
        Paths of PEM files: certificate authority, certificate, private key.
    roles : tuple of str
        Roles that the certificate is used for: "client", "worker", "scheduler".
    """
    if not (ca_file or cert or key):
        return None
    import dask
    from distributed import Security

    own = f"distributed.comm.tls.{roles[0]}"
    ca_file = ca_file or dask.config.get("distributed.comm.tls.ca-file")
    cert, key = cert or dask.config.get(f"{own}.cert"), key or dask.config.get(f"{own}.key")
    if not ca_file or not cert:
        missing = "--tls-cert" if ca_file else "--tls-ca-file"
        raise click.UsageError(f"{missing} is wanted too: TLS needs a certificate and an authority")
    _check_authority(ca_file)
    _check_pair(cert, key)
    files: dict[str, str | None] = {}
    for role in roles:
        files |= {f"tls_{role}_cert": cert, f"tls_{role}_key": key}
    return Security(require_encryption=True, tls_ca_file=ca_file, **files)


def has_certificate(security: Any) -> bool:
    """Whether a client with this `Security` (None: dask's configuration) can use TLS."""
    if security is None:
        from distributed import Security

        security = Security()
    return bool(security.tls_ca_file and security.tls_client_cert)


def refusal(security: Any, role: str = "client") -> str | None:
    """Return why a peer would refuse the certificate of a role; None if it is accepted.

    A TLS handshake in memory, whose other side has the same files: what it finds wrong (expired,
    not yet valid, from another authority, for another purpose), any peer would find.
    """
    try:
        server = security.get_listen_args(role)["ssl_context"]
        client = security.get_connection_args(role)["ssl_context"]
    except (OSError, ValueError) as error:  # what OpenSSL says names no file
        return f"{security.tls_ca_file}, or its key, cannot be read as PEM ({error})"
    if role == "client":  # a client's certificate need not be valid for a server
        client.verify_mode = ssl.CERT_NONE
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(down, up, server_side=False),
        server.wrap_bio(up, down, server_side=True),
    ]
    try:
        for _ in range(4):  # TLS 1.3 takes two turns per side, TLS 1.2 three
            for end in ends:
                _advance(end)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError as error:
        return error.reason
    return None


def _advance(end: ssl.SSLObject) -> None:
    """Continue a handshake until it needs data from the other side."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return


def _check_authority(ca_file: str) -> None:
    """Refuse a file without certificates, by its name."""
    try:
        ssl.create_default_context().load_verify_locations(ca_file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, FileNotFoundError) else "not in PEM"
        raise click.UsageError(f"no certificate can be read from {ca_file}: {reason}") from error


def _check_pair(cert: str, key: str | None) -> None:
    """Refuse a certificate or key that dask could not load; it would ask for a passphrase."""
    holder = key or cert
    try:
        text = Path(holder).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise click.UsageError(f"cannot read {holder}: {error.strerror}") from error
    if "ENCRYPTED" in text:
        raise click.UsageError(
            f"the key in {holder} has a passphrase, which dask cannot ask for; "
            "use a key without one, readable by its owner only"
        )
    if "PRIVATE KEY" not in text:
        raise click.UsageError(f"there is no private key in {holder}; add --tls-key")
    try:
        ssl.create_default_context().load_cert_chain(cert, key)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or "not readable"
        raise click.UsageError(f"{cert} and {holder} do not belong together: {reason}") from error
