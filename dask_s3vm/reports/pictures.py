"""The pictures of a run: drawn from its facts and its history, and written as PNG and SVG."""

import importlib.util
import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dask_s3vm.io.store import Url, join_url, make_folder, replacing
from dask_s3vm.parameters.methods import METHODS
from dask_s3vm.plotting import plot_annealing, plot_objective, plot_output_counts, plot_switches


def draw_run(
    facts: Mapping[str, Any],
    history: list[dict[str, Any]],
    more: Mapping[str, Callable[..., Any]] | None = None,
) -> dict[str, Any]:
    """Draw the pictures that the facts and the history of a run allow.

    Parameters
    ----------
    facts, history : dict, list of dict
        See `page.make_page`.
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
