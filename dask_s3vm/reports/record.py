"""The folder of a run: configuration, facts, history and pictures, however the run ended.

`run.json` is written when the run starts, so that even a killed run leaves a trace. The history
and the pictures are written when it ends.
"""

import csv
import importlib.metadata
import io
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dask_s3vm import _config
from dask_s3vm._version import __version__
from dask_s3vm.io.store import (
    Url,
    address,
    check_writable,
    exists,
    join_url,
    make_folder,
    open_input,
    replacing,
)
from dask_s3vm.reports.pictures import draw_run, save_figures

FORMAT = "dask-s3vm-run"
VERSION = 1

#: Packages whose versions are recorded.
_PACKAGES = ("dask", "distributed", "numpy", "scipy", "scikit-learn", "numba", "sparse")


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes
    ----------
    code : int
        Exit code.
    reason : str
        "done", or the message of the error.
    is_stop : bool
        Whether a signal stopped the run. The process must end soon then, and no pictures are drawn.
    """

    code: int
    reason: str
    is_stop: bool = False


def ending_of(error: BaseException | None) -> Ending:
    """Describe the end of a run by the error that ended it; None: it is done."""
    if error is None:
        return Ending(0, "done")
    return Ending(1, str(error) or type(error).__name__)


class RunRecord:
    """Collects the facts of a run, and writes them to a folder.

    Use it as a context manager: it writes the folder on exit, also if the run failed or was
    stopped.

    Parameters
    ----------
    directory : str, path or None
        Path or URL of a folder, created if needed; None: nothing is written.
    config : str
        Text of a TOML file that repeats the run.
    say : callable
        Called with a message for the user if something could not be written.
    describe : callable
        Returns the `Ending` for the error that ended the run, or for None.

    Attributes
    ----------
    facts : dict
        Content of `run.json`.
    history : list of dict
        Rows of the history so far; replaced by `history_` of the estimator once it is fitted.
    pictures : dict
        Further pictures: name -> function that draws on an Axes.
    """

    def __init__(
        self,
        directory: Url | None,
        config: str = "",
        say: Callable[[str], None] = print,
        describe: Callable[[BaseException | None], Ending] = ending_of,
    ) -> None:
        self.directory = None if directory is None else address(directory)
        self.facts: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []
        self.pictures: dict[str, Callable[..., Any]] = {}
        self._config = config
        self._say = say
        self._describe = describe
        self._began = time.perf_counter()

    def __enter__(self) -> "RunRecord":
        if self.directory is not None:
            make_folder(self.directory)
            check_writable(join_url(self.directory, "run.json"))
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
        ending = self._describe(error)
        self.facts["seconds"] = round(time.perf_counter() - self._began, 3)
        self.facts["exit"] = {"code": ending.code, "reason": ending.reason}
        self.facts["history_rows"] = len(self.history)
        self.facts["notes"] = self.facts.get("notes", [])
        try:
            self._write("history.json", to_json(self.history))
            self._write("history.csv", to_csv(self.history))
            self._write_facts()
            if not ending.is_stop:
                self._draw()
                self._write_facts()
        except Exception as failure:
            if error is None:
                raise
            # the error of the run matters more than that of its report
            self._say(f"the report in {self.directory} is incomplete: {failure}")

    def note(self, text: str) -> None:
        """Record a remark, such as what is missing and why, and show it."""
        self.facts.setdefault("notes", []).append(text)
        self._say(text)

    def note_cluster(self, client: Any) -> None:
        """Record the cluster that the run uses."""
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
        save_figures(figures, join_url(self.directory, "plots"))

    def _write_facts(self) -> None:
        self._write("run.json", to_json(self.facts))

    def _write(self, name: str, text: str) -> None:
        assert self.directory is not None, "there is a folder to write into"
        with replacing(join_url(self.directory, name), "w") as stream:
            stream.write(text)


def read_record(directory: Url) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """Read (facts, history, config) of a run from its folder.

    Raises
    ------
    ValueError
        If the folder holds no run, or files of another kind.
    """
    run, rows, config = (
        join_url(directory, name) for name in ("run.json", "history.json", "config.toml")
    )
    if not exists(run):
        raise ValueError(
            f"{directory} holds no run: there is no run.json; wanted a folder of `train --report`"
        )
    facts = _read_json(run)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(f"{run} is not a run: its format is not {FORMAT!r}")
    if facts.get("version") != VERSION:
        raise ValueError(f"{run} has version {facts.get('version')!r}, wanted {VERSION}")
    history = _read_json(rows) if exists(rows) else []
    if not isinstance(history, list) or not all(isinstance(row, dict) for row in history):
        raise ValueError(f"{rows} is not a list of rows")
    return facts, history, _read_text(config) if exists(config) else ""


def _read_json(url: str) -> Any:
    try:
        return json.loads(_read_text(url))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{url} is not JSON: {error}") from None


def _read_text(url: str) -> str:
    with open_input(url, "r") as stream:
        return str(stream.read())


def to_json(value: Any) -> str:
    """Write plain JSON; infinite numbers and NaN become null."""
    return json.dumps(plain(value), indent=1, allow_nan=False) + "\n"


def to_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Write rows as csv, with the columns of all rows in the order of their first occurrence."""
    rows = [{key: plain(value) for key, value in row.items()} for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def plain(value: Any) -> Any:
    """Convert numpy types and containers to those of JSON, and everything else to text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, bool | int | str) or value is None else str(value)


def environment() -> dict[str, Any]:
    """Return the versions of Python and packages, and facts about the client's machine."""
    return {
        "dask-s3vm": __version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "system": platform.platform(),
        "machine": platform.node(),
        "processor": platform.machine(),
        "cores": _config.available_cores(),
        "memory_bytes": _memory(),
    }


def cluster_facts(client: Any) -> dict[str, Any]:
    """Return facts about the cluster; `client` is None if threads of this process do the work."""
    if client is None:
        return {"kind": "threads of this process", "threads": _config.local_threads()}
    info = client.scheduler_info(n_workers=-1)
    workers = info["workers"].values()
    return {
        "kind": "dask cluster",
        "scheduler": info["address"],
        "workers": len(workers),
        "threads": sum(worker["nthreads"] for worker in workers),
        "memory_bytes": sum(worker["memory_limit"] for worker in workers),
        "hosts": len({worker["host"] for worker in workers}),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _memory() -> int | None:
    """Bytes of physical memory; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
