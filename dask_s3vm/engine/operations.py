"""Declarations of the row state that operations use, and recipes that restore it after a loss.

An operation is a function ``op(shard, *args)``. Per-row arrays that it leaves in `shard.state` for
later operations are *row state*. Each has a name, and the operation declares its use:

    @operation(sets="slot{slot}", reads=("targets", "costs"))
    def evaluate(shard, w, bias, slot): ...

*sets*: the operation computes this row state from its arguments and from what it reads, regardless
of an earlier value. *changes*: the new value also depends on the earlier one. Braces in a name are
replaced by the argument of that name. The *recipe* of row state is the call that set it, followed
by the calls that changed it since. An engine replays recipes on shards that had to be rebuilt.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

#: What a round runs on every shard: op(shard, *args).
Operation = Callable[..., Any]

Op = TypeVar("Op", bound=Operation)

Call = tuple[Operation, tuple[Any, ...]]


@dataclass(frozen=True)
class Uses:
    """Names of the row state that a call sets, changes and reads.

    forgets : row state whose names begin with one of these is dropped.
    copies : operations that copy and put back what the call changes; see `copied_by`.
    calls : (operation, arguments, uses) of each, for a call that consists of several.
    """

    sets: str | None = None
    changes: str | None = None
    reads: tuple[str, ...] = ()
    forgets: tuple[str, ...] = ()
    copies: tuple[Operation, Operation] | None = None
    calls: "tuple[tuple[Operation, tuple[Any, ...], Uses], ...]" = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Row state that must exist before the call."""
        own = self.reads if self.changes is None else (*self.reads, self.changes)
        return (*own, *(name for _, _, uses in self.calls for name in uses.needs))


#: Bytes of arguments that a recipe may hold before a copy of the row state replaces it.
MOST_BYTES = 32 << 20

#: Row state that every operation depends on: see `shard.hold_out`.
ALWAYS = ("held out",)

_UNDECLARED: tuple[Any, list[str]] = (Uses(), [])


def operation(
    *,
    sets: str | None = None,
    changes: str | None = None,
    reads: Iterable[str] = (),
    forgets: Iterable[str] = (),
    uses: Callable[..., Uses] | None = None,
) -> Callable[[Op], Op]:
    """Declare the row state that an operation uses.

    Parameters
    ----------
    sets, changes : name of the row state that the operation computes, anew or from its value.
    reads : names of other row state that it depends on.
    forgets : beginnings of names of row state that another problem may have left, and that no
        longer counts.
    uses : returns all of this from the arguments of a call, where it depends on them.
    """

    def declare(op: Op) -> Op:
        names = list(inspect.signature(op).parameters)[1:]
        declared = uses or Uses(sets, changes, tuple(reads), tuple(forgets))
        op.row_state = declared, names  # type: ignore[attr-defined]
        return op

    return declare


def uses_of(op: Operation, args: tuple[Any, ...]) -> Uses:
    """Return the row state that a call uses, with arguments substituted for braces."""
    declared, names = getattr(op, "row_state", _UNDECLARED)
    if callable(declared):
        return declared(*args)

    given = dict(zip(names, args, strict=False))

    def fill(name: str) -> str:
        return name.format(**given) if "{" in name else name

    changes = None if declared.changes is None else fill(declared.changes)
    return Uses(
        None if declared.sets is None else fill(declared.sets),
        changes,
        tuple(fill(name) for name in declared.reads),
        declared.forgets,
        None if changes is None else _copies.get(changes),
    )


@dataclass
class Recipe:
    """How to compute row state.

    calls : in order; the first one sets it, the others change it.
    reads : names of the row state that the calls read.
    nbytes : size of the arguments of the calls that change it.
    """

    calls: list[Call]
    reads: tuple[str, ...] = ()
    nbytes: int = 0


#: By name of row state: an operation that returns a copy of it, and one that puts copies back.
_copies: dict[str, tuple[Operation, Operation]] = {}


def copied_by(name: str, take: Operation, put: Operation) -> None:
    """Register how to copy row state `name`, for recipes that have become too large.

    take : ``take(shard)`` returns a copy of the row state of one shard.
    put : ``put(shard, copies)`` restores it from the copies of all shards, by shard number.
    """
    _copies[name] = take, put


@dataclass
class Recipes:
    """The recipes of all row state, and which rebuilt shards still lack which row state."""

    _by_name: dict[str, Recipe] = field(default_factory=dict)
    _missing: dict[str, set[int]] = field(default_factory=dict)

    def note(self, op: Operation, args: tuple[Any, ...], uses: Uses) -> None:
        """Record a call that every shard has carried out."""
        for name in [name for name in self._by_name if name.startswith(uses.forgets)]:
            del self._by_name[name]
            self._missing.pop(name, None)
        if uses.sets is not None:
            self.put(uses.sets, op, args, uses.reads)
        elif uses.changes is not None:
            recipe = self._by_name[uses.changes]
            recipe.calls.append((op, args))
            recipe.nbytes += sum(getattr(arg, "nbytes", 0) for arg in args)
            recipe.reads = tuple(dict.fromkeys(recipe.reads + uses.reads))
        for call in uses.calls:
            self.note(*call)

    def put(
        self, name: str, op: Operation, args: tuple[Any, ...], reads: tuple[str, ...] = ()
    ) -> None:
        """Replace the recipe of row state that all shards have by a single call."""
        self._by_name[name] = Recipe([(op, args)], reads)
        self._missing.pop(name, None)

    def to_copy(self, uses: Uses) -> Iterator[tuple[str, Operation, Operation]]:
        """Yield (name, take, put) of row state that a call has changed, if its recipe is too large.

        A copy of the row state is then to replace the recipe.
        """
        for one in (uses, *(own for _, _, own in uses.calls)):
            if one.changes is None or one.copies is None:
                continue
            if self._by_name[one.changes].nbytes > MOST_BYTES:
                yield one.changes, *one.copies

    def rebuilt(self, numbers: Collection[int]) -> None:
        """Record that these shards were built anew and have no row state."""
        for name in self._by_name if numbers else ():
            self.lack(name, numbers)

    def lack(self, name: str, numbers: Collection[int]) -> None:
        """Record that these shards do not have row state `name`."""
        self._missing.setdefault(name, set()).update(numbers)

    def clear(self) -> None:
        """Forget all recipes."""
        self._by_name.clear()
        self._missing.clear()

    def to_make(self, names: Iterable[str]) -> list[tuple[str, list[Call], list[int]]]:
        """List what to replay before row state `names` can be used: (name, calls, shards)."""
        if not self._missing:
            return []
        order: list[str] = []
        for name in (*ALWAYS, *names):
            self._collect(name, order)
        return [
            (name, self._by_name[name].calls, sorted(self._missing[name]))
            for name in order
            if self._missing.get(name)
        ]

    def made(self, name: str) -> None:
        """Record that all shards have row state `name` again."""
        self._missing.pop(name, None)

    def _collect(self, name: str, order: list[str]) -> None:
        """Append a name to `order`, after the names that its recipe reads."""
        if name in order or name not in self._by_name:
            return
        for other in self._by_name[name].reads:
            self._collect(other, order)
        order.append(name)
