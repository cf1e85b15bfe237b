"""Certificates of a command: options, checks, and what dask wants to know of them.

Only paths are kept, shown or logged. Keys are read by OpenSSL alone.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_HELP = "see cluster/README.md; default: distributed.comm.tls of dask's configuration."


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --tls-ca-file, --tls-cert and --tls-key, named as those of `dask scheduler`."""
    path = click.Path(exists=True, dir_okay=False, readable=True)
    options = [
        click.option(
            "--tls-ca-file", type=path, help=f"Certificate authority to trust (PEM); {_HELP}"
        ),
        click.option("--tls-cert", type=path, help="Certificate of this program (PEM)."),
        click.option("--tls-key", type=path, help="Private key of --tls-cert (PEM)."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def security_of(
    ca_file: str | None, cert: str | None, key: str | None, roles: tuple[str, ...] = ("client",)
) -> Any:
    """Make a `distributed.Security` that allows nothing but TLS; None if no option is given.

    What is not given is taken from dask's configuration, as dask's own commands do. `roles` are
    those that the certificate is used for.
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
    _check_pair(cert, key)
    files: dict[str, str | None] = {}
    for role in roles:
        files |= {f"tls_{role}_cert": cert, f"tls_{role}_key": key}
    return Security(require_encryption=True, tls_ca_file=ca_file, **files)


def has_certificate(security: Any) -> bool:
    """Whether a client with this `Security` (None: dask's configuration) can speak TLS."""
    if security is None:
        from distributed import Security

        security = Security()
    return bool(security.tls_ca_file and security.tls_client_cert)


def refusal(security: Any, role: str = "client") -> str | None:
    """Say why the certificate of a role would be refused by its own authority; None: it is not.

    A handshake in memory: the other side holds the same files, so what it finds wrong (expired,
    not yet valid, of another authority, not meant for this) any other would.
    """
    tls = security.get_tls_config_for_role(role)
    server = security._get_tls_context(tls, ssl.Purpose.CLIENT_AUTH)
    client = security._get_tls_context(tls, ssl.Purpose.SERVER_AUTH)
    if role == "client":  # is no server: whether it could be one does not matter
        client.verify_mode = ssl.CERT_NONE
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(down, up, server_side=False),
        server.wrap_bio(up, down, server_side=True),
    ]
    try:
        for _ in range(4):  # TLS 1.3 takes two turns each, 1.2 three
            for end in ends:
                _advance(end)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError as error:
        return error.reason
    return None


def _advance(end: ssl.SSLObject) -> None:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return


def _check_pair(cert: str, key: str | None) -> None:
    """Refuse what dask could not load, before it asks a terminal for a passphrase."""
    holder = key or cert
    try:
        text = Path(holder).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise click.UsageError(f"cannot read {holder}: {error.strerror}") from error
    if "ENCRYPTED" in text:
        raise click.UsageError(
            f"the key in {holder} has a passphrase, which dask cannot ask for; "
            "keep a key without one, readable by its owner alone"
        )
    if "PRIVATE KEY" not in text:
        raise click.UsageError(f"there is no private key in {holder}; give it by --tls-key")
    try:
        ssl.create_default_context().load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", None) or "not readable"
        raise click.UsageError(f"{cert} and {holder} do not belong together: {reason}") from error
