"""`dask-s3vm info`: the parts of a cluster, and whether their versions agree."""

import asyncio
import time
from typing import Any

import click

from dask_s3vm import _config
from dask_s3vm.cli.cluster import ClusterOptions, cluster_options, running_on
from dask_s3vm.cli.output import Row, show
from dask_s3vm.cli.stopping import format_errors

#: Packages whose versions must agree: results are sent as pickled Python objects.
PACKAGES = ("python", "dask-s3vm", "dask", "distributed", "numpy", "scipy", "numba", "cloudpickle")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@cluster_options
def info(as_json: bool, **where: Any) -> None:
    """Show scheduler, workers, threads, memory, versions and TLS of a cluster.

    The column `direct` is the time of a direct call from here to a worker. If it is `no`, calls go
    through the scheduler, which takes longer. The exit code is 1 if versions differ.
    """
    with format_errors(), running_on(ClusterOptions(**where)) as client:
        if client is None:
            raise click.UsageError(
                "info needs a cluster: give --scheduler ADDR or --scheduler-file FILE, or start "
                "one with --nworkers N"
            )
        found = client.get_versions(packages=list(PACKAGES[1:]))  # python is always included
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
    """Return one row for the client, the scheduler, and each worker."""
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
    """Return one line for each package whose versions differ."""
    parts = {"the client": found["client"], "the scheduler": found["scheduler"]}
    parts |= {f"worker {address}": facts for address, facts in sorted(found["workers"].items())}
    lines = []
    for name in PACKAGES:
        holders: dict[str, list[str]] = {}
        for part, facts in parts.items():
            holders.setdefault(_version(facts, name), []).append(part)
        if len(holders) > 1:
            found_on = [f"{version} on {_some(who)}" for version, who in holders.items()]
            lines.append(f"{name} differs: {', '.join(found_on)}")
    return lines


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


async def _call_directly(client: Any, addresses: list[str]) -> dict[str, float | None]:
    """Return the seconds of a call to each worker, connecting excluded; None: not reachable."""

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
