"""`dask-s3vm info`: what a cluster is made of, and whether its parts fit together."""

import asyncio
import time
from typing import Any

import click

from dask_s3vm import _config
from dask_s3vm.cli.cluster import ClusterOptions, cluster_options, running_on
from dask_s3vm.cli.errors import told_plainly
from dask_s3vm.cli.tables import Row, show

#: Must be the same everywhere: results travel between these as Python objects.
PACKAGES = ("python", "dask-s3vm", "dask", "distributed", "numpy", "scipy", "numba", "cloudpickle")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@cluster_options
def info(as_json: bool, **where: Any) -> None:
    """Show scheduler, workers, threads, memory, versions and TLS; what to look at first.

    `direct` is the time of a call from here straight to a worker; where there is none, rounds go
    through the scheduler, which takes longer. Exit code 1 if versions differ.
    """
    with told_plainly(), running_on(ClusterOptions(**where)) as client:
        if client is None:
            raise click.UsageError(
                "info looks at a cluster: say which one with --scheduler ADDR or --scheduler-file "
                "F, or have one started with --nworkers N"
            )
        found = client.get_versions(packages=list(PACKAGES[1:]))  # python is always told
        workers = client.scheduler_info(n_workers=-1)["workers"]
        seconds = client.sync(_call_directly, client, sorted(workers))
        table = _table(client.scheduler.address, workers, found, seconds)
    show(table, as_json)
    differing = _differences(found)
    for line in differing:
        click.echo(line, err=as_json)
    if differing:
        raise click.exceptions.Exit(1)


def _table(
    scheduler: str, workers: dict[str, Any], found: dict[str, Any], seconds: dict[str, Any]
) -> list[Row]:
    """One row for the client, the scheduler, and each worker."""
    rows = [
        _row("client", "", found["client"], "", "", ""),
        _row("scheduler", scheduler, found["scheduler"], "", "", ""),
    ]
    for address in sorted(workers):
        facts, took = workers[address], seconds[address]
        memory = f"{facts['memory_limit'] / 2**30:.1f} GiB" if facts["memory_limit"] else "no limit"
        direct = "no" if took is None else f"{1000 * took:.1f} ms"
        versions = found["workers"].get(address, {})
        rows.append(_row("worker", address, versions, facts["nthreads"], memory, direct))
    return rows


def _row(
    role: str, address: str, facts: dict[str, Any], threads: int | str, memory: str, direct: str
) -> Row:
    return {
        "role": role,
        "address": address,
        "tls": "" if not address else "yes" if address.startswith("tls://") else "no",
        "threads": threads,
        "memory": memory,
        "direct": direct,
        **{name: _version(facts, name) for name in PACKAGES[:4]},
    }


def _version(facts: dict[str, Any], name: str) -> str:
    return str(facts.get("packages", {}).get(name) or "none").removesuffix(".final.0")


def _differences(found: dict[str, Any]) -> list[str]:
    """One line per package that is not the same everywhere."""
    parts = {"the client": found["client"], "the scheduler": found["scheduler"]}
    parts |= {f"worker {address}": facts for address, facts in sorted(found["workers"].items())}
    lines = []
    for name in PACKAGES:
        holders: dict[str, list[str]] = {}
        for part, facts in parts.items():
            holders.setdefault(_version(facts, name), []).append(part)
        if len(holders) > 1:
            told = [f"{version} on {_some(who)}" for version, who in holders.items()]
            lines.append(f"{name} differs: {', '.join(told)}")
    return lines


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


async def _call_directly(client: Any, addresses: list[str]) -> dict[str, float | None]:
    """Seconds of a call to each worker, without the time to connect; None: cannot be reached."""

    async def one(address: str) -> float | None:
        rpc = client.rpc(address)
        try:
            async with asyncio.timeout(_config.connect_timeout()):
                await rpc.identity()
                began = time.perf_counter()
                await rpc.identity()
        except OSError:
            return None
        return time.perf_counter() - began

    return dict(zip(addresses, await asyncio.gather(*map(one, addresses)), strict=True))
