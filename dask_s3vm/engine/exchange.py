"""Long vectors that go from worker to worker, and only once over the client's link.

In a plain round the client sends a vector of length d to each of W workers and gets one or more
partial sums from each: at least 16 d W bytes over its link. In an *exchange* it sends slice k of
the vector to worker k, and the workers fetch the other slices from each other. After the pass,
worker k fetches range k of all partial sums from the others and adds them along the tree of `tree`;
the client gets the W ranges of the total. That is 16 d bytes over its link, and about as many in
each direction over that of a worker. The bits are those of a plain round.

An exchange is transport and nothing else. If it fails, the client takes the partial sums from the
workers that have run the operation, and calls the others as in a plain round: see
`ClusterEngine._run`. If no worker was lost, they cannot reach each other, and the engine makes no
further exchange. `peers.PeerGroup` is the side of a worker.
"""

import itertools
import logging
import math
from collections.abc import Sequence
from typing import Any

import distributed
import numpy as np
from distributed.comm import get_address_host

from dask_s3vm import _config
from dask_s3vm.engine.calls import RemoteActor, RemoteGroup, called_all, tell_all
from dask_s3vm.engine.operations import Operation
from dask_s3vm.engine.peers import Peer, is_long, joined, range_of
from dask_s3vm.engine.tree import Parts
from dask_s3vm.engine.watch import in_loop
from dask_s3vm.engine.workers import HERE
from dask_s3vm.exceptions import WorkerLostError

logger = logging.getLogger(__name__)

#: Parts of a sum that workers have added among themselves, by their place.
Totals = dict[int, np.ndarray]

#: The answer of a worker that has not run the operation.
NOT_RUN = object()


class Exchange:
    """The client's side: decides whether workers exchange vectors, and collects the results.

    Parameters
    ----------
    client : the client of the cluster.
    n_features : d; parts of a sum may have this length.
    """

    def __init__(self, client: distributed.Client, n_features: int) -> None:
        self._client = client
        self._n_features = n_features
        self._numbers = itertools.count()
        self._met: list[Peer] = []  # groups that have reached each other
        self._off = False  # workers cannot reach each other

    def suits(self, groups: Sequence[RemoteGroup], method: str, args: tuple[Any, ...]) -> bool:
        """Whether the vectors of a round are long enough, and the workers reach each other."""
        least = _config.exchange_bytes()
        if self._off or len(groups) < 2 or math.isinf(least):
            return False
        may_be_long = method == "sum" and 8 * self._n_features >= least
        if not may_be_long and not any(is_long(arg, least) for arg in args):
            return False
        peers = [Peer(group.actor.address, group.actor.key, group.nodes) for group in groups]
        if least > 0 and all(_is_here(peer.address) for peer in peers):
            return False  # there is no link to spare, and an exchange takes twice the CPU time
        if peers != self._met and not in_loop(self._client, self._meet, groups, peers):
            return False
        self._met = peers
        return True

    def run(
        self, groups: Sequence[RemoteGroup], method: str, op: Operation, args: tuple[Any, ...]
    ) -> tuple[list[Any], Totals]:
        """Run an operation on all shards.

        Returns the answer of each group, without the large parts if these were added: a
        `WorkerLostError` if it is lost, `NOT_RUN` if it has not run; and the large parts of the
        total, by their place.
        """
        return in_loop(self._client, self._run, [group.actor for group in groups], method, op, args)

    async def _meet(self, groups: Sequence[RemoteGroup], peers: list[Peer]) -> bool:
        actors = [group.actor for group in groups]
        patience = _config.connect_timeout()
        calls = [(actor, (peers, place, patience)) for place, actor in enumerate(actors)]
        found = await called_all(self._client, calls, "meet")
        if all(answer is True for answer in found):
            return True
        again = await called_all(self._client, [(actor, ()) for actor in actors], "here")
        self._switch_off([*found, *again])
        return False

    async def _run(
        self, actors: list[RemoteActor], method: str, op: Operation, args: tuple[Any, ...]
    ) -> tuple[list[Any], Totals]:
        number, least = next(self._numbers), _config.exchange_bytes()
        cut = {place: arg.shape for place, arg in enumerate(args) if is_long(arg, least)}
        calls = []
        for worker, actor in enumerate(actors):
            own = list(args)
            for place in cut:
                own[place] = range_of(args[place], worker, len(actors))
            calls.append((actor, (number, method, op, least, cut, *own)))
        is_kept = True
        try:
            found = await called_all(
                self._client,
                calls,
                "exchange",
                on_loss=lambda left: tell_all(left, "give_up", (number,)),
            )
            if all(isinstance(one, tuple) and one[0].done for one in found):
                answers, totals = _collected(found)
                is_kept = bool(cut or totals)
                return answers, totals
            return await self._taken(actors, number, found), {}
        finally:
            if is_kept:
                tell_all(actors, "end", (number,))

    async def _taken(self, actors: list[RemoteActor], number: int, found: list[Any]) -> list[Any]:
        """Return what each worker has found by itself, after an exchange that has failed."""
        answers: list[Any] = [
            one[1:] if isinstance(one, tuple) and one[0].done and not one[0].shapes else one
            for one in found
        ]
        asked = [place for place, one in enumerate(found) if answers[place] is one]
        asked = [place for place in asked if not isinstance(found[place], WorkerLostError)]
        calls = [(actors[place], (number,)) for place in asked]
        for place, answer in zip(asked, await called_all(self._client, calls, "take"), strict=True):
            answers[place] = NOT_RUN if answer is None else answer
        self._switch_off(answers)
        return answers

    def _switch_off(self, answers: list[Any]) -> None:
        """Make no more exchanges, unless one has failed because a worker is lost."""
        self._met = []
        if not any(isinstance(answer, WorkerLostError) for answer in answers):
            self._off = True
            logger.info("workers do not exchange vectors: a peer cannot be reached")


def _is_here(address: str) -> bool:
    """Whether a worker is on the machine of the client for sure."""
    return address.startswith("inproc:") or get_address_host(address) in HERE


def _collected(found: list[Any]) -> tuple[list[Any], Totals]:
    """Put the ranges of the large parts together; return the other parts, and these."""
    shapes = found[0][0].shapes
    if any(outcome.shapes != shapes for outcome, *_ in found):
        raise AssertionError("workers disagree about the large parts of a sum")
    count = len(shapes)
    if not count:
        return [one[1:] for one in found], {}
    ranges = zip(*(one[-count:] for one in found), strict=True)
    totals = {
        place: joined(own, shape)
        for (place, shape), own in zip(shapes.items(), ranges, strict=True)
    }
    return [one[1:-count] for one in found], totals


def merged(rest: Parts, totals: Totals) -> Parts:
    """Put the parts of a sum that workers have added among themselves into their places."""
    others = iter(rest)
    n_parts = len(rest) + len(totals)
    return tuple(totals[i] if i in totals else next(others) for i in range(n_parts))
