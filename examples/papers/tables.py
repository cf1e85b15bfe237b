"""A table of a paper next to ours: printed, and written as csv and markdown.

The numbers of the papers are in ``numbers/``, one csv per table, laid out as printed: key columns
(set, l, u, t), then one column per method with "mean ± sd", "mean", or nothing.

Two means *agree* if they differ by no more than one standard deviation plus half of the last digit
that the paper prints. The standard deviation is that of the paper if it prints one, otherwise ours,
which needs several splits. Means that do not agree are called better or worse than the paper's.
"""

import csv
import json
import math
import subprocess
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

import dask_s3vm

HERE = Path(__file__).resolve().parent
NUMBERS = HERE / "numbers"
KEYS = ("set", "l", "u", "t")
ABSENT = "not in this package"
LEFT_OUT = "not run (--sets)"
WHOLE = "the paper's grid, folds and search"
FIELDS = ("row", "method", "paper_mean", "paper_sd", "ours_mean", "ours_sd", "splits", "agree",
          "seconds", "note", "code")  # fmt: skip


@lru_cache
def code():
    """Return the commit of the package that runs, or its version where there is no repository."""
    asked = ["git", "-C", str(HERE), "log", "-1", "--format=%h", "--", "../../dask_s3vm"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return found.stdout.strip() or dask_s3vm.__version__


@dataclass(frozen=True)
class Printed:
    """A number as the paper prints it: mean, standard deviation, digits after the point."""

    mean: float
    sd: float | None
    digits: int

    @property
    def slack(self):
        """Half of the last digit."""
        return 0.5 * 10.0**-self.digits

    def __str__(self):
        spread = "" if self.sd is None else f" ± {self.sd:.{self.digits}f}"
        return f"{self.mean:.{self.digits}f}{spread}"

    @classmethod
    def of(cls, cell):
        """Read "mean ± sd" or "mean"; None for an empty cell."""
        if not cell.strip():
            return None
        mean, _, sd = (part.strip() for part in cell.partition("±"))
        return cls(float(mean), float(sd) if sd else None, len(mean.partition(".")[2]))


def numbers(name):
    """Return the methods of a table and its numbers: {key: {method: Printed or None}}."""
    with open(NUMBERS / f"{name}.csv", encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        methods = [column for column in reader.fieldnames if column not in KEYS]
        keys = [column for column in reader.fieldnames if column in KEYS]
        rows = {
            tuple(line[key] if key == "set" else int(line[key]) for key in keys): {
                method: Printed.of(line[method]) for method in methods
            }
            for line in reader
        }
    return methods, rows


@dataclass
class Cell:
    """The numbers of one method in one row of a table: those of the paper and ours.

    former : mean, standard deviation and number of splits of an earlier run, in place of values.
    code : commit of the package that computed them.
    """

    paper: Printed | None = None
    values: list = field(default_factory=list)
    seconds: float = math.nan
    note: str = ""
    judged: bool = True
    expected: int | None = None
    former: tuple = ()
    code: str = ""

    @property
    def count(self):
        """Number of splits."""
        return self.former[2] if self.former else len(self.values)

    @property
    def mean(self):
        """Mean over the splits."""
        if self.former:
            return self.former[0]
        return float(np.mean(self.values)) if len(self.values) else math.nan

    @property
    def sd(self):
        """Standard deviation over the splits."""
        if self.former:
            return self.former[1]
        return float(np.std(self.values)) if len(self.values) > 1 else math.nan

    def agrees(self, higher_is_better):
        """Return "yes", "no, better", "no, worse", or "" if there is nothing to compare."""
        if self.paper is None or not self.count or not self.judged:
            return ""
        allowed = self.sd if self.paper.sd is None else self.paper.sd
        if math.isnan(allowed):
            return "one split"
        difference = self.mean - self.paper.mean
        if abs(difference) <= allowed + self.paper.slack + 1e-12:
            return "yes"
        return "no, better" if (difference > 0) == higher_is_better else "no, worse"


def label(key):
    """Describe a key: the set, and the numbers of labeled, unlabeled and test rows."""
    name, *sizes = key if isinstance(key, tuple) else (key,)
    return " ".join([str(name), *(f"{k}={v}" for k, v in zip("lut", sizes, strict=False))])


class Table:
    """One table of a paper, filled row by row and written to disk after every row."""

    def __init__(
        self,
        name,
        title,
        out,
        *,
        digits=1,
        higher_is_better=False,
        extra=(),
        columns=None,
        best=False,
    ):
        self.name, self.title, self.out = name, title, Path(out)
        self.digits, self.higher = digits, higher_is_better
        self.best = best
        #: Splits that a cell should have; one that has another number says so.
        self.expected = None
        #: Whether cells are computed by the paper's grid, folds and search; they say so.
        self.whole = False
        source, columns = columns or (name, None)
        known = (NUMBERS / f"{source}.csv").exists()
        self.paper_methods, self.paper = numbers(source) if known else ([], {})
        if columns:  # variants of methods of the paper, each compared with one of them
            self.paper_methods = list(columns)
            self.paper = {
                key: {variant: row[method] for variant, method in columns.items()}
                for key, row in self.paper.items()
            }
        self.methods = [*self.paper_methods, *(m for m in extra if m not in self.paper_methods)]
        self.rows = {}
        self.former = self._former()
        self.settings = []
        self.short = title.partition(":")[0]
        print(f"\n{title}")

    def say(self, text):
        """Print a line about how the numbers were computed, and add it to the table."""
        self.settings.append(text)
        print(f"  {text}", flush=True)

    def add(self, key, found, seconds=None, notes=None, *, judged=True, kept=None):
        """Add a row: values over splits, seconds of each, and notes, by method.

        A row that is not `judged`, such as an average, shows both numbers without a verdict.
        `kept` is the file of its splits, which knows by which code they were computed.
        A method that was not run, without a note that says why, is as an earlier run has left it.
        """
        known = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
        former, cells = self.former.get(label(key), {}), {}
        for method in self.methods:
            paper, values = self.paper.get(key, {}).get(method), list(found.get(method, []))
            times, note = (seconds or {}).get(method, []), (notes or {}).get(method, "")
            if not values and method in former and not note:
                cells[method] = replace(former[method], paper=paper, expected=self.expected)
                continue
            cells[method] = Cell(
                paper,
                values,
                float(np.mean(times)) if len(times) else math.nan,
                WHOLE if self.whole and values else note,
                judged,
                self.expected,
                code=known.get("code", code()) if values else "",
            )
        self.rows[key] = cells
        self._print(key)
        self.write()

    def miss(self, key, why):
        """Add a row that was not run; of sets left out by --sets, as an earlier run has left it."""
        name, left = label(key), []
        if why == LEFT_OUT:  # a key without numbers of rows means all rows of the set
            left = [row for row in self.former if row == name or row.startswith(f"{name} l=")]
        if not left:
            self.add(key, {}, notes=dict.fromkeys(self.methods, why))
            return
        for row in left:
            self.rows[key if row == name else row] = self._left(row)
        self.write()

    def _left(self, row):
        """Return the cells of a row as an earlier run has left them."""
        known = self.former[row]
        return {m: replace(known.get(m, Cell()), expected=self.expected) for m in self.methods}

    def _all(self):
        """Return the rows, and after them those of an earlier run that this one has not reached."""
        reached = {label(key) for key in self.rows}
        return self.rows | {row: self._left(row) for row in self.former if row not in reached}

    def _former(self):
        """Read what an earlier run has left: {row: {method: cell}}."""
        path, found = self.out / f"{self.name}.csv", {}
        if not path.exists():
            return found
        papers = {label(key): row for key, row in self.paper.items()}
        with open(path, encoding="utf-8", newline="") as stream:
            for line in csv.DictReader(stream):
                held = {"note": line["note"], "seconds": float(line["seconds"] or "nan")}
                held["code"] = line.get("code") or ""
                if line["splits"]:
                    numbers = (float(line[name] or "nan") for name in ("ours_mean", "ours_sd"))
                    held["former"] = (*numbers, int(line["splits"]))
                    held["judged"] = line["agree"] != "" or line["paper_mean"] == ""
                paper = papers.get(line["row"], {}).get(line["method"])
                if paper is None and line["paper_mean"]:
                    spread = float(line["paper_sd"]) if line["paper_sd"] else None
                    paper = Printed(float(line["paper_mean"]), spread, self.digits)
                held["paper"] = paper
                found.setdefault(line["row"], {})[line["method"]] = Cell(**held)
        return found

    def text(self, cell):
        """Return our number of a cell, or why there is none."""
        if not cell.count:
            return cell.note or "not run"
        spread = "" if math.isnan(cell.sd) else f" ± {cell.sd:.{self.digits}f}"
        few = f" ({cell.count})" if cell.expected and cell.count != cell.expected else ""
        return f"{cell.mean:.{self.digits}f}{spread}{few}"

    @staticmethod
    def paper_text(cell):
        """Return the number of the paper of a cell."""
        return "-" if cell.paper is None else str(cell.paper)

    def _print(self, key):
        cells = self.rows[key]
        reasons = {cell.note for cell in cells.values() if cell.note} - {ABSENT}
        if len(reasons) == 1 and not any(cell.count for cell in cells.values()):
            paper = ", ".join(
                f"{m} {self.paper_text(c)}" for m, c in cells.items() if c.paper is not None
            )
            print(
                f"  {self.short}: {label(key):38s} {reasons.pop()}"
                + (f"  (paper: {paper})" if paper else "")
            )
            return
        print(f"  {self.short}: {label(key)}")
        for method, cell in cells.items():
            seconds = "" if math.isnan(cell.seconds) else f"{cell.seconds:9.2f} s a split"
            print(
                f"    {method:18s} paper {self.paper_text(cell):>14s}   ours "
                f"{self.text(cell):>16s}  {cell.agrees(self.higher):10s} {seconds}",
                flush=True,
            )

    def write(self):
        """Write the table as csv and as markdown."""
        self.out.mkdir(parents=True, exist_ok=True)
        with open(self.out / f"{self.name}.csv", "w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(FIELDS)
            for key, cells in self._all().items():
                for method, cell in cells.items():
                    writer.writerow(self._line(label(key), method, cell))
        (self.out / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")

    def _line(self, row, method, cell):
        def short(value, digits=4):
            return "" if value is None or math.isnan(value) else f"{value:.{digits}f}"

        paper = cell.paper
        return (
            row, method, "" if paper is None else paper.mean,
            "" if paper is None or paper.sd is None else paper.sd,
            short(cell.mean), short(cell.sd), cell.count or "", cell.agrees(self.higher),
            short(cell.seconds, 3), cell.note, cell.code,
        )  # fmt: skip

    def markdown(self):
        """Return the table as markdown; a cell has the paper's number, ours, and the verdict."""
        rows = self._all()
        keep = [m for m in self.methods if any(self._shown(row[m]) for row in rows.values())]
        whole = {key for key, row in rows.items() if any(c.note == WHOLE for c in row.values())}
        run = {key for key, row in rows.items() if any(c.count for c in row.values())}
        lines = [f"**{self.title}**", ""]
        lines += [f"- {text}" for text in self.settings]
        if whole and whole != run:
            lines.append(f"- †: by {WHOLE}; other rows by fewer values and 3 folds")
        else:
            whole = set()  # nothing to tell apart
        lines += ["", "| row | " + " | ".join(keep) + " |", "|---" * (len(keep) + 1) + "|"]
        for key, cells in rows.items():
            name = label(key) + " †" * (key in whole)
            marks = [self._mark(cells[m], cells) for m in keep]
            reasons = {cell.note for cell in cells.values()}
            if len(reasons) == 1 and not any(cell.count for cell in cells.values()):
                name = f"{name}: *{reasons.pop()}*"  # once, not in every cell
                marks = [self.paper_text(cells[m]) for m in keep]
            lines.append(f"| {name} | " + " | ".join(marks) + " |")
        return "\n".join([*lines, "", self.count(), self.codes(), ""])

    def codes(self):
        """Return a line about the commits by which the rows were computed."""
        by_row = [
            {cell.code for cell in cells.values() if cell.code} for cells in self._all().values()
        ]
        many = Counter(", ".join(sorted(found)) for found in by_row if found)
        if len(many) == 1:
            return f"Computed by commit {next(iter(many))}."
        said = "; ".join(f"{words} ({n})" for words, n in many.most_common())
        return f"Computed by commits (rows): {said}." if said else ""

    @staticmethod
    def _shown(cell):
        return cell.paper is not None or cell.count > 0

    def _mark(self, cell, row):
        ours = self.text(cell)
        if self.best and cell.count:
            most = max(c.count for c in row.values())  # a mean over fewer splits is another thing
            means = [c.mean for c in row.values() if c.count == most]
            if cell.count == most and cell.mean == (max if self.higher else min)(means):
                ours = f"**{ours}**"
        if not math.isnan(cell.seconds):
            ours += f" <sub>{cell.seconds:.2g} s</sub>"
        if cell.paper is None:
            return ours
        verdict = cell.agrees(self.higher)
        return f"{self.paper_text(cell)} / {ours}" + (f" **{verdict}**" if verdict else "")

    def count(self):
        """Return a line about how many cells agree."""
        verdicts = [
            cell.agrees(self.higher) for cells in self._all().values() for cell in cells.values()
        ]
        said = {word: verdicts.count(word) for word in ("yes", "no, better", "no, worse")}
        total = sum(said.values())
        if not total:
            return "The best method of each row is bold." if self.best else ""
        return (
            f"Of {total} cells with a number of the paper and of ours, {said['yes']} agree, "
            f"{said['no, better']} are better, {said['no, worse']} worse."
        )

    def finish(self):
        """Print the count."""
        print(f"  {self.count()}", flush=True)
