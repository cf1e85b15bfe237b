"""Fill README.md from ``results/``: counts, every worse cell with its reason, and the tables.

python examples/papers/readme.py

Text between a mark ``<!-- word -->`` and ``<!-- end -->`` is replaced: ``summary``; ``worse:`` and
``best:`` with names of tables; ``tables``. Reasons are in ``reasons.toml``, by table, row, method.
"""

import csv
import re
import textwrap
import tomllib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK = re.compile(r"<!-- (\S+) -->\n.*?<!-- end -->", flags=re.DOTALL)

STAR = ("004_table_III", "004_table_IV", "004_table_V")
#: Rows of the summary: the tables that they count, and the methods if not all.
COUNTED = {
    "QN-S3VM, Table 2 (error)": (("000_table_2",), ()),
    "S2RLSC, Table 2 (error)": (("001_table_2",), ()),
    "S2RLSC, Table 3 (error)": (("001_table_3",), ()),
    "QP-S3VM, Table II (accuracy)": (("003_table_II",), ()),
    "QP-S3VM, Table III (seconds)": (("003_table_III",), ()),
    "STAR-SVM, Tables III-V, its own cells": (STAR, ("STAR-SVM",)),
    "STAR-SVM, Tables III-V, its rivals": (STAR, ("GFHF", "LGC", "LapSVM")),
}
COUNTED["**all**"] = (tuple({table: 0 for tables, _ in COUNTED.values() for table in tables}), ())
#: Headings of the folded tables.
SECTIONS = {
    "000": "QN-S3VM",
    "001": "S2RLSC",
    "002": "SVMlin: TSVM and DA",
    "003": "QP-S3VM and S-QP-S3VM",
    "004": "STAR-SVM",
    "cccp": "CCCP against TSVM",
    "ssl": "All methods on published splits",
}
VERDICTS = ("yes", "no, better", "no, worse")


def cells_of(results, table):
    """Return the cells of a table, none if it was not run."""
    path = results / f"{table}.csv"
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def summary(results):
    """Return a table of how many cells agree, are better and are worse."""
    lines = ["| table | agree | better | worse | agree or better | splits |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for name, (tables, methods) in COUNTED.items():
        cells = [cell for table in tables for cell in cells_of(results, table)]
        cells = [cell for cell in cells if not methods or cell["method"] in methods]
        cells = [cell for cell in cells if cell["agree"] in VERDICTS]
        said = Counter(cell["agree"] for cell in cells)
        splits = sorted({int(cell["splits"]) for cell in cells}) or [0]
        numbers = " | ".join(str(said[word]) for word in VERDICTS)
        share = 100 * (said["yes"] + said["no, better"]) / max(len(cells), 1)
        span = " to ".join(str(number) for number in sorted({splits[0], splits[-1]}))
        lines.append(f"| {name} | {numbers} | {share:.0f} % | {span} |")
    return "\n".join(lines)


def reasons():
    """Return what is known of worse cells: dictionaries with table, rows, methods, why."""
    return tomllib.loads((HERE / "reasons.toml").read_text(encoding="utf-8"))["reason"]


def reason_of(cell, table, known):
    """Return the first reason that fits a worse cell, or None."""
    for one in known:
        fits = table in one["tables"] and cell["row"].startswith(tuple(one["rows"]))
        if fits and ("methods" not in one or cell["method"] in one["methods"]):
            return one["why"]
    return None


def worse(results, tables):
    """Return a list of the worse cells, grouped by what they are due to."""
    known, groups = reasons(), {}
    for table in tables:
        for cell in cells_of(results, table):
            if cell["agree"] == "no, worse":
                why = reason_of(cell, table, known) or "Not explained."
                row = re.sub(r" l=(\d+).*", r" with \1 labels", cell["row"])
                if len(tables) > 1:
                    row += f" (Table {table.rpartition('_')[2]})"
                groups.setdefault(why, {}).setdefault(row, []).append(described(table, cell))
    lines = []
    for why, rows in groups.items():
        said = "; ".join(f"**{row}**: {', '.join(cells)}" for row, cells in rows.items())
        lines += textwrap.wrap(f"- {said}. {' '.join(why.split())}", 120, subsequent_indent="  ",
                               break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return "\n".join(lines) or "No cell is worse."


def described(table, cell):
    """Return a worse cell in words: method, our number and the paper's."""
    digits = 2 if table.startswith("004") else 1
    ours, paper = (f"{float(cell[name]):.{digits}f}" for name in ("ours_mean", "paper_mean"))
    spread = f" ± {float(cell['paper_sd']):.{digits}f}" if cell["paper_sd"] else ""
    return f"{cell['method']} {ours} instead of {paper}{spread}"


def best(results, table):
    """Return a sentence about how often each method with all splits is the best of its row."""
    rows, cells = {}, [cell for cell in cells_of(results, table) if cell["ours_mean"]]
    for cell in cells:
        most = max(int(one["splits"]) for one in cells if one["row"] == cell["row"])
        if int(cell["splits"]) == most:
            rows.setdefault(cell["row"], []).append((float(cell["ours_mean"]), cell["method"]))
    wins = Counter(method for row in rows.values() for mean, method in row if mean == min(row)[0])
    said = ", ".join(f"{method} {count}" for method, count in wins.most_common())
    return f"**Best of {len(rows)} rows:** {said}."


def folded(table):
    """Return a table that opens by a click on its title and its count of cells."""
    title, *rest = table.strip().split("\n")
    counts = [line for line in rest if line.startswith("Of ")]
    said = f" {counts[-1]}" if counts else ""
    lines = ["<details>", f"<summary><b>{title.strip('*')}.</b>{said}</summary>", *rest, ""]
    return "\n".join([*lines, "</details>"])


def tables(results):
    """Return all tables, folded, under a heading for each paper."""
    parts = []
    for start, heading in SECTIONS.items():
        parts.append(f"### {heading}")
        parts += [folded(path.read_text(encoding="utf-8"))
                  for path in sorted(results.glob(f"{start}*.md"))]  # fmt: skip
        pictures = sorted(results.glob(f"{start}*.png"), key=lambda path: (len(path.name), path))
        if pictures:
            shown = [f"![Figure {path.stem.rpartition('_')[2]}](results/{path.name})"
                     for path in pictures]  # fmt: skip
            parts.append(folded("\n".join(["**Figures**", "", *shown])))
    return "\n\n".join(parts)


def filled(text, results):
    """Return the text with what the marks ask for."""

    def fill(match):
        word, _, names = match[1].partition(":")
        if word == "summary":
            found = summary(results)
        elif word == "worse":
            found = worse(results, names.split("+"))
        elif word == "best":
            found = best(results, names)
        else:
            found = tables(results)
        return f"<!-- {match[1]} -->\n{found}\n<!-- end -->"

    return MARK.sub(fill, text)


if __name__ == "__main__":
    page = HERE / "README.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), HERE / "results"), encoding="utf-8")
    print(f"written: {page}")
