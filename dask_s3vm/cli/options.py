"""Options in groups, types of their values, and the groups of options that need no other module.

`--help` shows the common options. An option that belongs to one value of `--method`, `--kernel` or
`--format` is shown if that value is on the command line too, and `--help-all` shows all options.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

#: Groups of options, in the order of `--help`; each is a table of a `--config` file.
GROUPS = ("data", "labels", "method", "kernel", "run", "cluster")

#: Options whose value decides what else `--help` shows.
TOPICS = ("method", "kernel", "format")

#: Kernel option -> the kernels that it applies to; other options apply to all but the linear one.
ONLY_FOR = {
    "sigma": ("rbf",),
    "gamma": ("rbf", "poly", "sigmoid", "laplacian", "chi2"),
    "degree": ("poly",),
    "coef0": ("poly", "sigmoid"),
}


class Option(click.Option):
    """An option of a group.

    Parameters
    ----------
    group : str
        One of `GROUPS`.
    shown : str or None
        The default in words, where the value itself says too little.
    topic : tuple (str, tuple of str) or None
        One of `TOPICS` and its values for which `--help` shows the option; None: always.
    """

    def __init__(
        self,
        *args: Any,
        group: str,
        shown: str | None = None,
        topic: tuple[str, tuple[str, ...]] | None = None,
        **more: Any,
    ) -> None:
        if isinstance(more.get("type"), click.IntRange):
            more.setdefault("metavar", "N")  # not INTEGER RANGE
        super().__init__(*args, **more)
        self.group = group
        self.shown = shown
        self.topic = topic

    def is_shown(self, chosen: Mapping[str, str]) -> bool:
        """Whether `--help` shows the option, given the values of `TOPICS`."""
        return self.topic is None or chosen.get(self.topic[0]) in self.topic[1]

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return what `--help` shows in brackets: the default."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        if self.shown is not None:
            extra["default"] = self.shown
        return extra


class GroupedCommand(click.Command):
    """A command whose `--help` shows its options in groups, the common ones first."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if any(getattr(one, "topic", None) for one in self.params):
            self.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_show_all,
                    help="Show all options and exit.",
                )
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; note the values of `TOPICS` for `--help`, which comes first."""
        ctx.meta["topics"] = topics = _values_of(TOPICS, args)
        if {"-h", "--help", "--help-all"} & {*args}:  # which would come before a wrong value
            for one in self.params:
                if one.name in topics:
                    one.type_cast_value(ctx, topics[one.name])
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options group by group."""
        chosen, everything = ctx.meta.get("topics", {}), ctx.meta.get("help_all", False)
        sections: dict[str, list[tuple[str, str]]] = {group: [] for group in (*GROUPS, "other")}
        left_out: dict[str, None] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is None or isinstance(one, click.Argument):
                continue
            if isinstance(one, Option) and not everything and not one.is_shown(chosen):
                left_out[one.topic[0] if one.topic else "method"] = None
            else:
                sections[getattr(one, "group", "other")].append(record)
        for group, records in sections.items():
            if records:
                with formatter.section(f"{group.capitalize().removesuffix('s')} options"):
                    formatter.write_dl(records)
        names = [f"--{topic} NAME" for topic in TOPICS if topic in left_out]
        if left_out:
            of = f"Add {' or '.join(names)} to see the options of that choice; " if names else ""
            with formatter.section("More options"):
                formatter.write_text(f"{of}--help-all shows all.")


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta["help_all"] = True
        click.echo(ctx.get_help())
        ctx.exit()


def _values_of(names: Iterable[str], args: list[str]) -> dict[str, str]:
    """Values of options in an unparsed command line."""
    found = {}
    for name in names:
        for place, word in enumerate(args):
            if word == f"--{name}" and place + 1 < len(args):
                found[name] = args[place + 1]
            elif word.startswith(f"--{name}="):
                found[name] = word.split("=", 1)[1]
    return found


#: How messages about the labels begin.
_OF_LABELS = r"(the most frequent label of |Unknown label type: )?y\b"


def name_options(message: str) -> str:
    """Return a message with the options of the current command for parameters of Python."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return message
    if ctx.params.get("label") and re.match(_OF_LABELS, message):
        message = f"label column {ctx.params['label']!r}: {message}"
    flags = {
        getattr(one, "parameter", one.name): one.opts[0] for one in ctx.command.get_params(ctx)
    }
    for name, flag in flags.items():
        if not flag.startswith("--"):
            continue
        word = rf"(?<![\w'\"/.\\-]){name}"
        message = re.sub(rf"The '{name}' parameter of \w+", flag, message)
        message = message.replace(f"TableEncoder({name}=...)", flag)
        message = re.sub(rf"{word}=(?=[\w'.-])", f"{flag} ", message)
        message = re.sub(rf"{word}=(?=[ ,;)]|$)", flag, message)
        # a name with a low line is no word of English; others are if they begin what is said
        plain = (
            rf"{word}(?![\w'\"/.])"
            if "_" in name
            else rf"(?:^|(?<=: )){name}(?= (?:is|must|names)\b)"
        )
        message = re.sub(plain, flag, message)
    return message


def option(*names: str, group: str, **more: Any) -> Callable[..., Any]:
    """Decorate a command with an `Option`."""
    return click.option(*names, cls=Option, group=group, **more)


def add_options(command: Callable[..., Any], options: Iterable[Any]) -> Callable[..., Any]:
    """Apply decorators of options to a command; `--help` lists them in the given order."""
    for one in reversed(list(options)):
        command = one(command)
    return command


def names_of(add: Callable[..., Any]) -> list[str]:
    """Return the Python names of the options that a decorator adds."""
    return [str(one.name) for one in click.command()(add(lambda **given: None)).params]


class Renamed(click.ParamType):
    """A former option: any value is refused, with the new name in the message."""

    name = "renamed"

    def __init__(self, now: str) -> None:
        self._now = now

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Refuse the value."""
        self.fail(f"this option is called {self._now}", param, ctx)


