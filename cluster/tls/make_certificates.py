#!/usr/bin/env python3
"""Make a certificate authority and one certificate per role for a dask cluster with TLS.

    python make_certificates.py DIR --host scheduler.example --host 10.0.0.5

Needs the `openssl` command (1.1.1 or later) and no Python package, so that it can run on the
machine that keeps the authority's key.

Writes into DIR (created with mode 0700): `ca.pem`, `ca-key.pem`, `ROLE.pem` and `ROLE-key.pem` for
each role (keys: mode 0600), and `dask.yaml`, to be used as DASK_CONFIG=DIR/dask.yaml. No file is
ever overwritten. Keys have no passphrase, as dask cannot ask for one, and are never printed.

Every certificate of this authority gives access to the cluster, whichever host presents it: dask
checks who signed it, not the name of the host. Use one authority per cluster, and store
`ca-key.pem` elsewhere.
"""

import argparse
import ipaddress
import os
import subprocess
import sys
from pathlib import Path

#: Role -> purposes of its certificate. A client does not accept connections.
ROLES = {
    "scheduler": "serverAuth,clientAuth",
    "worker": "serverAuth,clientAuth",
    "client": "clientAuth",
}


def main(args: list[str] | None = None) -> int:
    """Make the certificates; returns the exit code."""
    options = _parser().parse_args(args)
    folder: Path = options.folder
    os.umask(0o077)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    roles = options.role or list(ROLES)
    new = [name for role in roles for name in _files(role)]
    if not options.use_ca:
        new += [*_files("ca"), "dask.yaml"]
    existing = [name for name in new if (folder / name).exists()]
    if existing:
        print(f"{folder}: {', '.join(existing)} exist already; not overwritten", file=sys.stderr)
        return 1
    try:
        if not options.use_ca:
            _make_authority(folder, options.name, options.days)
            (folder / "dask.yaml").write_text(_configuration(folder.resolve()))
        for role in roles:
            _make_certificate(folder, options.name, role, options.host, options.days)
    except subprocess.CalledProcessError as error:
        print(f"openssl failed: {error.stderr.strip()}", file=sys.stderr)
        return 1
    except FileNotFoundError:
        print("the `openssl` command is missing", file=sys.stderr)
        return 1
    print(f"{folder}: {', '.join(sorted(new))}; valid for {options.days} days")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="folder to write to")
    parser.add_argument(
        "--host", action="append", default=[], help="name or address of a host; repeatable"
    )
    parser.add_argument(
        "--role", action="append", choices=list(ROLES), help="role; repeatable [default: all]"
    )
    parser.add_argument("--days", type=int, default=90, help="days of validity [default: 90]")
    parser.add_argument(
        "--name", default="dask-s3vm", help="name of the cluster [default: dask-s3vm]"
    )
    parser.add_argument(
        "--use-ca", action="store_true", help="sign with the authority in the folder"
    )
    return parser


def _files(name: str) -> tuple[str, str]:
    return f"{name}.pem", f"{name}-key.pem"


def _openssl(*words: str, text: str | None = None) -> str:
    done = subprocess.run(
        ["openssl", *words], input=text, capture_output=True, text=True, check=True
    )
    return done.stdout


def _make_key(path: Path) -> None:
    path.touch(mode=0o600, exist_ok=False)
    _openssl(
        "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(path)
    )


def _make_authority(folder: Path, name: str, days: int) -> None:
    cert, key = (folder / file for file in _files("ca"))
    _make_key(key)
    settings = (
        "[req]\ndistinguished_name=dn\nx509_extensions=ca\nprompt=no\n"
        f"[dn]\nCN={name} authority\n"
        "[ca]\nbasicConstraints=critical,CA:TRUE,pathlen:0\n"
        "keyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
    )
    # fmt: off
    _openssl("req", "-new", "-x509", "-sha256", "-days", str(days), "-key", str(key),
             "-config", "/dev/stdin", "-out", str(cert), text=settings)
    # fmt: on


def _make_certificate(folder: Path, name: str, role: str, hosts: list[str], days: int) -> None:
    authority, authority_key = (folder / file for file in _files("ca"))
    cert, key = (folder / file for file in _files(role))
    _make_key(key)
    subject = f"[req]\ndistinguished_name=dn\nprompt=no\n[dn]\nCN={name} {role}\n"
    # fmt: off
    request = _openssl("req", "-new", "-sha256", "-key", str(key), "-config", "/dev/stdin",
                       text=subject)
    # fmt: on
    extensions = folder / f".{role}.ext"
    extensions.write_text(
        f"basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
        f"extendedKeyUsage={ROLES[role]}\nsubjectAltName={_alternatives(hosts)}\n"
        "authorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
    )
    serial = f"0x{os.urandom(16).hex()}"
    try:
        # fmt: off
        signed = _openssl("x509", "-req", "-sha256", "-days", str(days), "-set_serial", serial,
                          "-CA", str(authority), "-CAkey", str(authority_key),
                          "-extfile", str(extensions), text=request)
        # fmt: on
    finally:
        extensions.unlink()
    cert.write_text(signed)


def _alternatives(hosts: list[str]) -> str:
    """Return the subject alternative names: localhost and the given hosts."""
    found = ["DNS:localhost", "IP:127.0.0.1"]
    for host in hosts:
        try:
            found.append(f"IP:{ipaddress.ip_address(host)}")
        except ValueError:
            found.append(f"DNS:{host}")
    return ",".join(dict.fromkeys(found))


def _configuration(folder: Path) -> str:
    roles = "".join(
        f"      {role}:\n        cert: {folder}/{role}.pem\n        key: {folder}/{role}-key.pem\n"
        for role in ROLES
    )
    return (
        "# Paths of certificates, for DASK_CONFIG. A host needs only the files of its own role.\n"
        "distributed:\n  comm:\n    require-encryption: true\n    default-scheme: tls\n"
        f"    tls:\n      ca-file: {folder}/ca.pem\n{roles}"
    )


if __name__ == "__main__":
    sys.exit(main())
