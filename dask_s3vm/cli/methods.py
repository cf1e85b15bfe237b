"""The methods that `train` and `tune` know, and their options: what `parameters` says of them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import Field
from importlib.metadata import entry_points
from numbers import Integral
from typing import Any

import click

from dask_s3vm.cli.options import (
    ONLY_FOR,
    GroupedCommand,
    Numbers,
    Option,
    YesNo,
    add_options,
    option,
    renamed,
)
from dask_s3vm.parameters.fields import Between, OneOf, parameters_of
from dask_s3vm.parameters.methods import METHODS, estimator_of
from dask_s3vm.parameters.shared import KernelParameters, LeastSquaresKernel, RunParameters

#: The method of a command that names none.
DEFAULT_METHOD = "s3vm"

#: Parameters that are options of other groups, or that a command has no use for.
_NOT_HERE = {
    "unlabeled",
    "warm_start",
    *KernelParameters.__dataclass_fields__,
    *RunParameters.__dataclass_fields__,
}

#: Parameter -> option, where the names differ.
_OPTION_NAMES = {
    "n_restarts": "restarts",
    "fit_intercept": "intercept",
    "scale": "scale_columns",  # --scale is that of tables
}

#: Options that had another name -> the one to use, and what its values mean.
RENAMED = {
    "placement": "--sharded now: no for pool, yes for shards",
    "scheme": "--sharded now: no for exact, yes for greedi",
    "solver": "--sharded now: no for exact, yes for sharded",
}


class MethodOption(Option):
    """An option that is a parameter of some methods.

    `--help` shows the options that most methods have; with `--method`, those of that method.

    Parameters
    ----------
    parameter : the parameter.
    fields : its field in each method that has it.
    """

    def __init__(self, parameter: str, fields: "Mapping[str, Field[Any]]") -> None:
        self.parameter = parameter
        self.fields = fields
        self.key = _OPTION_NAMES.get(parameter, parameter)
        flag = self.key.replace("_", "-")
        kind = _kind(fields)
        name = f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}"
        kinds = {} if kind is bool else {"type": kind}
        super().__init__([name, self.key], group="method", default=None, help="-", **kinds)

    def is_shown(self, chosen: Mapping[str, str]) -> bool:
        """Whether `--help` shows it."""
        return chosen.get("method", DEFAULT_METHOD) in self.fields

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the columns of `--help`: of the method given, the default method, or all."""
        method = ctx.meta.get("topics", {}).get("method", DEFAULT_METHOD)
        self.help, self.shown = self._words(
            [method] if method in self.fields else list(self.fields),
            is_named=ctx.meta.get("help_all", False) and len(self.fields) < len(METHODS),
        )
        return super().get_help_record(ctx)

    def _words(self, methods: list[str], is_named: bool) -> tuple[str, str | None]:
        """First sentence of the description and the default, of the first of some methods.

        The default None is told by the description, after "None:".
        """
        field = self.fields[methods[0]]
        text = field.metadata["description"]
        sentence = re.split(r"(?<=\.)\s(?=[A-Z0-9\"(])", text)[0].rstrip(".")
        owners = f" ({', '.join(self.fields)})" if is_named else ""
        if field.default is not None:
            return f"{sentence}{owners}.", _text(field.default)
        meaning = re.search(r"None: (.+?)(?=[.;,](?:\s|$))", text)
        return f"{sentence}{owners}.", None if meaning is None else meaning[1]


def _kind(fields: "Mapping[str, Field[Any]]") -> Any:
    """Type of the value for click; bool makes a pair --NAME/--no-NAME."""
    constraints = [one for each in fields.values() for one in each.metadata["constraints"]]
    words = tuple(word for one in constraints if isinstance(one, OneOf) for word in one.words)
    numbers = [one for one in constraints if isinstance(one, Between)]
    if "boolean" in constraints:
        return YesNo() if words else bool
    if "array-like" in constraints or tuple in constraints:
        return Numbers(whole=tuple in constraints)
    if dict in constraints:
        return Classes(words or ("balanced", "none"), bool(numbers))
    if words:
        return Classes(words, True, False) if numbers else click.Choice(dict.fromkeys(words))
    assert numbers, f"no option can be made of the constraints of {next(iter(fields))}"
    return int if numbers[0].kind is Integral else float


