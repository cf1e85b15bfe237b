"""The methods that `train` knows, and their options: what `parameters` says of them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass
from importlib.metadata import entry_points
from numbers import Integral
from typing import Any

import click

from dask_s3vm.cli.options import Numbers, Renamed, Word, YesNo, count_or_all, kernel_parameters
from dask_s3vm.parameters.fields import Between, OneOf, parameters_of
from dask_s3vm.parameters.methods import METHODS, estimator_of
from dask_s3vm.parameters.shared import KernelParameters, LeastSquaresKernel, RunParameters

#: Parameters that are options of other groups, or that a command has no use for.
_NOT_HERE = {
    "unlabeled",
    "warm_start",
    *KernelParameters.__dataclass_fields__,
    *RunParameters.__dataclass_fields__,
}

#: Parameter -> option, where the names differ.
_OPTION_NAMES = {"n_restarts": "restarts", "fit_intercept": "intercept"}

#: Options that had another name -> the one to use, and what its values mean.
RENAMED = {
    "placement": "--sharded now: no for pool, yes for shards",
    "scheme": "--sharded now: no for exact, yes for greedi",
    "solver": "--sharded now: no for exact, yes for sharded",
}


class NumberOrWord(click.ParamType):
    """A number, or one of several words."""

    name = "number"

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = words

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Read an option."""
        if value in self._words or isinstance(value, float):
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"wanted a number or one of {', '.join(self._words)}, got {value!r}")


@dataclass(frozen=True)
class Option:
    """An option that is a parameter of some methods.

    parameter : the parameter.
    fields : its field in each method that has it.
    """

    parameter: str
    fields: Mapping[str, "Field[Any]"]

    @property
    def name(self) -> str:
        """The option without its dashes."""
        return _OPTION_NAMES.get(self.parameter, self.parameter).replace("_", "-")

    @property
    def key(self) -> str:
        """The name as Python has it."""
        return self.name.replace("-", "_")

    def add_to(self, command: Callable[..., Any]) -> Callable[..., Any]:
        """Add it to a command."""
        kind = self._kind()
        name = f"--{self.name}/--no-{self.name}" if kind is bool else f"--{self.name}"
        kinds = {} if kind is bool else {"type": kind}
        return click.option(name, self.key, default=None, help=self.help(), **kinds)(command)

    def _kind(self) -> Any:
        """Type of the value for click; bool makes a pair --NAME/--no-NAME."""
        field = next(iter(self.fields.values()))
        constraints = [one for each in self.fields.values() for one in each.metadata["constraints"]]
        words = [one for one in constraints if isinstance(one, OneOf)]
        if "boolean" in constraints:
            return YesNo() if words else bool
        if "array-like" in constraints or tuple in constraints:
            return Numbers(whole=tuple in constraints)
        if dict in constraints and words and any(isinstance(one, Between) for one in constraints):
            return NumberOrWord(words[0].words)
        if dict in constraints:
            return Word()
        if words:
            return click.Choice(words[0].words)
        numbers = [one for one in constraints if isinstance(one, Between)]
        assert numbers, f"no option can be made of the constraints of {field.name}"
        return int if numbers[0].kind is Integral else float

    def help(self) -> str:
        """First sentence of each description, with the methods that it is for, and defaults."""
        sentences: dict[str, list[str]] = {}
        defaults: dict[str, list[str]] = {}
        for method, field in self.fields.items():
            sentence = re.split(r"(?<=\.)\s(?=[A-Z\"])", field.metadata["about"])[0].rstrip(".")
            sentences.setdefault(sentence, []).append(method)
            if field.default is not None:
                defaults.setdefault(_text(field.default), []).append(method)
        everywhere = len(self.fields) == len(METHODS)
        parts = []
        for sentence, methods in sentences.items():
            everyone = everywhere and len(sentences) == 1
            parts.append(sentence if everyone else f"{sentence} ({', '.join(methods)})")
        text = "; ".join(parts) + "."
        if len(defaults) == 1:
            return f"{text} [default: {next(iter(defaults))}]"
        shown = "; ".join(f"{value} for {', '.join(names)}" for value, names in defaults.items())
        return f"{text} [default: {shown}]" if shown else text


