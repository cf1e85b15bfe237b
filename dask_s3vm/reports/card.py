"""The model card: what a model is, what it was made of, and how far to trust it, in Markdown."""

from collections.abc import Mapping
from typing import Any

from dask_s3vm.reports.answers import answers
from dask_s3vm.reports.page import as_text, flat_facts

#: Characters that Markdown or HTML would take for more than text.
_SPECIAL = "\\`*_{}[]<>()#+-!|&~"


def make_card(facts: Mapping[str, Any]) -> str:
    """Make the model card of a run.

    facts : content of `run.json`.
    """
    names = ("data", "model", "result", "environment")
    data, model, result, environment = (_dict(facts.get(name)) for name in names)
    fitted, classes = _dict(model.get("fitted")), model.get("classes")
    lines = [
        f"# {_plain(facts.get('estimator', 'Model'))}",
        "",
        f"{_plain(model.get('about') or 'A model')}. Trained by dask-s3vm "
        f"{_plain(environment.get('dask-s3vm', ''))}, {_plain(facts.get('started', ''))}.",
    ]
    told = [f"- {_plain(one.text)}" for one in answers(facts)]
    lines += _section("Did it work?", told)
    of_data = {**data, "classes": classes}
    lines += _section("Data and labels", _pairs(of_data))
    ratio = {name: fitted[name] for name in fitted if name.startswith("positive_ratio")}
    lines += _section("Share of the classes", [*_pairs(ratio), *_shares(facts.get("shares"))])
    safety = {name: fitted[name] for name in fitted if name.startswith("decision")}
    lines += _section("Safety decision", _pairs(safety))
    shown = ("hidden_rows", "hidden_error_%", "best_accuracy", "objective", "termination")
    metrics = {name: result[name] for name in shown if name in result}
    alone = _dict(facts.get("supervised")).get("hidden_error_%")
    if alone is not None:
        metrics["hidden_error_% of the supervised SVM"] = alone
    lines += _section("Metrics", _pairs(metrics))
    lines += _section("Parameters", _pairs(_dict(facts.get("parameters"))))
    limits = [
        "- Errors and shares hold for rows from the same source as those of training.",
        "- Labels of the unlabeled rows are the model's own, and no measure of it.",
    ]
    lines += _section("Limits", limits)
    environment.pop("machine", None)  # cards are shown to others
    lines += _section("Environment", _pairs(environment))
    return "\n".join(lines) + "\n"


def _section(title: str, body: list[str]) -> list[str]:
    return ["", f"## {title}", "", *body] if body else []


def _pairs(facts: Mapping[str, Any]) -> list[str]:
    return [
        f"- {_plain(str(name).replace('_', ' '))}: {_plain(as_text(value))}"
        for name, value in flat_facts(facts)
        if value is not None
    ]


def _shares(rows: Any) -> list[str]:
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [
        f"- class {_plain(row.get('class'))}: expected {_plain(as_text(row.get('expected')))}, "
        f"predicted {_plain(as_text(row.get('predicted')))}"
        for row in found
    ]


def _plain(value: Any) -> str:
    """Text that is shown as it is: it comes from outside."""
    words = " ".join(str(value).split())
    return "".join(f"\\{one}" if one in _SPECIAL else one for one in words)


def _dict(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}