class Classes(click.ParamType):
    """One of some words, a number, or a number for each class: LABEL=NUMBER,...

    Parameters
    ----------
    words : the words.
    takes_number, takes_pairs : whether the other two are allowed.
    """

    name = "text"

    def __init__(
        self, words: tuple[str, ...], takes_number: bool, takes_pairs: bool = True
    ) -> None:
        self._words = tuple(dict.fromkeys(words))
        self._takes_number = takes_number
        self._takes_pairs = takes_pairs

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Show what is allowed."""
        number = ["NUMBER"] if self._takes_number else []
        pairs = ["LABEL=NUMBER,..."] if self._takes_pairs else []
        return "|".join([*self._words, *number, *pairs])

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return a word (None for `none`), a number, or a dict from labels to numbers."""
        if not isinstance(value, str):
            return value
        if value in self._words:
            return None if value == "none" else value
        pairs = [part.rpartition("=") for part in value.split(",")]
        try:
            if self._takes_number and "=" not in value:
                return float(value)
            if self._takes_pairs and all(label and sign for label, sign, _ in pairs):
                return {mark_of(label.strip()): float(number) for label, _, number in pairs}
        except ValueError:
            pass
        self.fail(f"wants {self.get_metavar(param, ctx)}, got {value!r}", param, ctx)


def method_parameters() -> list[MethodOption]:
    """Options for the parameters of all methods, those of the default method first."""
    found: dict[str, dict[str, Field[Any]]] = {}
    names = [DEFAULT_METHOD, *(name for name in METHODS if name != DEFAULT_METHOD)]
    for method in names:
        for field in parameters_of(METHODS[method]):
            if field.name not in _NOT_HERE:
                found.setdefault(field.name, {})[method] = field
    return [MethodOption(name, fields) for name, fields in found.items()]


class MethodName(click.ParamType):
    """The name of a method."""

    name = "method"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return a name that is known."""
        value = value if value in METHODS else value.lower()
        if value not in METHODS:
            self.fail(f"{value!r} is not one of {', '.join(sorted(METHODS))}", param, ctx)
        return str(value)


def load_own_methods() -> None:
    """Import the modules that other packages name as entry points: these register their methods."""
    for entry in entry_points(group="dask_s3vm.methods"):
        entry.load()


def method_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --method; `MethodCommand` adds the options of all methods."""
    load_own_methods()
    options = [
        option("--method", type=MethodName(), default=DEFAULT_METHOD, show_default=True,
               group="method", metavar="NAME", help="How to train; see Methods."),
        *(renamed(name, now) for name, now in RENAMED.items()),
    ]  # fmt: skip
    return add_options(command, options)


class MethodCommand(GroupedCommand):
    """A command with the options of all methods, those included that came after its making."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters."""
        return super().get_params(ctx) + method_parameters()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the methods."""
        chosen = ctx.meta.get("topics", {}).get("method")
        names = [chosen] if chosen in METHODS else sorted(METHODS)
        with formatter.section("Methods"):
            formatter.write_dl([(name, f"{METHODS[name].facts.title}.") for name in names])
        super().format_epilog(ctx, formatter)


def make_estimator(chosen: Mapping[str, Any], **others: Any) -> Any:
    """Make the estimator that options ask for; an option that would have no effect is refused.

    Parameters
    ----------
    chosen : values of the options of methods and of `kernel_options`, and `seed`.
    **others : further parameters, `verbose` for example; None where not wanted.
    """
    method = chosen["method"]
    kind = estimator_of(method)
    known = {field.name for field in parameters_of(kind)}
    params = {}
    given = {one.parameter: chosen.get(one.key) for one in method_parameters()} | others
    for name, value in given.items():
        if value is not None:
            if name not in known:
                flag = _OPTION_NAMES.get(name, name).replace("_", "-")
                raise click.UsageError(f"--{flag} has no effect with --method {method}")
            params[name] = value
    # a command that is given again comes to the same model
    drawn = {"random_state": chosen.get("seed") or 0} if "random_state" in known else {}
    return kind(**drawn, **params, **kernel_parameters(kind, chosen))


def kernel_parameters(kind: Any, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the kernel; an option without effect is refused."""
    names = ("kernel", "n_components", "sigma", "gamma", "degree", "coef0")
    found = {name: chosen[name] for name in names if chosen.get(name) is not None}
    fields = {field.name: field for field in parameters_of(kind)}
    kernel = found.get("kernel", fields["kernel"].default if "kernel" in fields else "linear")
    for name in found.keys() - {"kernel"}:
        # least squares may need landmarks for the linear kernel too
        is_landmarks = name == "n_components" and issubclass(kind, LeastSquaresKernel)
        fits = kernel != "linear" and kernel in ONLY_FOR.get(name, (kernel,))
        if not (fits or is_landmarks):
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} has no effect with --kernel {kernel}")
    if found.get("n_components") == "all":
        found["n_components"] = None
    return found


def mark_of(text: str) -> int | str | None:
    """Read a label, or the mark of rows without one: a number, a word, or `none`."""
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    """A default as it would be typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return ",".join(f"{one:g}" for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
