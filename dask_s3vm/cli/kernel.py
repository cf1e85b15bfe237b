"""Options of `train` that choose a kernel."""

from collections.abc import Callable
from typing import Any

import click

from dask_s3vm.cli.kinds import Word

#: Option -> kernels that it is for; the others are for every kernel but the linear one.
_ONLY_FOR = {
    "sigma": ("rbf",),
    "gamma": ("rbf", "poly", "sigmoid", "laplacian", "chi2"),
    "degree": ("poly",),
    "coef0": ("poly", "sigmoid"),
}


def kernel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kernel and the parameters of kernels."""
    names = ["linear", "rbf", "poly", "laplacian", "cosine", "chi2", "sigmoid"]
    options = [
        click.option("--kernel", type=click.Choice(names), default="linear", show_default=True),
        click.option(
            "--n-components", type=Word(), help="Landmarks of a kernel, or `all`; default 500."
        ),
        click.option("--sigma", type=float, help="Width of rbf; default by the ranges of columns."),
        click.option("--gamma", type=float, help="Parameter of rbf (or --sigma) and others."),
        click.option("--degree", type=float, help="Degree of poly; default 3."),
        click.option("--coef0", type=float, help="Constant of poly and sigmoid; default 1."),
        click.option(
            "--seed",
            type=click.IntRange(0),
            help="Seed of landmarks and random starts [default: 0].",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def kernel_parameters(kernel: str, given: dict[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator; an option that would have no effect is refused."""
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


def count_or_all(text: str | None) -> int | str | None:
    """Read a number of landmarks; "all" and None stay."""
    if text is None or text.lower() == "all":
        return text if text is None else "all"
    try:
        return int(text)
    except ValueError:
        raise click.UsageError(f"--n-components wants a number or `all`, got {text!r}") from None
