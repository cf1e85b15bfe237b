"""Types of option values, and the groups of options of `train` that need no other module.

An option's value comes from the command line as text, or from the TOML file of `--config` as a TOML
value. Each type below lists the TOML types that it accepts in `toml`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import click

#: Prefix of the name of a table column, where an option takes a file or a column.
COLUMN = "column:"

#: Kernel option -> the kernels that it applies to; other options apply to all but the linear one.
_ONLY_FOR = {
    "sigma": ("rbf",),
    "gamma": ("rbf", "poly", "sigmoid", "laplacian", "chi2"),
    "degree": ("poly",),
    "coef0": ("poly", "sigmoid"),
}


class Word(click.ParamType):
    """A word or a whole number, stored as text: `all`, `-1`, `spam`."""

    name = "text"
    toml: tuple[type, ...] = (str, int)

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the value as text."""
        return str(value)


class YesNo(click.Choice):
    """`auto`, `yes` or `no`; a TOML file may have true and false for the latter two."""

    toml: tuple[type, ...] = (str, bool)

    def __init__(self) -> None:
        super().__init__(["auto", "yes", "no"])

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return True, False or "auto"."""
        if isinstance(value, bool):
            return value
        return {"yes": True, "no": False}.get(super().convert(value, param, ctx), "auto")


class Renamed(click.ParamType):
    """A former option: any value is refused, with the new name in the message."""

    name = "renamed"
    toml: tuple[type, ...] = (str, int, float, bool, list)

    def __init__(self, now: str) -> None:
        self._now = now

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Refuse the value."""
        self.fail(f"this option is called {self._now}", param, ctx)


class Numbers(click.ParamType):
    """Numbers separated by commas, or a list in a TOML file.

    Parameters
    ----------
    whole : bool
        Whether the numbers are integers.
    """

    name = "numbers"
    toml: tuple[type, ...] = (str, int, float, list)

    def __init__(self, whole: bool = False) -> None:
        self._read: Any = int if whole else float

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return a single number, or a tuple of several."""
        if isinstance(value, str):
            value = value.split(",")
        elif not isinstance(value, list | tuple):
            value = [value]
        try:
            if any(isinstance(item, bool) for item in value):
                raise TypeError("a truth value is not a number")
            found = tuple(self._read(item) for item in value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a list of numbers", param, ctx)
        if not found:
            self.fail("the list is empty", param, ctx)
        return found[0] if len(found) == 1 else found


class Place(click.ParamType):
    """A file or a folder, given by its path or its URL."""

    name = "path"
    toml: tuple[type, ...] = (str,)

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the path; an empty one is refused."""
        if not str(value):
            self.fail("the path is empty", param, ctx)
        return str(value)


class LabelPlace(Place):
    """A file of labels, or `column:NAME`."""

    name = "path|column:name"


def is_local(value: str) -> bool:
    """Whether a `Place` is a path of this machine, rather than a URL or a column."""
    return "://" not in value and not value.startswith(COLUMN)


def add_options(command: Callable[..., Any], options: Sequence[Any]) -> Callable[..., Any]:
    """Apply decorators of options to a command; `--help` lists them in the given order."""
    for option in reversed(options):
        command = option(command)
    return command


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --model, --predict-unlabeled, --report, --checkpoint, --resume, --dry-run, ..."""
    options = [
        click.option("--model", type=Place(), default="model.npz", show_default=True,
                     help="Model file to write."),
        click.option("--predict-unlabeled", type=Place(), metavar="OUT",
                     help="File to write the labels found for the unlabeled rows to: .csv or .npy "
                          "[default: none]."),
        click.option("--report", type=Place(), metavar="DIR",
                     help="Folder to write history, facts and plots to; `dask-s3vm report DIR` "
                          "makes a page from it [default: none]."),
        click.option("--checkpoint", type=Place(), metavar="DIR",
                     help="Folder to save the state of the fit in, for --resume [default: none]."),
        click.option("--resume", is_flag=True,
                     help="Resume from the state in --checkpoint; without a state there, start "
                          "from the beginning."),
        click.option("--dry-run", is_flag=True,
                     help="Print what the fit would need (memory, rounds, time), and stop."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option("--quiet", is_flag=True, help="Show no progress."),
    ]  # fmt: skip
    return add_options(command, options)


def label_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --labels and --unlabeled."""
    options = [
        click.option("--labels", type=LabelPlace(), metavar="FILE|column:NAME",
                     help="Labels that are not in DATA: a text file with one label per line "
                          "(0 = unlabeled), or .npy; or a column of the table."),
        click.option("--unlabeled", type=Word(),
                     help="Label that marks unlabeled rows, or `none` "
                          "[default: -1; 0 if --labels is a text file]."),
    ]  # fmt: skip
    return add_options(command, options)


def kernel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kernel and the parameters of kernels."""
    names = ["linear", "rbf", "poly", "laplacian", "cosine", "chi2", "sigmoid"]
    options = [
        click.option("--kernel", type=click.Choice(names), default="linear", show_default=True,
                     help="Kernel of the model."),
        click.option("--n-components", type=Word(),
                     help="Number of landmarks of the kernel, or `all` [default: 500]."),
        click.option("--sigma", type=float,
                     help="Width of the rbf kernel [default: from the ranges of the columns]."),
        click.option("--gamma", type=float,
                     help="Parameter gamma of poly, sigmoid, laplacian and chi2, and of rbf in "
                          "place of --sigma [default: 1 / number of columns; chi2: 1]."),
        click.option("--degree", type=float, help="Degree of the poly kernel [default: 3]."),
        click.option("--coef0", type=float,
                     help="Constant of the poly and sigmoid kernels [default: 1]."),
        click.option("--seed", type=click.IntRange(0),
                     help="Seed of landmarks and random starts [default: 0]."),
    ]  # fmt: skip
    return add_options(command, options)


def kernel_parameters(kernel: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the kernel parameters of an estimator; an option without effect is refused."""
    chosen = {name: value for name, value in given.items() if value is not None}
    for name in chosen:
        if kernel == "linear" or kernel not in _ONLY_FOR.get(name, (kernel,)):
            option = name.replace("_", "-")
            raise click.UsageError(f"--{option} has no effect with --kernel {kernel}")
    if "n_components" in chosen:
        wanted = count_or_all(chosen["n_components"])
        chosen["n_components"] = None if wanted == "all" else wanted
    if "seed" in chosen:
        chosen["random_state"] = chosen.pop("seed")
    return {"kernel": kernel, **chosen}


def count_or_all(text: str) -> int | str:
    """Read the value of --n-components: a number, or "all"."""
    if text.lower() == "all":
        return "all"
    try:
        return int(text)
    except ValueError:
        raise click.UsageError(f"--n-components wants a number or `all`, got {text!r}") from None
