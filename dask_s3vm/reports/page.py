"""The page about a run: plain HTML without scripts, which loads no other file.

Its texts - file names, labels, errors - come from outside; jinja2 escapes them where the template
inserts them.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dask_s3vm.reports.answers import answers

#: Rows of the history on the page, at most; history.csv has all of them.
MOST_ROWS = 400

#: Name of a picture -> its title, and a sentence about it.
PICTURES = {
    "search": (
        "Accuracy of the candidates",
        "Mean accuracy over the folds, with its standard deviation; candidates whose bars overlap "
        "cannot be told apart by these labels.",
    ),
    "objective": (
        "Objective over time",
        "The objective falls while the solver works; a rise is a step to a larger weight of the "
        "unlabeled rows.",
    ),
    "annealing": (
        "Annealing path",
        "Where the method came to rest at each temperature or weight, from left to right.",
    ),
    "switches": (
        "Switches per level",
        "Pairs of labels that changed places; none at the end means that the labels have settled.",
    ),
    "outputs": (
        "Outputs of the rows",
        "A model that separates the classes has few rows inside the margin, between -1 and 1.",
    ),
    "boundary": (
        "Decision boundary",
        "The rows in the plane of their two columns, and the line at which the class changes.",
    ),
}


class Picture(NamedTuple):
    """A picture on the page: its title, a sentence, its media type and its bytes in base64."""

    title: str
    about: str
    kind: str
    code: str


class Table(NamedTuple):
    """A table on the page."""

    title: str
    about: str
    names: list[str]
    rows: list[dict[str, Any]]


def make_page(
    facts: Mapping[str, Any],
    history: list[dict[str, Any]],
    config: str,
    pictures: Mapping[str, tuple[str, bytes]],
) -> str:
    """Make the page of a run.

    Parameters
    ----------
    facts : dict
        Content of `run.json`.
    history : list of dict
        Rows of `history.json`.
    config : str
        Text of `config.toml`.
    pictures : dict
        Name -> (media type, bytes).

    Returns
    -------
    str
        The HTML text.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    names = ("data", "result", "model", "environment", "cluster", "parameters")
    data, result, model, environment, cluster, parameters = (_dict(facts.get(n)) for n in names)
    sections = {
        "Parameters": parameters,
        "Data": data,
        "Model": result | _dict(model.get("fitted")),
        "Environment": environment | cluster,
    }
    ending, notes = facts.get("exit"), facts.get("notes")
    half = MOST_ROWS // 2
    shown = history if len(history) <= MOST_ROWS else [*history[:half], *history[-half:]]
    loader = PackageLoader("dask_s3vm.reports")
    page = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    page.filters |= {"text": as_text, "words": _words}
    return page.get_template("page.html").render(
        title=facts.get("estimator", "Run"),
        started=facts.get("started"),
        files=data.get("files"),
        good=isinstance(ending, dict) and ending.get("code") == 0,
        state=_state(ending),
        cards=_cards(facts, data, result),
        answers=answers(facts),
        pictures=_pictures(pictures),
        tables=[one for one in _tables(facts, model) if one.rows],
        history=shown,
        columns=_columns(shown),
        omitted=len(history) - len(shown),
        sections=[(name, list(flat_facts(found))) for name, found in sections.items() if found],
        notes=notes if isinstance(notes, list) else [],
        config=config,
    )


def _state(ending: Any) -> str:
    if not isinstance(ending, dict):
        return "still running, or killed"
    if ending.get("code") == 0:
        return "done"
    return f"exit code {ending.get('code')}: {ending.get('reason')}"


def _cards(
    facts: Mapping[str, Any], data: Mapping[str, Any], result: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """The few facts that are at the top."""
    shown = [(name, data[name]) for name in ("rows", "features", "unlabeled_rows") if name in data]
    names = ("best_accuracy", "hidden_error_%", "objective", "termination", "train_s")
    shown += [(name, result[name]) for name in names if name in result]
    if "seconds" in facts:
        shown.append(("seconds in total", facts["seconds"]))
    return shown


def _pictures(pictures: Mapping[str, tuple[str, bytes]]) -> list[Picture]:
    known = list(PICTURES)
    order = sorted(pictures, key=lambda name: ([*known, name].index(name), name))
    return [
        Picture(
            *PICTURES.get(name, (name, "")),
            pictures[name][0],
            base64.b64encode(pictures[name][1]).decode(),
        )
        for name in order
    ]


def _tables(facts: Mapping[str, Any], model: Mapping[str, Any]) -> Iterable[Table]:
    for title, about, rows in (
        (
            "Candidates",
            "Mean and standard deviation of the accuracy over the folds, the best one first.",
            facts.get("candidates"),
        ),
        (
            "Shares of the classes",
            "Among the unlabeled rows: what the method was to expect, and what the model predicts.",
            facts.get("shares"),
        ),
        (
            "Strongest weights",
            "A positive weight speaks for the class named, a negative one against it.",
            model.get("weights"),
        ),
    ):
        rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        yield Table(title, about, _columns(rows), rows)


def _columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def flat_facts(facts: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield (name, value) of a dict; those of a nested dict as "outer: inner"."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from ((f"{name}: {inner}", item) for inner, item in value.items())
        else:
            yield name, value


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(name: Any) -> str:
    return str(name).replace("_", " ").strip()


def as_text(value: Any) -> str:
    """Format a value for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(as_text(item) for item in value)
    return str(value)
