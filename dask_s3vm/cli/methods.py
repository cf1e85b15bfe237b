"""The methods that `train` knows, and their options: all that estimators have, in one table."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from dask_s3vm.cli.kernel import count_or_all, kernel_parameters
from dask_s3vm.cli.kinds import Numbers, Renamed, Word, YesNo

#: Method -> its estimator. An option has an effect if the estimator has the parameter.
METHODS = {
    "l2svm": "L2SVM",
    "tsvm": "TSVM",
    "da": "DAS3VM",
    "qn": "QNS3VM",
    "rlsc": "RLSC",
    "s2rlsc": "S2RLSC",
    "star": "STARSVM",
    "qp": "QPS3VM",
    "sqp": "SubmodularS3VM",
}

#: Options of kernels that some methods want without one too.
_WITHOUT_KERNEL = {
    "rlsc": ("n_components", "seed"),
    "s2rlsc": ("n_components", "seed"),
    "qp": ("seed",),
}


@dataclass(frozen=True)
class Option:
    """An option that is a parameter of estimators.

    kind : click's type of the value; bool makes a pair --NAME/--no-NAME.
    parameter : name of the estimator's parameter, where it is not that of the option.
    """

    name: str
    kind: Any
    help: str
    parameter: str = ""

    @property
    def key(self) -> str:
        """The name as Python has it."""
        return self.name.replace("-", "_")

    @property
    def target(self) -> str:
        """The estimator's parameter."""
        return self.parameter or self.key

    def add_to(self, command: Callable[..., Any]) -> Callable[..., Any]:
        """Add it to a command."""
        if self.kind is bool:
            pair = f"--{self.name}/--no-{self.name}"
            return click.option(pair, self.key, default=None, help=self.help)(command)
        return click.option(f"--{self.name}", self.key, type=self.kind, help=self.help)(command)


def _choice(*names: str) -> click.Choice:
    return click.Choice(names)


OPTIONS = (
    Option("lam", Numbers(), "Regularization; 1e-3, rlsc and s2rlsc 1. rlsc: also several."),
    Option("lam-unlabeled", float, "Weight of unlabeled rows; 1 (tsvm, da, qn, s2rlsc)."),
    Option("positive-ratio", float, "Share of positive rows; as among the labeled."),
    Option("C", float, "Weight of the loss; 1 (qp, sqp, star)."),
    Option("C-unlabeled", float, "Of unlabeled rows; C l / u (qp, sqp)."),
    Option("threshold", _choice("zero", "ratio"), "See TSVM; zero (tsvm, da, qn)."),
    Option("max-switches", int, "Maximum number of label pairs switched at once (tsvm)."),
    Option("offset", _choice("balanced", "free"), "See QNS3VM; balanced (qn)."),
    Option("annealing", Numbers(), "Weights of unlabeled rows by stage, rising to 1 (qn)."),
    Option("gtol", float, "Largest gradient at stop; 1e-9 (qn)."),
    Option("restarts", int, "Starts of s2rlsc (50) and qp (0).", "n_restarts"),
    Option("patience", int, "Stop after so many restarts in vain (s2rlsc)."),
    Option("balance-tol", float, "Around --positive-ratio; 0.1 (s2rlsc)."),
    Option("population", Numbers(whole=True), "Parents and children; 5,25 (s2rlsc)."),
    Option("sharded", YesNo(), "Search in the shards, or all rows; auto (s2rlsc, sqp, star)."),
    Option("dtype", _choice("float64", "float32"), "Of the search; float64 (s2rlsc)."),
    Option("center", bool, "Center the rows; qp and sqp yes, s2rlsc no."),
    Option("pick", _choice("fewer", "positive"), "Which rows; fewer (sqp)."),
    Option("confidence", float, "What a later label counts; 0.7 (star)."),
    Option("weighting", _choice("minority", "printed", "none"), "See STARSVM (star)."),
    Option("min-share", float, "Least share of rows that a stage labels (star)."),
    Option("max-stages", int, "Maximum number of stages (star)."),
    Option("class-weight", Word(), "none, balanced or LABEL=WEIGHT,... (not star)."),
    Option("intercept", bool, "Have a bias; yes (not star).", "fit_intercept"),
    Option("tol", float, "Relative gap at stop; 1e-6 (star: 1e-3; not rlsc, s2rlsc)."),
    Option("max-iter", int, "Newton steps; 100 (qn: evaluations, 500; star: 1000)."),
)

#: Options that had another name -> the one to use, and what its values mean.
RENAMED = {
    "placement": "--sharded now: no for pool, yes for shards",
    "scheme": "--sharded now: no for exact, yes for greedi",
    "solver": "--sharded now: no for exact, yes for sharded",
}


def method_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --method and the options of all methods."""
    for name, now in RENAMED.items():
        command = click.option(f"--{name}", name, type=Renamed(now), hidden=True)(command)
    for option in reversed(OPTIONS):
        command = option.add_to(command)
    return click.option(
        "--method", type=click.Choice(sorted(METHODS)), default="l2svm", show_default=True
    )(command)


def make_estimator(chosen: Mapping[str, Any], **others: Any) -> Any:
    """Make the estimator that options ask for; an option that would have no effect is refused.

    Parameters
    ----------
    chosen : values of `method_options` and `kernel_options`.
    **others : further parameters, `verbose` for example; None where not wanted.
    """
    import dask_s3vm

    method = chosen["method"]
    kind = getattr(dask_s3vm, METHODS[method])
    known = inspect.signature(kind).parameters
    params = {}
    for option in OPTIONS:
        if chosen[option.key] is None:
            continue
        _refuse_unless(option.target in known, option.name, method)
        params[option.target] = chosen[option.key]
    for name, value in others.items():
        if value is not None:
            _refuse_unless(name in known, name.replace("_", "-"), method)
            params[name] = value
    if "class_weight" in params:
        params["class_weight"] = _class_weight(params["class_weight"])
    # a command that is given again comes to the same model
    repeatable = {"random_state": 0} if "random_state" in known else {}
    return kind(**(repeatable | params | _kernel_of(method, chosen)))


def _refuse_unless(has_effect: bool, option: str, method: str) -> None:
    if not has_effect:
        raise click.UsageError(f"--{option} has no effect with --method {method}")


def _kernel_of(method: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of the kernel; some methods want a few of them without one too."""
    names = ("n_components", "sigma", "gamma", "degree", "coef0", "seed")
    given = {name: chosen[name] for name in names}
    own: dict[str, Any] = {}
    if chosen["kernel"] == "linear":
        for name in _WITHOUT_KERNEL.get(method, ()):
            value = given.pop(name)
            if name == "seed" and value is not None:
                own["random_state"] = value
            elif value is not None:
                wanted = count_or_all(value)
                own[name] = None if wanted == "all" else wanted
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
