"""What operations say of the row state that they use, and how it is made again.

An operation is a function ``op(shard, *args)``. Per-row arrays that it leaves in `shard.state` for
later operations are *row state*, known by a name, and the operation says so:

    @operation(sets="slot{slot}", reads=("targets", "costs"))
    def evaluate(shard, w, bias, slot): ...

*sets* means: made from the arguments and from what it reads, whatever was there before. *changes*
means: made from what was there. A name may hold an argument in braces. So row state has a *recipe*,
the call that set it and those that changed it since, by which an engine makes it again on shards
that had to be rebuilt.
"""

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

#: What a round runs on a shard: op(shard, *args).
Operation = Callable[..., Any]

Op = TypeVar("Op", bound=Operation)

Call = tuple[Operation, tuple[Any, ...]]


@dataclass(frozen=True)
class Uses:
    """Names of the row state that a call sets or changes, and reads."""

    sets: str | None = None
    changes: str | None = None
    reads: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """What has to be there before the call."""
        return self.reads if self.changes is None else (*self.reads, self.changes)


#: Bytes of arguments that a recipe may hold before row state is copied instead.
MOST_BYTES = 32 << 20

#: Row state that every operation reads: see `shard.hold_out`.
ALWAYS = ("held out",)

_UNDECLARED: tuple[Any, list[str]] = (Uses(), [])


def operation(
    *,
    sets: str | None = None,
    changes: str | None = None,
    reads: Iterable[str] = (),
    uses: Callable[..., Uses] | None = None,
) -> Callable[[Op], Op]:
    """Declare the row state that an operation uses; with `uses`, as a function of its arguments."""

    def declare(op: Op) -> Op:
        names = list(inspect.signature(op).parameters)[1:]
        declared = uses or Uses(sets, changes, tuple(reads))
        op.row_state = declared, names  # type: ignore[attr-defined]
        return op

    return declare


def uses_of(op: Operation, args: tuple[Any, ...]) -> Uses:
    """What a call uses, with arguments put in for the braces."""
    declared, names = getattr(op, "row_state", _UNDECLARED)
    if callable(declared):
        return declared(*args)

    def fill(name: str) -> str:
        if "{" not in name:
            return name
        return re.sub(r"{(\w+)}", lambda found: str(args[names.index(found[1])]), name)

    return Uses(
        None if declared.sets is None else fill(declared.sets),
        None if declared.changes is None else fill(declared.changes),
        tuple(fill(name) for name in declared.reads),
    )


@dataclass
class Recipe:
    """How to make row state: calls, in order, what they read, and the bytes of their arguments."""

    calls: list[Call]
    reads: tuple[str, ...] = ()
    nbytes: int = 0


#: By name: an operation that takes row state as it is, and one that puts back what that gave.
_copies: dict[str, tuple[Operation, Operation]] = {}


def copied_by(name: str, take: Operation, put: Operation) -> None:
    """Say how row state that is changed by many calls can be copied: `put(shard, [take(shard)])`.

    Where the arguments of the calls have become many bytes, an engine keeps a copy in their place.
    """
    _copies[name] = take, put


@dataclass
class Recipes:
    """The row state of a fit by name, and which rebuilt shards do not have it yet."""

    _by_name: dict[str, Recipe] = field(default_factory=dict)
    _missing: dict[str, set[int]] = field(default_factory=dict)

    def note(self, op: Operation, args: tuple[Any, ...], uses: Uses) -> None:
        """Take note of a call that every shard has carried out."""
        if uses.sets is not None:
            self.put(uses.sets, op, args, uses.reads)
        elif uses.changes is not None:
            recipe = self._by_name[uses.changes]
            recipe.calls.append((op, args))
            recipe.nbytes += sum(getattr(arg, "nbytes", 0) for arg in args)
            recipe.reads = tuple(dict.fromkeys(recipe.reads + uses.reads))

    def put(
        self, name: str, op: Operation, args: tuple[Any, ...], reads: tuple[str, ...] = ()
    ) -> None:
        """Say by which call row state that all shards have can be made again."""
        self._by_name[name] = Recipe([(op, args)], reads)
        self._missing.pop(name, None)

    def copy_of(self, name: str | None) -> tuple[Operation, Operation] | None:
        """How to copy row state whose recipe has become too long, if it has."""
        recipe = None if name is None else self._by_name.get(name)
        return _copies.get(str(name)) if recipe and recipe.nbytes > MOST_BYTES else None

    def rebuilt(self, numbers: Iterable[int]) -> None:
        """Take note of shards that have no row state."""
        for name in self._by_name:
            self._missing.setdefault(name, set()).update(numbers)

    def clear(self) -> None:
        """Forget everything."""
        self._by_name.clear()
        self._missing.clear()

    def to_make(self, names: Iterable[str]) -> list[tuple[str, list[Call], list[int]]]:
        """List (name, calls, shards) to be carried out before row state of these names is used."""
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
        """Take note that all shards have it."""
        self._missing.pop(name, None)

    def _collect(self, name: str, order: list[str]) -> None:
        """Append a name, after those that it is made from."""
        if name in order or name not in self._by_name:
            return
        for other in self._by_name[name].reads:
            self._collect(other, order)
        order.append(name)
