"""Two shards on two workers that are made up, and operations that tell what was done."""

import types

import numpy as np

from dask_s3vm.engine.calls import RemoteGroup, WorkerGroup
from dask_s3vm.engine.operations import operation
from dask_s3vm.engine.plan import Layout
from dask_s3vm.engine.shard import Shard
from dask_s3vm.exceptions import WorkerLostError

LAYOUT = Layout(2, 1, 1, (0, 1, 2), None, False)

#: (operation, shard) in the order in which they were carried out.
done = []


def note(name, shard):
    done.append((name, shard.number))


@operation(sets="base")
def set_base(shard, value):
    note("set_base", shard)
    shard.state["base"] = value


@operation(sets="sum{slot}", reads=["base"])
def set_sum(shard, value, slot):
    note("set_sum", shard)
    shard.state[f"sum{slot}"] = shard.state["base"] + value


@operation(changes="sum{slot}")
def raise_sum(shard, value, slot):
    note("raise_sum", shard)
    shard.state[f"sum{slot}"] += value


@operation(reads=["sum{slot}"])
def read_sum(shard, slot):
    note("read_sum", shard)
    return (shard.state[f"sum{slot}"],)


@operation(reads=["base", "sum1"])
def switch_base(shard):
    """Changes what it reads, as a switch of labels does; the caller remembers the result."""
    shard.state["base"] += 1000
    shard.state["sum1"] += 1000
    return shard.state["base"]


@operation(sets="base")
def put_bases(shard, values):
    shard.state["base"] = values[shard.number]


@operation(reads=["base"])
def read_base(shard):
    return (shard.state["base"],)


def plain(shard):
    note("plain", shard)
    return (1,)


def join(shard):
    return ([shard.number],)


class World:
    """Workers that hold both shards, one each; calls can be made to meet a lost one."""

    def __init__(self):
        self.losses, self.built, self.asked = [], [], []
        self.groups = 0
        self.workers = {"a": 1, "b": 1}
        self.pauses = []
        self.actors = {}
        self.deadly = []  # operations; each entry loses a worker in the next call that runs it

    def assign(self, threads):
        return {"a": [0], "b": [1]} if len(threads) > 1 else {"a": [0, 1]}

    def build(self, shards, threads):
        self.built.append(shards)
        self.groups += len(shards)
        groups = []
        for home, numbers in shards.items():
            key = f"{home}{len(self.actors)}"
            rows = [Shard(number, number, 1, np.ones((1, 1))) for number in numbers]
            self.actors[key] = WorkerGroup(rows, 2, 1)
            actor = types.SimpleNamespace(address=home, key=key, future=key)
            groups.append(RemoteGroup(actor, numbers, 2))
        return groups

    def cancel(self, futures):
        self.groups -= len(futures)

    def worker(self):
        return types.SimpleNamespace(state=types.SimpleNamespace(actors=self.actors))

    def call_all(self, client, calls, method, patience=None):
        if method != "run":
            self.asked.append(method)
        elif self.deadly and calls[0][1][2] is self.deadly[0]:
            self.losses = [self.deadly.pop(0)]
        lost = len(calls) - 1 if method == "run" and self.losses and self.losses.pop(0) else None
        return [
            WorkerLostError("worker z is gone")
            if place == lost
            else getattr(self.actors[actor.key], method)(*args)
            for place, (actor, args) in enumerate(calls)
        ]


def put_sums(engine):
    engine.each(set_base, 10)
    engine.each(set_sum, 1, 0)
    engine.each(set_sum, 2, 1)
    engine.each(raise_sum, 5, 0)
