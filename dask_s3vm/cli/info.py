"""`dask-s3vm info`: what is in a model file, or the parts of a cluster and their versions."""

import asyncio
import time
from typing import Any

import click

from dask_s3vm import _config
from dask_s3vm.cli.cluster import cluster_of, cluster_options, running_on
from dask_s3vm.cli.options import GroupedCommand, Place, json_option
from dask_s3vm.cli.output import Row, show, show_json, show_pairs
from dask_s3vm.cli.stopping import format_errors

#: Packages whose versions must agree: results are sent as pickled Python objects.
PACKAGES = ("python", "dask-s3vm", "dask", "distributed", "numpy", "scipy", "numba", "cloudpickle")


@click.command(cls=GroupedCommand)
@click.argument("model", type=Place(), required=False)
@json_option
@cluster_options
def info(model: str | None, as_json: bool, **where: Any) -> None:
    """Show what is in the file MODEL; without one, the parts of a cluster.

    Of a model: method, parameters, classes, share of the classes, columns, strongest weights.

    Of a cluster: scheduler, workers, threads, memory, versions, TLS. `direct` is the time of a
    direct call from here to a worker; if it is `no`, calls go through the scheduler, which takes
    longer. The exit code is 1 if versions differ.

    \b
    Examples:
      dask-s3vm info model.npz
      dask-s3vm info --scheduler tcp://scheduler:8786
    """  # noqa: D301
    with format_errors():
        if model is not None:
            _refuse_cluster(where)
            _show_model(model, as_json)
            return
        with running_on(cluster_of(where)) as client:
            if client is None:
                raise click.UsageError(
                    "info needs a model file, or a cluster: give MODEL, --scheduler ADDR or "
                    "--scheduler-file FILE, or start a cluster with --nworkers N"
                )
            found = client.get_versions(packages=list(PACKAGES[1:]))  # python is always included
            workers = client.scheduler_info(n_workers=-1)["workers"]
            seconds = client.sync(_call_directly, client, sorted(workers))
            table = _table(client.scheduler.address, workers, found, seconds)
    differing = _differences(found)
    if as_json:
        show_json({"parts": table, "differences": differing})
    else:
        show(table)
        for line in differing:
            click.echo(line)
    if differing:
        raise click.exceptions.Exit(1)


def _refuse_cluster(where: dict[str, Any]) -> None:
    for name in ("scheduler", "scheduler_file", "nworkers", "nthreads"):
        if where[name] is not None:
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} has no effect on a model file; leave out one of them")


def _show_model(path: str, as_json: bool) -> None:
    from dask_s3vm.io.models import load_model
    from dask_s3vm.reports.model import model_facts

    facts = model_facts(load_model(path))
    if as_json:
        show_json({"model": path, **facts})
        return
    if facts["kinds"] is not None:
        pairs = zip(facts["columns"], facts["kinds"], strict=True)
        facts["columns"] = [f"{name} ({kind})" for name, kind in pairs]
    names = ("estimator", "method", "about", "label", "classes", "features", "columns")
    show_pairs({name: facts[name] for name in names} | facts["fitted"])
    click.echo("\nparameters:")
    show_pairs({f"  {name}": value for name, value in facts["parameters"].items()})
    if facts["weights"]:
        click.echo("\nstrongest weights, for the class named:")
        show(facts["weights"])


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
