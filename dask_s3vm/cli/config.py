"""`--config FILE`: options of a command from a TOML file, and the file that repeats a run.

Keys are the names of options, with - or _, at the top level or in the table of their group. Paths
are relative to the file. An unknown key or a wrong value is an error: a run that ignored a
misspelled key would not be the intended one.
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

from dask_s3vm.cli.options import Place, is_local

#: Groups of options: table -> decorator that adds the options to a command.
Groups = Mapping[str, Callable[..., Any]]

#: Click type -> TOML types that it accepts, and their description.
_KINDS: tuple[tuple[type, tuple[type, ...], str], ...] = (
    (click.types.BoolParamType, (bool,), "true or false"),
    (click.types.IntParamType, (int,), "a whole number"),
    (click.types.FloatParamType, (int, float), "a number"),
    (click.Choice, (str,), "a text"),
    (click.Path, (str,), "a path as text"),
    (click.types.StringParamType, (str, int), "a text"),
)
#: TOML type -> its name in error messages.
_NAMES = {str: "text", int: "whole number", float: "number", list: "list", bool: "truth value"}


def key_of(parameter: click.Parameter) -> str:
    """Return the TOML key of a parameter: the name of its option, without leading dashes."""
    return max(parameter.opts, key=len).lstrip("-").replace("_", "-")


def names_of(add_options: Callable[..., Any]) -> list[str]:
    """Return the Python names of the options that a decorator adds."""
    return [str(parameter.name) for parameter in _parameters_of(add_options)]


def _parameters_of(add_options: Callable[..., Any]) -> list[click.Parameter]:
    command = click.command()(add_options(lambda **given: None))
    return command.params


def with_config(
    ctx: click.Context, given: Mapping[str, Any], groups: Groups, excluded: tuple[str, ...]
) -> dict[str, Any]:
    """Return the values of all parameters: those of the command line, then those of the file.

    Parameters
    ----------
    ctx : click.Context
        Of the command; knows which options are on the command line.
    given : dict
        Values of all parameters; `config` is the path of the file, or None.
    groups : dict
        Tables of the file.
    excluded : tuple of str
        Parameters that a file cannot set.
    """
    chosen = dict(given)
    path = given["config"]
    if path is None:
        return chosen
    known = {key_of(p): p for p in ctx.command.get_params(ctx) if p.name not in excluded}
    for key, value in _entries(path, known, groups):
        parameter = known[key]
        name = str(parameter.name)
        found = _value(ctx, path, key, value, parameter)  # checked even if it is not used
        typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not typed or given[name] == ():
            chosen[name] = found
    return chosen


def _entries(
    path: str, known: Mapping[str, click.Parameter], groups: Groups
) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of a file in order; unknown, misplaced and repeated keys are refused."""
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
                    f"{path}: key {where!r} belongs in table [{homes[key]}], or at the top level"
                )
            if key in seen:
                raise click.UsageError(f"{path}: keys {seen[key]!r} and {where!r} are the same")
            seen[key] = where
            yield key, value


def _near(word: str, known: Mapping[str, Any]) -> str:
    """Suggest the known name that is most like a word; list all of them if none is."""
    known = {name: one for name, one in known.items() if not getattr(one, "hidden", False)}
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(sorted(known))}"


def _value(ctx: click.Context, path: str, key: str, value: Any, parameter: click.Parameter) -> Any:
    """Check the TOML type of a value, and convert it."""
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
    """Return the TOML types that an option accepts, and their description."""
    own = getattr(kind, "toml", None)
    if own is not None:
        return own, " or ".join(_NAMES[one] for one in own)
    for known, kinds, words in _KINDS:
        if isinstance(kind, known):
            return kinds, words
    raise AssertionError(f"no rule for options of type {kind!r}")


def effective(
    ctx: click.Context, chosen: Mapping[str, Any], groups: Groups, excluded: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Return the tables of a file that repeats a run, with absolute paths.

    Parameters
    ----------
    ctx, groups
        See `with_config`.
    chosen : dict
        Values of all parameters.
    excluded : tuple of str
        Parameters that are not written.
    """
    known = {str(p.name): p for p in ctx.command.get_params(ctx)}
    tables: dict[str, dict[str, Any]] = {}
    for table, add in groups.items():
        names = [name for name in names_of(add) if name not in excluded]
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
    """Write tables of strings, numbers, booleans and lists as TOML."""
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
    # JSON and TOML escape alike, except for the control character DEL
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
