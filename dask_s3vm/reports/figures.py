"""Pictures of a run, from its history and facts."""

import importlib.util
import io
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dask_s3vm.io.archive import write_atomically
from dask_s3vm.plotting import plot_annealing, plot_objective, plot_output_counts, plot_switches

#: Name of a picture -> what it shows.
TITLES = {
    "objective": "Objective over time",
    "annealing": "Annealing path",
    "switches": "Switches per level",
    "outputs": "Outputs of the rows",
    "boundary": "Decision boundary",
}

#: Pictures that the history gives, and columns of which one must be there.
_CURVES: tuple[tuple[str, Callable[..., Any], tuple[str, ...]], ...] = (
    ("objective", plot_objective, ("objective", "fitness")),
    ("annealing", plot_annealing, ("temperature", "level", "stage")),
    ("switches", plot_switches, ("switches",)),
)


def draw_run(
    facts: Mapping[str, Any],
    history: list[dict[str, Any]],
    more: Mapping[str, Callable[..., Any]] | None = None,
) -> dict[str, Any]:
    """Draw what can be drawn of a run; name -> matplotlib Figure.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("matplotlib is not installed (pip install 'dask-s3vm[plot]')")
    figures = {}
    for name, draw, wanted in _CURVES:
        rows = [row for row in history if any(row.get(column) is not None for column in wanted)]
        if rows and (name != "annealing" or _has_path(rows)):
            figures[name] = _figure(partial(draw, rows))
    outputs = facts.get("outputs")
    if outputs and len(outputs["edges"]) > 1:
        counts = outputs["labeled"], outputs["unlabeled"]
        figures["outputs"] = _figure(
            partial(plot_output_counts, outputs["edges"], *counts, beyond=outputs["beyond"])
        )
    for name, draw in (more or {}).items():
        figures[name] = _figure(draw)
    return figures


def _has_path(rows: list[dict[str, Any]]) -> bool:
    return any(row.get(name, 0) > 0 for row in rows for name in ("temperature", "level")) or any(
        row.get("lam_unlabeled", 0) > 0 for row in rows
    )


def _figure(draw: Callable[..., Any]) -> Any:
    """Draw on a figure of its own, outside of what pyplot keeps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    draw(ax=figure.add_subplot())
    return figure


def to_svg(figure: Any) -> bytes:
    """Write a figure as SVG, the same bytes for the same figure."""
    import matplotlib as mpl

    stream = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "dask-s3vm"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def save_figures(figures: Mapping[str, Any], folder: Path) -> None:
    """Write figures as PNG and SVG."""
    folder.mkdir(exist_ok=True)
    for name, figure in figures.items():
        with write_atomically(folder / f"{name}.svg") as stream:
            stream.write(to_svg(figure))
        with write_atomically(folder / f"{name}.png") as stream:
            figure.savefig(stream, format="png", dpi=150)
