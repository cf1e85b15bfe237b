"""Small tables for people, and the same as JSON for scripts."""

import json
from collections.abc import Sequence
from typing import Any

import click

Row = dict[str, Any]


def show(rows: Sequence[Row], as_json: bool = False) -> None:
    """Print rows as an aligned table, or as JSON: one object per line."""
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, default=_plain))
        return
    names = list(rows[0])
    cells = [[_cell(row[name]) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for line in [names, ["-" * width for width in widths], *cells]:
        click.echo("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def work_of(estimator: Any) -> dict[str, Any]:
    """What a fit took, in the units of its method."""
    rows = estimator.history_
    if hasattr(estimator, "loo_errors_"):
        return {"loo_error": float(estimator.loo_errors_.min())}
    if "flips" in rows[0]:
        return {"restarts": len(rows), "flips": sum(row["flips"] for row in rows)}
    if "n_waiting" in rows[0]:
        return {"stages": estimator.n_iter_, "rounds": estimator.n_rounds_}
    if not any("cg_steps" in row for row in rows):
        return {"evaluations": len(rows)}
    # where labels are found first, `n_iter_` counts other steps than those of the SVM on them
    trained = [row["newton_steps"] for row in rows if row.get("event") == "train"]
    work = {
        "newton_steps": max(trained, default=estimator.n_iter_),
        "cg_steps": sum(row.get("cg_steps", 0) for row in rows),
    }
    if "evaluations" in rows[0]:
        work["evaluations"] = sum(row["evaluations"] for row in rows)
    return work
