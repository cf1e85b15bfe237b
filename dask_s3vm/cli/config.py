"""`--config FILE`: options of a command from a TOML file, and the file that repeats a run.

Keys are the names of options, with - or _, at the top level or in the table of their group. A value
is what would be typed on the command line; the file becomes click's `default_map`. Paths are
relative to the file. An unknown key or a wrong value is an error: a run that ignored a misspelled
key would not be the intended one.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from dask_s3vm.cli.options import GROUPS, Place, add_options, option

#: Options that a file cannot have.
_NOT_HERE = ("config", "print-config", "log-level", "help", "help-all")


def config_options(command: Any) -> Any:
    """Add --config and --print-config."""
    options = [
        option("--config", group="run", is_eager=True, expose_value=False, callback=_read_config,
               metavar="FILE",
               help="Take options from a TOML file; those of the command line win."),
        option("--print-config", is_flag=True, group="run",
               help="Print the options as such a file, and stop."),
    ]  # fmt: skip
    return add_options(command, options)


def key_of(parameter: click.Parameter) -> str:
    """Return the TOML key of a parameter: the name of its option, without leading dashes."""
    return max(parameter.opts, key=len).lstrip("-").replace("_", "-")


def _read_config(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    """Make the entries of a file the defaults of a command."""
    if path is None:
        return
    params = {key_of(one): one for one in ctx.command.get_params(ctx)}
    known = {key: one for key, one in params.items() if key not in _NOT_HERE}
    ctx.default_map = {}
    for key, value in _entries(path, known):
        parameter = known[key]
        found = _typed(value, parameter, os.path.dirname(path))
        try:  # checked even if the command line has another value
            parameter.type_cast_value(ctx, found)
        except click.BadParameter as error:
            raise click.UsageError(f"{path}: {key} = {value!r}: {error.message}") from None
        ctx.default_map[str(parameter.name)] = found


def _entries(path: str, known: Mapping[str, click.Parameter]) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of a file in order; unknown, misplaced and repeated keys are refused."""
    seen: dict[str, str] = {}
    for table, inside in _content(path).items():
        is_table = isinstance(inside, dict)
        if is_table and table not in GROUPS:
            raise click.UsageError(f"{path}: table [{table}] is not known{_near(table, GROUPS)}")
        for raw, value in inside.items() if is_table else [(table, inside)]:
            where, key = f"[{table}] {raw}" if is_table else raw, raw.replace("_", "-")
            if key not in known:
                shown = [name for name, one in known.items() if not getattr(one, "hidden", False)]
                raise click.UsageError(f"{path}: key {where!r} is not known{_near(key, shown)}")
            home = getattr(known[key], "group", "data")
            if is_table and home != table and not getattr(known[key], "hidden", False):
                raise click.UsageError(
                    f"{path}: key {where!r} belongs in table [{home}], or at the top level"
                )
            if key in seen:
                raise click.UsageError(f"{path}: keys {seen[key]!r} and {where!r} are the same")
            seen[key] = where
            yield key, value


def _content(path: str) -> dict[str, Any]:
    from dask_s3vm.io.store import open_input

    try:
        with open_input(path) as stream:
            return tomllib.load(stream)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not a TOML file: {error}") from None
    except (OSError, ValueError) as error:
        raise click.UsageError(f"cannot read {path}: {error}") from None


def _near(word: str, known: Iterable[str]) -> str:
    """Suggest the known name that is most like a word; list all of them if none is."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"


def _typed(value: Any, parameter: click.Parameter, folder: str) -> Any:
    """Return a TOML value as it would be typed."""
    several = parameter.nargs == -1 or getattr(parameter, "multiple", False)
    items = value if isinstance(value, list) else [value]
    words = [str(one).lower() if isinstance(one, bool) else str(one) for one in items]
    if isinstance(parameter.type, Place | click.Path):
        words = [word if "://" in word else os.path.join(folder, word) for word in words]
    return words if several else ",".join(words)


def effective(ctx: click.Context, excluded: Iterable[str]) -> str:
    """Return the text of a file that repeats a run, with absolute paths.

    Parameters
    ----------
    ctx : click.Context
        Of the command.
    excluded : iterable of str
        Parameters that are not written.
    """
    tables: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    for one in ctx.command.get_params(ctx):
        value = ctx.params.get(str(one.name))
        if value not in (None, ()) and key_of(one) not in _NOT_HERE and one.name not in excluded:
            table = tables[getattr(one, "group", "data")]
            table[key_of(one)] = _absolute(value, one.type)
    return to_toml({group: entries for group, entries in tables.items() if entries})


def _absolute(value: Any, kind: click.ParamType) -> Any:
    if isinstance(value, tuple):
        return [_absolute(item, kind) for item in value]
    if isinstance(value, dict):
        return ",".join(f"{label}={number!r}" for label, number in value.items())
    if isinstance(kind, Place | click.Path) and "://" not in value:
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
