"""Curves from the history of a fit."""

from typing import Any

import numpy as np

from dask_s3vm.parameters.methods import METHODS, MethodFacts
from dask_s3vm.plotting.style import (
    COLORS,
    GRAY,
    ORANGE,
    axes,
    by_problem,
    column,
    finish,
    name_of,
    rows_of,
    scale_to,
    tidy,
)


def facts_of(source: Any, method: str | None) -> MethodFacts:
    """Facts of the method that made a history: the estimator's own, or those of a name."""
    if method is None:
        facts = getattr(source, "facts", None)
        if isinstance(facts, MethodFacts):
            return facts
        raise TypeError(
            "a history alone does not say which method made it: give the fitted estimator, or "
            f"method=, one of {', '.join(sorted(METHODS))}"
        )
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(sorted(METHODS))}; got {method!r}")
    return METHODS[method].facts


def _name(facts: MethodFacts) -> str:
    return facts.name or facts.estimator.split(":")[-1]


def plot_objective(source: Any, ax: Any = None, *, method: str | None = None) -> Any:
    """Draw the objective over the time of the fit.

    Methods that raise the weight of the unlabeled rows raise the objective with it: a fall at one
    weight is the work of the solver, a rise the step to the next one. Of independent restarts
    each is a point, in their order, and the best one so far a line.

    Parameters
    ----------
    source : fitted estimator, or its `history_`
    ax : matplotlib Axes or None
    method : name of the method that made a `history_`, as the command line has it

    Returns
    -------
    Axes
    """
    rows = rows_of(source)
    if facts_of(source, method).restarts:
        return _plot_restarts(rows, ax)
    groups = by_problem(rows, "objective")
    if not groups:
        raise ValueError("the history has no column 'objective': there is nothing to draw")
    ax = tidy(axes(ax))
    timed = all("seconds" in row for group in groups.values() for row in group)
    began = 0.0
    for number, (problem, group) in enumerate(groups.items()):
        values = column(group, "objective")
        if timed:
            at = began + np.cumsum(column(group, "seconds"))
            began = float(at[-1])
        else:
            at = np.arange(1.0, len(group) + 1.0)
        ax.plot(
            at,
            values,
            color=COLORS[number % len(COLORS)],
            marker="." if len(group) <= 60 else None,
            label=name_of(problem, groups),
        )
    scale_to(ax, np.concatenate([column(group, "objective") for group in groups.values()]))
    ax.set_xlim(left=0)
    ax.set_xlabel("time [s]" if timed else "step")
    ax.set_ylabel("objective")
    return finish(ax)


def _plot_restarts(rows: list[Any], ax: Any) -> Any:
    groups = by_problem(rows, "objective")
    ax = tidy(axes(ax))
    for number, (problem, group) in enumerate(groups.items()):
        group = sorted(group, key=lambda row: row["restart"])
        at, values = column(group, "restart"), column(group, "objective")
        color, name = COLORS[number % len(COLORS)], name_of(problem, groups)
        ax.plot(at, values, ".", color=color, alpha=0.6, label=name or "a restart")
        best = np.minimum.accumulate(values)
        label = "best so far" if name is None else None
        ax.step(at, best, where="post", color=color, label=label)
    ax.set_xlabel("restart")
    ax.set_ylabel("objective")
    return finish(ax)


