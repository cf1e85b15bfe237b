"""Time of a round over links of a given speed: W workers on hosts of their own, on one machine.

The client, the scheduler and every worker run in a network namespace whose link to a bridge lets
through a given rate in each direction. A round sends a vector of length d and adds vectors of this
length; its pass does nothing else. Rounds with and without an exchange among workers alternate, and
the best time of each counts. Prints a row of JSON for each W and d:

    seconds of a round, MB over the link of the client in a round, and seconds by the formula

Needs root and iproute2; with --delay, a kernel that has netem. Removes everything at the end.

    sudo .venv/bin/python cluster/links.py --rate 1gbit --workers 2 --workers 8 --length 1000000
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dask
import numpy as np

UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


class Hosts:
    """Hosts on a bridge, named by numbers; number 1 is for the client and the scheduler."""

    def __init__(self, count, rate, delay):
        self._id = f"l{os.getpid() % 100000}"
        self._net = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        self._count = count
        run("ip", "link", "add", self._id, "type", "bridge")
        run("ip", "link", "set", self._id, "up")
        for number in range(1, count + 1):
            name = self.name(number)
            run("ip", "netns", "add", name)
            run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", name, "master", self._id, "up")
            inside = ["ip", "netns", "exec", name]
            run(*inside, "ip", "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            run(*inside, "ip", "link", "set", "lo", "up")
            run(*inside, "ip", "link", "set", "eth0", "up")
            shape = ["root", "handle", "1:", "tbf", "rate", rate, "burst", "128kb", "latency", "2s"]
            run("tc", "qdisc", "add", "dev", name, *shape)
            run(*inside, "tc", "qdisc", "add", "dev", "eth0", *shape)
            if delay:
                late = ["parent", "1:", "netem", "delay", delay, "limit", "100000"]
                run(*inside, "tc", "qdisc", "add", "dev", "eth0", *late)

    def name(self, number):
        """Name of the namespace of a host, and of its end of the link."""
        return f"{self._id}h{number}"

    def address(self, number):
        """Address of a host."""
        return f"{self._net}.{number}"

    def start(self, number, *words, **how):
        """Start a process on a host."""
        return subprocess.Popen(["ip", "netns", "exec", self.name(number), *words], **how)

    def remove(self):
        """Remove all hosts."""
        for number in range(1, self._count + 1):
            for words in (("link", "del"), ("netns", "del")):
                subprocess.run(["ip", *words, self.name(number)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._id], capture_output=True, check=False)


def run(*words):
    """Run a command, which must succeed."""
    subprocess.run(words, check=True, capture_output=True)


def measure(options):
    """Start hosts, and a client on the first of them; its output is the result."""
    most = max(options.workers)
    hosts, processes = None, []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        try:
            hosts = Hosts(most + 1, options.rate, options.delay)
            log = stack.enter_context((Path(folder) / "log").open("w"))
            quiet = {"stdout": log, "stderr": log}
            where = f"tcp://{hosts.address(1)}:8786"
            dask_command = [sys.executable, "-m", "dask"]
            for count in options.workers:
                # fmt: off
                processes = [hosts.start(
                    1, *dask_command, "scheduler", "--host", hosts.address(1), "--port", "8786",
                    "--no-dashboard", **quiet)]
                processes += [hosts.start(
                    number, *dask_command, "worker", where, "--host", hosts.address(number),
                    "--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0",
                    "--local-directory", f"{folder}/{number}", **quiet)
                    for number in range(2, count + 2)]
                words = ["--inside", where, "--workers", str(count), "--rate", options.rate,
                         "--delay", options.delay, "--repeat", str(options.repeat)]
                # fmt: on
                words += [word for d in options.length for word in ("--length", str(d))]
                client = hosts.start(1, sys.executable, __file__, *words)
                processes.append(client)
                client.wait()
                end(processes)
        finally:
            end(processes)
            if hosts is not None:
                hosts.remove()


def end(processes):
    """End processes at once: nothing that they have is needed."""
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()


def answer(shard, p):
    """Return the argument; a copy, as partial sums are added in place."""
    return (p.copy(),)


def measure_inside(options):
    """Measure rounds from the host of the client."""
    from distributed import Client

    from dask_s3vm.engine.ingest import ingest

    (count,) = options.workers
    rng = np.random.default_rng(0)
    n_rows = 16 * count  # a shard for each worker
    X, y = rng.random((n_rows, 100)), np.arange(n_rows) % 2
    settings = {"s3vm.local-bytes": 0, "s3vm.shard-bytes": 1200, "s3vm.connect-timeout": "120 s"}
    with dask.config.set(settings), Client(options.inside, timeout=120) as client:
        client.wait_for_workers(count)
        client.upload_file(__file__)
        engine = ingest(X, y).place(np.array([0, 1]))
        try:
            for length in options.length:
                print(json.dumps(row(engine, count, length, options)), flush=True)
        finally:
            engine.close()


def row(engine, count, length, options):
    """Measure one W and one d."""
    p = np.random.default_rng(1).random(length)
    seconds, bytes_sent, found = {}, {}, {}
    for _ in range(options.repeat):
        for name, least in (("star", None), ("exchange", 0)):
            with dask.config.set({"s3vm.exchange-bytes": least}):
                before, began = link_bytes(), time.perf_counter()
                (total,) = engine.sum(answer, p)
                took = time.perf_counter() - began
                bytes_sent.setdefault(name, []).append(link_bytes() - before)
                seconds.setdefault(name, []).append(took)
                found[name] = total
    assert found["star"].tobytes() == found["exchange"].tobytes()
    latency = min(timed(lambda: engine.sum(answer, p[:1])) for _ in range(5 * options.repeat))
    rate = float(options.rate[:-4]) * UNITS[options.rate[-4:]] / 8
    nodes = sum(len(group.nodes) for group in engine._groups.values())
    formula = {
        "star": latency + 8 * length * (count + nodes) / rate,
        "exchange": 3 * latency
        + 8 * length * (1 + (nodes / count + 1) * (count - 1) / count + 1) / rate,
    }
    out = {"workers": count, "nodes": nodes, "d": length, "latency_ms": round(1000 * latency, 2)}
    for name in seconds:
        out[f"{name}_s"] = round(min(seconds[name]), 4)
        out[f"{name}_median_s"] = round(float(np.median(seconds[name])), 4)
        out[f"{name}_formula_s"] = round(formula[name], 4)
        out[f"{name}_mb"] = round(min(bytes_sent[name]) / 1e6, 3)
    return out


def timed(work):
    """Seconds that a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def link_bytes():
    """Bytes over the link of this host so far, in both directions."""
    folder = Path("/sys/class/net/eth0/statistics")
    return sum(int((folder / f"{way}_bytes").read_text()) for way in ("rx", "tx"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--delay", default="")
    parser.add_argument("--workers", type=int, action="append")
    parser.add_argument("--length", type=int, action="append")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts are removed then, too
    options.workers = options.workers or [2, 4, 8]
    options.length = options.length or [50_000, 1_000_000]
    (measure_inside if options.inside else measure)(options)
