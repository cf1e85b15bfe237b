"""What commands print: small tables, as text or JSON, and the progress of long commands."""

import glob
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import numpy as np

from dask_s3vm.io.store import address, check_writable, is_local, join_url

Row = dict[str, Any]

#: Seconds between two updates of a progress line: on a terminal, and in a log.
_TERMINAL_S, _LOG_S = 0.1, 10.0


def check_output(
    flag: str, url: str, is_folder: bool = False, inputs: Iterable[str | None] = ()
) -> None:
    """Refuse an output that could not be written as wrong usage, before anything is computed.

    A folder is made later, with those above it: what is there already is looked at. An output in
    the place of an input (a file, or a pattern of names) would be the end of that.
    """
    for given in inputs:
        if given and is_local(url) and is_local(given) and _is_among(url, given):
            raise click.UsageError(f"{flag} {url} is one of the files to be read; name another")
    path = join_url(url, "file") if is_folder else url
    if is_folder and is_local(url):
        path = os.path.abspath(address(path))
        while not os.path.lexists(os.path.dirname(path)):
            path = os.path.dirname(path)
    try:
        check_writable(path)
    except ValueError as error:
        raise click.UsageError(f"{flag} {error}") from None


def _is_among(url: str, given: str) -> bool:
    place = os.path.realpath(address(url))
    named = [address(given), *glob.iglob(address(given), recursive=True)]
    return any(os.path.realpath(one) == place for one in named)


def show(result: Row | Sequence[Row], as_json: bool = False) -> None:
    """Print a result: as one JSON object, or as text.

    A dict is printed as pairs, and rows as a table, which is `results` in JSON.
    """
    if as_json:
        show_json(result if isinstance(result, dict) else {"results": list(result)})
        return
    if isinstance(result, dict):
        show_pairs(result)
        return
    names = list(result[0])
    cells = [[_cell(row[name]) for name in names] for row in result]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for line in [names, ["-" * width for width in widths], *cells]:
        click.echo("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def show_tables(tables: Mapping[str, Sequence[Row]], as_json: bool = False) -> None:
    """Print several tables, one below the other; in JSON one object has all of them by name."""
    if as_json:
        show_json({name: list(rows) for name, rows in tables.items()})
        return
    for name, rows in tables.items():
        click.echo(f"{name}:")
        show(rows)
        click.echo()


def show_json(result: Row) -> None:
    """Print one JSON object; NaN and infinite numbers are null."""
    from dask_s3vm.reports.record import plain

    click.echo(json.dumps(plain(result), allow_nan=False))


def show_pairs(facts: Row) -> None:
    """Print names and values, one pair per line."""
    width = max(map(len, facts))
    for name, value in facts.items():
        click.echo(f"{name.replace('_', ' ').ljust(width)}  {_cell(value)}")


def _cell(value: Any) -> str:
    if isinstance(value, bool | np.bool_) or value is None:
        return "-" if value is None else "yes" if value else "no"
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(_cell(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


#: Columns of a history that add up to the work of a fit.
_SUMMED = ("newton_steps", "cg_steps", "evaluations", "flips", "picks")


def work_of(estimator: Any) -> dict[str, Any]:
    """Return the work of a fit: outer iterations, rounds, and what its method counts."""
    work = {"iterations": estimator.n_iter_, "rounds": estimator.n_rounds_}
    for column in _SUMMED:  # S3VM has those of the model that was kept
        counts = [row[column] for row in estimator.history_ if column in row]
        if counts and column in estimator.facts.columns:
            work[column] = sum(counts)
    if "loo_error" in estimator.facts.columns:
        work["loo_error"] = min(row["loo_error"] for row in estimator.history_)
    return work


#: Fitted attributes that say what a fit made of the labels.
_ANSWERS = (
    "classes_", "n_labeled_", "positive_ratio_", "positive_ratio_interval_", "supervised_part_",
    "decision_",
)  # fmt: skip


def answers_of(estimator: Any) -> dict[str, Any]:
    """Return what a fit made of the labels: the ratio of the classes, and which model was kept."""
    found: dict[str, Any] = {}
    for name in _ANSWERS:
        if not hasattr(estimator, name):
            continue
        if name == "positive_ratio_" and len(estimator.classes_) == 2:
            found["positive_class"] = estimator.classes_[1]
        found[name] = getattr(estimator, name)
    if getattr(estimator, "candidates_", None):
        found["decision_reason"] = estimator.decision_reason_
    return {name.removesuffix("_"): value for name, value in found.items()}


class ProgressLine:
    """Shows the progress of a command on standard error.

    On a terminal it is one line that is overwritten, elsewhere a new line every ten seconds.

    Parameters
    ----------
    what : str
        What the command does, such as "converting".
    quiet : bool
        Show remarks only.
    """

    def __init__(self, what: str, quiet: bool = False) -> None:
        self._what = what
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._began = time.monotonic()
        self._shown = self._first = -1.0
        self._before = 0
        self._width = 0

    def __call__(self, line: str, done: int, total: int) -> None:
        """Show that `done` of `total` parts are done; with a total of 0, show the remark `line`."""
        now = time.monotonic()
        if total == 0:
            self.end()
            print(line, file=sys.stderr, flush=True)
            return
        if self._first < 0:
            self._first, self._before = now, done
        wait = _TERMINAL_S if self._terminal else _LOG_S
        if self._quiet or (done < total and 0 <= self._shown > now - wait):
            return
        self._shown = now
        text = f"{self._what}: {done} of {total} parts, {now - self._began:.0f} s"
        if self._before < done < total:
            left = (total - done) * (now - self._first) / (done - self._before)
            text += f", about {left:.0f} s left"
        if self._terminal:
            print("\r" + text.ljust(self._width), end="", file=sys.stderr, flush=True)
            self._width = len(text)
        else:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Finish the line that is overwritten."""
        if self._terminal and self._width:
            print(file=sys.stderr, flush=True)
        self._width = 0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()
