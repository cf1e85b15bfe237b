"""`--config FILE`: options of a command from a TOML file, and the file that repeats a run.

Keys are the names of options, with - or _ in them, at the top or in the table of their group.
Paths are relative to the file. What is wrong is refused by name: a run that ignored a mistyped
key would be another run than the one that was wanted.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dask_s3vm.cli.kinds import Place, is_local

#: Groups of options: table -> what adds them to a command.
Groups = Mapping[str, Callable[..., Any]]

_KINDS: tuple[tuple[type, tuple[type, ...], str], ...] = (
    (click.types.BoolParamType, (bool,), "true or false"),
    (click.types.IntParamType, (int,), "a whole number"),
    (click.types.FloatParamType, (int, float), "a number"),
    (click.Choice, (str,), "a text"),
    (click.Path, (str,), "a path as text"),
    (click.types.StringParamType, (str, int), "a text"),
)
_NAMES = {str: "text", int: "whole number", float: "number", list: "list", bool: "truth value"}


def key_of(parameter: click.Parameter) -> str:
    """Return the key of a parameter: the name of its option, without dashes in front."""
    return max(parameter.opts, key=len).lstrip("-").replace("_", "-")


def names_of(add_options: Callable[..., Any]) -> list[str]:
    """Names, as Python has them, of the options that a decorator adds."""
    return [str(parameter.name) for parameter in _parameters_of(add_options)]


def _parameters_of(add_options: Callable[..., Any]) -> list[click.Parameter]:
    command = click.command()(add_options(lambda **given: None))
    return command.params


def with_config(
    ctx: click.Context, given: Mapping[str, Any], groups: Groups, left_out: tuple[str, ...]
) -> dict[str, Any]:
    """Fill in from the file of `--config` what the command line leaves open.

    Parameters
    ----------
    ctx : of the command; knows what was typed.
    given : values of all parameters, `config` among them: the file, or None.
    groups : tables of the file.
    left_out : parameters that a file cannot set.
    """
    chosen = dict(given)
    path = given["config"]
    if path is None:
        return chosen
    known = {key_of(p): p for p in ctx.command.params if p.name not in left_out}
    for key, value in _entries(path, known, groups):
        parameter = known[key]
        name = str(parameter.name)
        found = _value(ctx, path, key, value, parameter)  # what is wrong is wrong, used or not
        typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not typed or given[name] == ():
            chosen[name] = found
    return chosen


def _entries(
    path: str, known: Mapping[str, click.Parameter], groups: Groups
) -> Iterator[tuple[str, Any]]:
    """(key, value) of a file, in its order; refuses keys that are unknown, misplaced or twice."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not a TOML file: {error}") from None
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from None
    homes = {key_of(p): table for table, add in groups.items() for p in _parameters_of(add)}
    seen: dict[str, str] = {}
    for table, inside in content.items():
        entries = inside.items() if isinstance(inside, dict) else [(table, inside)]
        if isinstance(inside, dict) and table not in groups:
            raise click.UsageError(f"{path}: table [{table}] is not known{_near(table, groups)}")
        for raw, value in entries:
            where = f"[{table}] {raw}" if isinstance(inside, dict) else raw
            key = raw.replace("_", "-")
            if key not in known:
                raise click.UsageError(f"{path}: key {where!r} is not known{_near(key, known)}")
            if isinstance(inside, dict) and homes.get(key, table) != table:
                raise click.UsageError(
                    f"{path}: key {where!r} belongs into the table [{homes[key]}], or to the top"
                )
            if key in seen:
                raise click.UsageError(f"{path}: keys {seen[key]!r} and {where!r} are the same")
            seen[key] = where
            yield key, value


def _near(word: str, known: Mapping[str, Any]) -> str:
    known = {name: one for name, one in known.items() if not getattr(one, "hidden", False)}
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(sorted(known))}"


def _value(ctx: click.Context, path: str, key: str, value: Any, parameter: click.Parameter) -> Any:
    """Check a value of the file, as strictly as TOML allows, and convert it."""
    several = parameter.nargs == -1 or getattr(parameter, "multiple", False)
    items = value if several and isinstance(value, list) else [value]
    found = [_one_value(ctx, path, key, item, parameter) for item in items]
    return tuple(found) if several else found[0]


def _one_value(
    ctx: click.Context, path: str, key: str, value: Any, parameter: click.Parameter
) -> Any:
    kinds, wanted = _wanted(parameter.type)
    right = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    if not right:
        kind = _NAMES.get(type(value), type(value).__name__)
        raise click.UsageError(f"{path}: {key} = {value!r} is a {kind}, wanted {wanted}")
    try:
        found = parameter.type.convert(value, parameter, ctx)
    except click.BadParameter as error:
        raise click.UsageError(f"{path}: {key} = {value!r}: {error.message}") from None
    if isinstance(parameter.type, Place | click.Path) and is_local(found):
        return os.path.join(os.path.dirname(os.path.abspath(path)), found)
    return found


def _wanted(kind: click.ParamType) -> tuple[tuple[type, ...], str]:
    own = getattr(kind, "toml", None)
    if own is not None:
        return own, " or ".join(_NAMES[one] for one in own)
    for known, kinds, words in _KINDS:
        if isinstance(kind, known):
            return kinds, words
    raise AssertionError(f"no rule for options of type {kind!r}")


def effective(
    ctx: click.Context, chosen: Mapping[str, Any], groups: Groups, left_out: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Tables of a file that repeats a run: what was chosen, paths made absolute."""
    known = {str(p.name): p for p in ctx.command.params}
    tables: dict[str, dict[str, Any]] = {}
    for table, add in groups.items():
        names = [name for name in names_of(add) if name not in left_out]
        entries = {
            key_of(known[name]): _absolute(chosen[name], known[name].type)
            for name in names
            if chosen[name] is not None and chosen[name] != ()
        }
        if entries:
            tables[table] = entries
    return tables


def _absolute(value: Any, kind: click.ParamType) -> Any:
    if isinstance(value, tuple):
        return [_absolute(item, kind) for item in value]
    if isinstance(kind, Place | click.Path) and is_local(value):
        return os.path.abspath(value)
    return value


def to_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Write tables of texts, numbers, truth values and lists as TOML."""
    parts = []
    for table, entries in tables.items():
        lines = [f"[{table}]", *(f"{key} = {_literal(value)}" for key, value in entries.items())]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_literal(item) for item in value)}]"
    if isinstance(value, int | float):
        return repr(value)
    # JSON and TOML quote alike, but for the one control character that JSON leaves bare
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
