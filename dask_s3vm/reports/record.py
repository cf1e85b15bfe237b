"""The folder of a run: history, parameters, facts and pictures, however the run ended.

`run.json` is there from the start of a run on, so that even one that was killed leaves a trace;
all else is written at its end.
"""

import csv
import io
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dask_s3vm.io.archive import write_atomically
from dask_s3vm.reports.environment import cluster_facts, environment
from dask_s3vm.reports.figures import draw_run, save_figures

FORMAT = "dask-s3vm-run"
VERSION = 1


class RunRecord:
    """Collects what a run is and does, and writes it down.

    Use it as a context: at the end it writes the folder, also if the run failed or was stopped.

    Parameters
    ----------
    directory : folder to write to, made if need be; None: nothing is written.
    config : text of a TOML file that repeats the run.
    say : told what could not be written, and why.
    """

    def __init__(
        self, directory: str | None, config: str = "", say: Callable[[str], None] = print
    ) -> None:
        self.directory = None if directory is None else Path(directory)
        self.facts: dict[str, Any] = {}
        #: rows of the history as they come; replaced by the estimator's own once it is fitted
        self.history: list[dict[str, Any]] = []
        #: further pictures: name -> draws on an Axes
        self.pictures: dict[str, Callable[..., Any]] = {}
        self._config = config
        self._say = say
        self._began = time.perf_counter()

    def __enter__(self) -> "RunRecord":
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.facts |= {
                "format": FORMAT,
                "version": VERSION,
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "exit": None,
                "environment": environment(),
            }
            self._write("config.toml", self._config)
            self._write_facts()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self.directory is None:
            return
        self.facts["seconds"] = round(time.perf_counter() - self._began, 3)
        self.facts["exit"] = _ending(error)
        self.facts["history_rows"] = len(self.history)
        self.facts["notes"] = self.facts.get("notes", [])
        try:
            self._write("history.json", to_json(self.history))
            self._write("history.csv", to_csv(self.history))
            self._write_facts()
            if not getattr(error, "in_a_hurry", False):
                self._draw()
                self._write_facts()
        except Exception as trouble:
            if error is None:
                raise
            # what ended the run matters more than what befell its report
            self._say(f"the report in {self.directory} is not complete: {trouble}")

    def note(self, text: str) -> None:
        """Keep a remark, such as what was left out and why."""
        self.facts.setdefault("notes", []).append(text)
        self._say(text)

    def note_cluster(self, client: Any) -> None:
        """Keep who carries the rows."""
        if self.directory is not None:
            self.facts["cluster"] = cluster_facts(client)
            self._write_facts()

    def _draw(self) -> None:
        assert self.directory is not None, "there is a folder to draw into"
        try:
            figures = draw_run(self.facts, self.history, self.pictures)
        except ImportError as error:
            self.note(f"no pictures: {error}")
            return
        save_figures(figures, self.directory / "plots")

    def _write_facts(self) -> None:
        self._write("run.json", to_json(self.facts))

    def _write(self, name: str, text: str) -> None:
        assert self.directory is not None, "there is a folder to write into"
        with write_atomically(self.directory / name) as stream:
            stream.write(text.encode())


def read_record(directory: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """Read (facts, history, config) of a run back from its folder.

    Raises
    ------
    ValueError
        If the folder holds no run, or something else.
    """
    folder = Path(directory)
    try:
        facts = json.loads((folder / "run.json").read_text())
    except FileNotFoundError:
        raise ValueError(f"{folder} holds no run: there is no run.json") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{folder / 'run.json'} is not JSON: {error}") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(f"{folder / 'run.json'} is not of a run: its format is not {FORMAT!r}")
    if facts.get("version") != VERSION:
        raise ValueError(
            f"{folder / 'run.json'} has version {facts.get('version')!r}, wanted {VERSION}"
        )
    history: Any = []
    if (folder / "history.json").exists():
        try:
            history = json.loads((folder / "history.json").read_text())
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{folder / 'history.json'} is not JSON: {error}") from None
    if not isinstance(history, list) or not all(isinstance(row, dict) for row in history):
        raise ValueError(f"{folder / 'history.json'} is not a list of rows")
    config = folder / "config.toml"
    return facts, history, config.read_text() if config.exists() else ""


def to_json(value: Any) -> str:
    """Write plain JSON; numbers that JSON does not know become null."""
    return json.dumps(plain(value), indent=1, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Turn numpy's types and containers into those of JSON; all else into text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, bool | int | str) or value is None else str(value)


def to_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Write rows as csv, with the columns of all of them in the order in which they turn up."""
    rows = [{key: plain(value) for key, value in row.items()} for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _ending(error: BaseException | None) -> dict[str, Any]:
    """Exit code and reason; errors of the command line bring their own code."""
    if error is None:
        return {"code": 0, "reason": "done"}
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    return {"code": int(getattr(error, "exit_code", 1)), "reason": str(message)}