def renamed(name: str, now: str, **more: Any) -> Callable[..., Any]:
    """Decorate a command with a former option, hidden and refused."""
    key = name.replace("-", "_")
    return click.option(
        f"--{name}", f"_{key}", type=Renamed(now), hidden=True, expose_value=False, **more
    )


class YesNo(click.Choice):
    """`auto`, `yes` or `no`; true and false of a TOML file are the latter two."""

    def __init__(self) -> None:
        super().__init__(["auto", "yes", "no"])

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return True, False or "auto"."""
        if isinstance(value, bool):
            return value
        words = {"true": "yes", "false": "no"}
        found = super().convert(words.get(value, value), param, ctx)
        return {"yes": True, "no": False}.get(found, "auto")


class Numbers(click.ParamType):
    """Numbers separated by commas: one number, or a tuple of several.

    Parameters
    ----------
    whole : bool
        Whether the numbers are integers.
    """

    name = "numbers"

    def __init__(self, whole: bool = False) -> None:
        self._read: Any = int if whole else float

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return a single number, or a tuple of several."""
        if not isinstance(value, str):
            return value
        try:
            found = tuple(self._read(item) for item in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a number or a list of numbers", param, ctx)
        return found[0] if len(found) == 1 else found


class Share(click.FloatRange):
    """A number between 0 and 1, which NaN is not, although it is neither less nor more."""

    def __init__(self) -> None:
        super().__init__(0, 1, min_open=True, max_open=True)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number."""
        found = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value!r} is not a number between 0 and 1", param, ctx)
        return found


class CountOrAll(click.ParamType):
    """A positive whole number, or `all`."""

    name = "number|all"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number, or "all"."""
        if str(value).lower() == "all":
            return "all"
        try:
            return int(value)
        except ValueError:
            self.fail(f"wants a number or `all`, got {value!r}", param, ctx)


class Place(click.ParamType):
    """A file or a folder, given by its path or its URL."""

    name = "path"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the path; an empty one is refused."""
        if not str(value):
            self.fail("the path is empty", param, ctx)
        return str(value)


def label_place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where labels are."""
    options = [
        option("--label", group="labels", metavar="COLUMN",
               help="Label column of a table: its name, its number (-1: the last), or `none`."),
        option("--labels", type=Place(), group="labels", metavar="FILE",
               help="File of labels for the rows of DATA: text with one label per line, or .npy."),
        option("--positive", multiple=True, group="labels", metavar="LABEL",
               help="Label of class 1, all other labels being class 0; repeatable.",
               shown="each label is a class"),
        renamed("label-column", "--label now"),
    ]  # fmt: skip
    return add_options(command, options)


def label_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where labels are, what marks unlabeled rows, and what to hide."""
    options = [
        label_place_options,
        option("--unlabeled", group="labels", metavar="MARK", default="auto", show_default=True,
               help="Label that marks unlabeled rows, or `none`. auto: an empty cell, or -1; 0 in "
                    "a --labels text file of -1, 0 and +1."),
        option("--hide-all-but", type=click.IntRange(2), group="labels", metavar="N",
               help="Hide all labels but N, drawn at random, and print the error on the hidden "
                    "ones."),
        option("--hold-out", type=Share(), group="labels", metavar="SHARE",
               help="Hide this share of the labels of each class (0.2: a fifth), and print the "
                    "error on them."),
        renamed("label-rows", "--hide-all-but now"),
        renamed("label-seed", "--seed now"),
    ]  # fmt: skip
    return add_options(command, options)


def kernel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kernel and the parameters of kernels."""
    names = ["linear", "rbf", "poly", "laplacian", "cosine", "chi2", "sigmoid"]
    of = {name: ("kernel", kernels) for name, kernels in ONLY_FOR.items()}
    options = [
        option("--kernel", type=click.Choice(names), group="kernel", shown="linear",
               help="Kernel of the model."),
        option("--n-components", type=CountOrAll(), group="kernel", shown="500",
               help="Number of landmark rows that the kernel is computed with, or `all`."),
        option("--sigma", type=float, group="kernel", topic=of["sigma"],
               shown="from the ranges of the columns", help="Width of the rbf kernel."),
        option("--gamma", type=float, group="kernel", topic=of["gamma"],
               shown="1 / number of columns; chi2: 1",
               help="Parameter gamma of the kernel; of rbf, in place of --sigma."),
        option("--degree", type=float, group="kernel", topic=of["degree"], shown="3",
               help="Degree of the poly kernel."),
        option("--coef0", type=float, group="kernel", topic=of["coef0"], shown="1",
               help="Constant of the poly and sigmoid kernels."),
    ]  # fmt: skip
    return add_options(command, options)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json."""
    words = "Print the result as one JSON object."
    return option("--json", "as_json", is_flag=True, group="run", help=words)(command)


def quiet_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --quiet."""
    return option("--quiet", is_flag=True, group="run", help="Show no progress.")(command)
