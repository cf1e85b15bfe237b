"""The page about a run, and its pictures.

The page is plain HTML without scripts, and loads no other file. Its texts - file names, labels,
errors - come from outside and are escaped where they are inserted.
"""

import base64
import importlib.util
import io
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from html import escape
from typing import Any

from dask_s3vm.io.store import Url, join_url, make_folder, replacing
from dask_s3vm.parameters.methods import METHODS
from dask_s3vm.plotting import plot_annealing, plot_objective, plot_output_counts, plot_switches

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, sans-serif; color: #222; background: #fff;
       max-width: 1060px; margin: 2em auto; padding: 0 1.2em; }
h1 { font-size: 1.6em; margin: 0 0 .2em; }
h2 { font-size: 1.15em; margin: 2em 0 .6em; border-bottom: 1px solid #ddd; padding-bottom: .2em; }
.sub { color: #666; margin: 0 0 1.2em; }
.state { display: inline-block; padding: .1em .7em; border-radius: 1em; font-weight: 600;
         background: #e3f3ec; color: #00573f; }
.state.bad { background: #fbe6dc; color: #8a3a00; }
.cards { display: flex; flex-wrap: wrap; gap: .8em; margin: 1.2em 0; }
.card { border: 1px solid #ddd; border-radius: 8px; padding: .6em 1em; min-width: 8em; }
.card b { display: block; font-size: 1.25em; font-variant-numeric: tabular-nums; }
.card span { color: #666; font-size: .85em; }
.pictures { display: grid; gap: 1.2em;
            grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); }
figure { margin: 0; border: 1px solid #eee; border-radius: 8px; padding: .6em; }
figure img { width: 100%; height: auto; }
figcaption { font-weight: 600; margin-bottom: .3em; }
table { border-collapse: collapse; font-size: .9em; font-variant-numeric: tabular-nums; }
td, th { padding: .22em .8em .22em 0; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
table.lined td, table.lined th { border-bottom: 1px solid #eee; }
table.rows td, table.rows th { text-align: right; padding: .2em .7em; white-space: nowrap; }
.scroll { overflow: auto; max-height: 420px; border: 1px solid #eee; border-radius: 8px; }
.scroll th { position: sticky; top: 0; background: #fafafa; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 0 2em; }
pre { background: #f7f7f7; border-radius: 8px; padding: .8em 1em; overflow: auto;
      font-size: .85em; }
ul { padding-left: 1.2em; }
@media print { .scroll { max-height: none; } figure { break-inside: avoid; } }
"""

#: Rows of the history on the page, at most; history.csv has all of them.
MOST_ROWS = 400

#: Name of a picture -> its title.
TITLES = {
    "objective": "Objective over time",
    "annealing": "Annealing path",
    "switches": "Switches per level",
    "outputs": "Outputs of the rows",
    "boundary": "Decision boundary",
}


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
    title = f"{facts.get('estimator', 'Run')} of {facts.get('started', 'an unknown time')}"
    body = [
        f"<h1>{escape(str(facts.get('estimator', 'Run')))}</h1>",
        _subtitle(facts),
        _cards(facts),
        _section("Curves", _figures(pictures, facts)),
        _section("History", _history(history)),
        '<div class="columns">',
        _section("Parameters", _pairs(facts.get("parameters"))),
        _section("Data", _pairs(facts.get("data"))),
        _section("Model", _pairs(_merged(facts.get("result"), facts.get("fitted")))),
        _section("Environment", _pairs(_merged(facts.get("environment"), facts.get("cluster")))),
        "</div>",
        _section("Notes", _notes(facts.get("notes"))),
        _section("Configuration", f"<pre>{escape(config)}</pre>" if config else ""),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        # the browser loads nothing from outside, whatever the texts contain
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    )
    text = "\n".join(part for part in body if part)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{text}\n</body></html>\n'


def _subtitle(facts: Mapping[str, Any]) -> str:
    ending = facts.get("exit")
    if not isinstance(ending, dict):
        state, reason = "bad", "still running, or killed"
    else:
        good = ending.get("code") == 0
        state = "" if good else "bad"
        reason = "done" if good else f"exit code {ending.get('code')}: {ending.get('reason')}"
    data = facts.get("data")
    files = data.get("files") if isinstance(data, dict) else None
    about = f"started {_text(facts.get('started'))}"
    if files:
        about += f", data {_text(files)}"
    return (
        f'<p class="sub">{escape(about)}</p>'
        f'<p><span class="state {state}">{escape(str(reason))}</span></p>'
    )


def _cards(facts: Mapping[str, Any]) -> str:
    shown: list[tuple[str, Any]] = []
    result, data = (_dict(facts.get(name)) for name in ("result", "data"))
    for name, source in (("rows", data), ("features", data), ("unlabeled_rows", data)):
        if name in source:
            shown.append((name, source[name]))
    for name in ("objective", "termination", "train_s"):
        if name in result:
            shown.append((name, result[name]))
    if "seconds" in facts:
        shown.append(("seconds in total", facts["seconds"]))
    cards = (
        f'<div class="card"><b>{escape(_text(value))}</b><span>{escape(_words(name))}</span></div>'
        for name, value in shown
    )
    return f'<div class="cards">{"".join(cards)}</div>' if shown else ""


def _figures(pictures: Mapping[str, tuple[str, bytes]], facts: Mapping[str, Any]) -> str:
    if not pictures:
        return "<p>No pictures; see the notes.</p>" if facts.get("notes") else ""
    ordered = sorted(pictures, key=lambda name: ([*TITLES, name].index(name), name))
    parts = []
    for name in ordered:
        kind, content = pictures[name]
        title = escape(TITLES.get(name, name))
        code = base64.b64encode(content).decode()
        parts.append(
            f"<figure><figcaption>{title}</figcaption>"
            f'<img alt="{title}" src="data:{kind};base64,{code}"></figure>'
        )
    return f'<div class="pictures">{"".join(parts)}</div>'


def _history(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "<p>The history is empty.</p>"
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{escape(str(name))}</th>" for name in names)
    omitted = ""
    shown = rows
    if len(rows) > MOST_ROWS:
        half = MOST_ROWS // 2
        shown = [*rows[:half], *rows[-half:]]
        omitted = f"<p>{len(rows) - MOST_ROWS:,} rows in the middle are in history.csv only.</p>"
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_text(row.get(n, '')))}</td>" for n in names) + "</tr>"
        for row in shown
    )
    return (
        f'{omitted}<div class="scroll"><table class="rows lined"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _pairs(facts: Any) -> str:
    rows = "".join(
        f"<tr><th>{escape(_words(name))}</th><td>{escape(_text(value))}</td></tr>"
        for name, value in _flat(_dict(facts))
    )
    return f'<table class="lined">{rows}</table>' if rows else ""


def _notes(notes: Any) -> str:
    if not isinstance(notes, list) or not notes:
        return ""
    return f"<ul>{''.join(f'<li>{escape(str(note))}</li>' for note in notes)}</ul>"


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>" if content else ""


def _flat(facts: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield (name, value) of a dict; those of a nested dict as "outer: inner"."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from ((f"{name}: {inner}", item) for inner, item in value.items())
        else:
            yield name, value


def _merged(*parts: Any) -> dict[str, Any]:
    return {name: value for part in parts for name, value in _dict(part).items()}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(name: Any) -> str:
    return str(name).replace("_", " ").strip()


def _text(value: Any) -> str:
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
        return ", ".join(_text(item) for item in value)
    return str(value)


def draw_run(
    facts: Mapping[str, Any],
    history: list[dict[str, Any]],
    more: Mapping[str, Callable[..., Any]] | None = None,
) -> dict[str, Any]:
    """Draw the pictures that the facts and the history of a run allow.

    Parameters
    ----------
    facts, history : dict, list of dict
        See `make_page`.
    more : dict or None
        Further pictures: name -> function that draws on an Axes.

    Returns
    -------
    dict
        Name -> matplotlib Figure.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("matplotlib is not installed (pip install 'dask-s3vm[plot]')")
    figures = {}
    for name, draw, rows in _curves(facts.get("method"), history):
        if rows:
            figures[name] = _figure(partial(draw, rows, method=facts["method"]))
    outputs = facts.get("outputs")
    if outputs and len(outputs["edges"]) > 1:
        counts = outputs["labeled"], outputs["unlabeled"]
        figures["outputs"] = _figure(
            partial(plot_output_counts, outputs["edges"], *counts, beyond=outputs["beyond"])
        )
    for name, draw in (more or {}).items():
        figures[name] = _figure(draw)
    return figures


def _curves(
    method: Any, history: list[dict[str, Any]]
) -> list[tuple[str, Callable[..., Any], list[dict[str, Any]]]]:
    """Pictures of a history that its method has, with the rows that they are drawn from."""
    if method not in METHODS:  # of a process that knew other methods
        return []
    facts = METHODS[method].facts

    def rows_with(column: str) -> list[dict[str, Any]]:
        return [row for row in history if row.get(column) is not None]

    found: list[tuple[str, Callable[..., Any], list[dict[str, Any]]]] = [
        ("objective", plot_objective, rows_with("objective"))
    ]
    if facts.axis is not None:
        path = rows_with(facts.axis.column)
        moving = any(row[facts.axis.column] > 0 for row in path)
        found.append(("annealing", plot_annealing, path if moving else []))
    if "switches" in facts.columns:
        found.append(("switches", plot_switches, rows_with("switches")))
    return found


def _figure(draw: Callable[..., Any]) -> Any:
    """Draw on a new figure that pyplot does not manage."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    draw(ax=figure.add_subplot())
    return figure


def to_svg(figure: Any) -> bytes:
    """Write a figure as SVG; equal figures give equal bytes."""
    import matplotlib as mpl

    stream = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "dask-s3vm"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def save_figures(figures: Mapping[str, Any], folder: Url) -> None:
    """Write figures to a folder, as PNG and SVG."""
    make_folder(folder)
    for name, figure in figures.items():
        with replacing(join_url(folder, f"{name}.svg")) as stream:
            stream.write(to_svg(figure))
        with replacing(join_url(folder, f"{name}.png")) as stream:
            figure.savefig(stream, format="png", dpi=150)