def method_parameters() -> list[Option]:
    """Options for the parameters of all methods, those that most have first."""
    found: dict[str, dict[str, Field[Any]]] = {}
    for method, kind in METHODS.items():
        for field in parameters_of(kind):
            if field.name not in _NOT_HERE:
                found.setdefault(field.name, {})[method] = field
    return [Option(name, fields) for name, fields in found.items()]


class MethodName(click.ParamType):
    """The name of a method."""

    name = "method"
    toml: tuple[type, ...] = (str,)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """List the methods."""
        return f"[{'|'.join(sorted(METHODS))}]"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return a name that is known."""
        if value not in METHODS:
            self.fail(f"{value!r} is not one of {', '.join(sorted(METHODS))}", param, ctx)
        return str(value)


def load_own_methods() -> None:
    """Import the modules that other packages name as entry points: these register their methods."""
    for entry in entry_points(group="dask_s3vm.methods"):
        entry.load()


def method_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --method and the options of all methods."""
    load_own_methods()
    for name, now in RENAMED.items():
        command = click.option(f"--{name}", name, type=Renamed(now), hidden=True)(command)
    for option in reversed(method_parameters()):
        command = option.add_to(command)
    return click.option(
        "--method",
        type=MethodName(),
        default="l2svm",
        show_default=True,
        help="How to train.",
    )(command)


class MethodCommand(click.Command):
    """A command with the options of all methods, those included that came after its making."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters."""
        params = super().get_params(ctx)
        known = {one.name for one in params}

        @method_options
        def every() -> None:
            pass

        return params + [one for one in every.__click_params__ if one.name not in known]  # type: ignore[attr-defined]


def make_estimator(chosen: Mapping[str, Any], **others: Any) -> Any:
    """Make the estimator that options ask for; an option that would have no effect is refused.

    Parameters
    ----------
    chosen : values of `method_options` and `kernel_options`.
    **others : further parameters, `verbose` for example; None where not wanted.
    """
    method = chosen["method"]
    kind = estimator_of(method)
    known = {field.name for field in parameters_of(kind)}
    params = {}
    for option in method_parameters():
        if chosen.get(option.key) is None:
            continue
        _refuse_unless(option.parameter in known, option.name, method)
        params[option.parameter] = chosen[option.key]
    for name, value in others.items():
        if value is not None:
            _refuse_unless(name in known, name.replace("_", "-"), method)
            params[name] = value
    if "class_weight" in params:
        params["class_weight"] = _class_weight(params["class_weight"])
    # a command that is given again comes to the same model
    repeatable = {"random_state": 0} if "random_state" in known else {}
    return kind(**(repeatable | params | _kernel_of(kind, chosen)))


def _refuse_unless(has_effect: bool, option: str, method: str) -> None:
    if not has_effect:
        raise click.UsageError(f"--{option} has no effect with --method {method}")


def _kernel_of(kind: Any, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of the kernel; some methods want a few of them without one too."""
    names = ("n_components", "sigma", "gamma", "degree", "coef0", "seed")
    given = {name: chosen[name] for name in names}
    own: dict[str, Any] = {}
    if chosen["kernel"] == "linear":
        has_landmarks = issubclass(kind, LeastSquaresKernel)
        if has_landmarks and given["n_components"] is not None:
            wanted = count_or_all(given.pop("n_components"))
            own["n_components"] = None if wanted == "all" else wanted
        draws = has_landmarks or hasattr(kind, "n_restarts")
        if draws and given["seed"] is not None:
            own["random_state"] = given.pop("seed")
    return kernel_parameters(chosen["kernel"], given) | own


def mark_of(text: str) -> int | str | None:
    """Read a label, or the mark of rows without one: a number, a word, or `none`."""
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        return text


def _class_weight(text: str) -> dict[Any, float] | str | None:
    """Read `none`, `balanced` or a list of LABEL=WEIGHT."""
    if text in ("none", "balanced"):
        return None if text == "none" else text
    weights: dict[Any, float] = {}
    for part in text.split(","):
        label, sign, weight = part.rpartition("=")
        try:
            if not sign or not label:
                raise ValueError("no pair")
            weights[mark_of(label.strip())] = float(weight)
        except ValueError:
            raise click.UsageError(
                f"--class-weight wants none, balanced or LABEL=WEIGHT,..., got {text!r}"
            ) from None
    return weights


def _text(value: Any) -> str:
    """A default as it would be typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return ",".join(f"{one:g}" for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