def plot_annealing(source: Any, ax: Any = None, *, method: str | None = None) -> Any:
    """Draw the annealing path: the objective, and the entropy of the labels where it is known.

    From left to right as the fit went: the temperature falls (DA), or the weight of the unlabeled
    rows rises (QN-S3VM by stages, TSVM by levels). Each point is where the method came to rest.

    Parameters
    ----------
    source : fitted estimator, or its `history_`
    ax : matplotlib Axes or None
    method : name of the method that made a `history_`, as the command line has it
        A second scale on the right is added for the entropy.

    Returns
    -------
    Axes
    """
    rows, facts = rows_of(source), facts_of(source, method)
    axis = facts.axis
    if axis is None:
        raise ValueError(f"{_name(facts)} does not anneal: there is no path to draw")
    name = axis.column
    groups = by_problem([row for row in rows if row.get(name, 0) > 0], name)
    if not groups:
        raise ValueError(f"no row of the history has a {name} above 0: there is no path to draw")
    ax = tidy(axes(ax))
    ax.set_xscale("log")
    has_entropy = "entropy" in facts.columns
    right = ax.twinx() if has_entropy else None
    for number, (problem, group) in enumerate(groups.items()):
        rests = list({row[name]: row for row in group}.values())  # the last row of each
        at, color = column(rests, name), COLORS[number % len(COLORS)]
        label = name_of(problem, groups) or ("objective" if has_entropy else None)
        ax.plot(at, column(rests, "objective"), color=color, marker="o", ms=4, label=label)
        if right is not None:
            style = {"color": ORANGE if len(groups) == 1 else color, "ls": "--", "marker": "s"}
            right.plot(at, column(rests, "entropy"), ms=3, lw=1, **style)
    ax.set_xlabel(axis.label)
    ax.set_ylabel("objective")
    if axis.falls:
        ax.invert_xaxis()
    if right is not None:
        right.set_ylabel("mean entropy of the labels (dashed)")
        right.set_ylim(bottom=0)
        right.spines["top"].set_visible(False)
        if len(groups) == 1:
            ax.plot([], [], color=ORANGE, ls="--", marker="s", ms=3, label="entropy (right)")
    return finish(ax)


def plot_switches(source: Any, ax: Any = None, *, method: str | None = None) -> Any:
    """Draw how many pairs of labels switched at each level.

    For DA, whose labels switch in the descent at the end only, at each of its steps. Labels that
    TSVM releases at the very end are not of pairs, and not drawn.

    Parameters
    ----------
    source : fitted estimator, or its `history_`
    ax : matplotlib Axes or None
    method : name of the method that made a `history_`, as the command line has it

    Returns
    -------
    Axes
    """
    rows, facts = rows_of(source), facts_of(source, method)
    if "switches" not in facts.columns:
        raise ValueError(f"{_name(facts)} switches no labels: nothing to draw")
    rows = [row for row in rows if row.get("event") not in ("anneal", "release")]
    groups = by_problem(rows, "switches")
    by_level = "level" in facts.columns
    ax = tidy(axes(ax))
    ax.grid(False, axis="x")
    levels = sorted({row["level"] for row in rows if row["level"] > 0}) if by_level else []
    width = 0.8 / max(1, len(groups))
    for number, (problem, group) in enumerate(groups.items()):
        if by_level:
            counts = np.zeros(len(levels))
            for row in group:
                if row["level"] > 0:
                    counts[levels.index(row["level"])] += row["switches"]
        else:
            counts = column([row for row in group if row.get("event") != "retrain"], "switches")
        at = np.arange(len(counts)) + width * (number - (len(groups) - 1) / 2)
        color = COLORS[number % len(COLORS)]
        ax.bar(at, counts, width, color=color, label=name_of(problem, groups))
    _label_levels(ax, levels)
    ax.set_xlabel("weight of unlabeled rows (level)" if by_level else "step")
    ax.set_ylabel("pairs of labels switched")
    ax.yaxis.get_major_locator().set_params(integer=True)
    if not any(patch.get_height() for patch in ax.patches):
        ax.set_ylim(0, 1)
        ax.text(0.5, 0.5, "nothing switched", transform=ax.transAxes, ha="center", color=GRAY)
    return finish(ax)


def _label_levels(ax: Any, levels: list[float]) -> None:
    """Write a few of the levels below the bars."""
    if not levels:
        ax.xaxis.get_major_locator().set_params(integer=True)
        return
    step = max(1, -(-len(levels) // 8))
    shown = list(range(len(levels) - 1, -1, -step))[::-1]  # the last one always
    ax.set_xticks(shown, [f"{levels[place]:.2g}" for place in shown])
