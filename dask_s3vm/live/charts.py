"""What the page draws of a history: columns that belong together, from the facts of a method."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dask_s3vm.parameters.facts import COLUMNS, MethodFacts


@dataclass(frozen=True)
class Chart:
    """Columns of a history that are drawn over the time of a fit, on one axis.

    about : a sentence for those who see it for the first time.
    logarithmic : whether the axis is, where all values allow it.
    summed : whether a row has an amount, to be added to those before it.
    """

    title: str
    about: str
    columns: tuple[str, ...]
    logarithmic: bool = False
    summed: bool = False


#: What is drawn, in this order, as far as a method has the columns.
CHARTS = (
    Chart(
        "Objective",
        "It falls while the solver works; a rise is a step to a harder problem, such as a larger "
        "weight of the unlabeled rows.",
        ("objective", "svm_objective"),
    ),
    Chart(
        "Distance from the optimum",
        "Goes down to the tolerance, as a rule in jumps.",
        ("gap", "gradient_norm"),
        logarithmic=True,
    ),
    Chart(
        "Labels changed",
        "Added up from the start; a flat end means that the labels have settled.",
        ("switches", "changes"),
        summed=True,
    ),
    Chart(
        "Rows",
        "How many rows still count, or wait for a label.",
        ("n_active", "n_waiting", "n_positive", "n_negative"),
    ),
    Chart("Uncertainty of the labels", "Falls to 0 as labels are decided.", ("entropy",)),
    Chart(
        "Work",
        "Steps of the solvers, added up from the start.",
        ("newton_steps", "cg_steps", "evaluations", "flips", "steps", "picks"),
        summed=True,
    ),
)

#: The chart of how far a method is: its axis, or the first of these columns that it has.
STAGES = ("level", "temperature", "lam_unlabeled", "stage", "restart", "iteration")

#: Columns that place a row, or belong to one row alone.
NOT_DRAWN = ("class", "split", "lam", "event", "seconds", "evaluation", "line_rounds")


def charts_of(facts: MethodFacts) -> list[Chart]:
    """Charts that a method has the columns for; columns that no chart names get one each."""
    found = []
    for chart in CHARTS:
        columns = tuple(name for name in chart.columns if name in facts.columns)
        if columns:
            found.append(Chart(chart.title, chart.about, columns, chart.logarithmic, chart.summed))
    stage = _stage(facts)
    if stage is not None:
        found.insert(1, stage)
    drawn = {name for chart in (*CHARTS, *found) for name in chart.columns}
    left = [name for name in facts.columns if name not in {*drawn, *NOT_DRAWN, *STAGES}]
    return found + [Chart(_words(name), "", (name,)) for name in left]


def _stage(facts: MethodFacts) -> Chart | None:
    if facts.axis is not None:
        about = f"From {'hot to cold' if facts.axis.falls else 'easy to hard'}, step by step."
        return Chart(_capital(facts.axis.label), about, (facts.axis.column,), logarithmic=True)
    for name in STAGES:
        if name in facts.columns:
            return Chart(_words(name), "", (name,))
    return None


def sums_of(charts: Iterable[Chart]) -> tuple[str, ...]:
    """Columns that are added up."""
    return tuple(name for chart in charts if chart.summed for name in chart.columns)


def as_message(chart: Chart) -> dict[str, Any]:
    """A chart as the page reads it."""
    return {
        "title": chart.title,
        "about": chart.about,
        "log": chart.logarithmic,
        "columns": [[name, COLUMNS.get(name, name)] for name in chart.columns],
    }


def _words(name: str) -> str:
    return _capital(COLUMNS.get(name, name.replace("_", " ")))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
