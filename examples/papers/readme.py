"""Insert the tables of ``results/`` into README.md, folded, between the marks with their names.

python examples/papers/readme.py
"""

import csv
import re
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK = re.compile(r"<!-- (\S+) -->\n.*?<!-- end -->", flags=re.DOTALL)


#: Rows of the summary: the tables that they count, and the methods if not all.
STAR = ("004_table_III", "004_table_IV", "004_table_V")
COUNTED = {
    "QN-S3VM, Table 2": (("000_table_2",), ()),
    "S2RLSC, Table 2": (("001_table_2",), ()),
    "S2RLSC, Table 3": (("001_table_3",), ()),
    "QP-S3VM, Table II (accuracy)": (("003_table_II",), ()),
    "QP-S3VM, Table III (seconds)": (("003_table_III",), ()),
    "QP-S3VM, Table II again, LIBSVM's files as they are": (("003_files",), ()),
    "STAR-SVM, Tables III-V, its own cells": (STAR, ("STAR-SVM",)),
    "STAR-SVM, Tables III-V, its rivals": (STAR, ("GFHF", "LGC", "LapSVM")),
}
WORDS = {"yes": "agree", "no, better": "are better", "no, worse": "are worse"}


def cells_of(results, tables, methods=()):
    """Return the cells of tables that can be compared with the paper's."""
    found = []
    for path in (results / f"{table}.csv" for table in tables):
        if path.exists():
            with open(path, encoding="utf-8", newline="") as stream:
                found += [cell for cell in csv.DictReader(stream) if cell["agree"] in WORDS]
    return [cell for cell in found if not methods or cell["method"] in methods]


def summary(results):
    """Return a table of how many cells agree, are better and are worse, by table."""
    lines = ["| cells | agree | better | worse | agree or better | splits |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for name, (tables, methods) in COUNTED.items():
        cells = cells_of(results, tables, methods)
        said = Counter(cell["agree"] for cell in cells)
        splits = sorted(int(cell["splits"]) for cell in cells) or [0]
        numbers = " | ".join(str(said[word]) for word in WORDS)
        share = 100 * (said["yes"] + said["no, better"]) / max(len(cells), 1)
        span = " to ".join(str(number) for number in sorted({splits[0], splits[-1]}))
        lines.append(f"| {name} | {numbers} | {share:.0f} % | {span} |")
    return "\n".join(lines)


def counts(results, tables):
    """Return a sentence about how many cells agree, and whose are worse."""
    cells = cells_of(results, tables)
    said = Counter(cell["agree"] for cell in cells)
    parts = ", ".join(f"{said[word]} {about}" for word, about in WORDS.items())
    every = Counter(cell["method"] for cell in cells)
    worse = Counter(cell["method"] for cell in cells if cell["agree"] == "no, worse")
    by_method = ", ".join(f"{method} {worse[method]} of {n}" for method, n in every.items())
    return f"**Of {len(cells)} cells {parts}.** Worse, by method: {by_method}."


def best(results, table):
    """Return a sentence about how often each method is the best of its row."""
    rows = {}
    with open(results / f"{table}.csv", encoding="utf-8", newline="") as stream:
        for cell in csv.DictReader(stream):
            if cell["ours_mean"]:
                rows.setdefault(cell["row"], []).append((float(cell["ours_mean"]), cell["method"]))
    wins = Counter(method for row in rows.values() for mean, method in row if mean == min(row)[0])
    said = ", ".join(f"{method} {count}" for method, count in wins.most_common())
    return f"**Best of {len(rows)} rows:** {said}."


def folded(table):
    """Return a table that opens by a click on its title and its count of cells."""
    title, *rest = table.strip().split("\n")
    count = f" {rest[-1]}" if rest[-1].startswith(("Of ", "The ")) else ""
    lines = ["<details>", f"<summary><b>{title.strip('*')}.</b>{count}</summary>", *rest, ""]
    return "\n".join([*lines, "</details>"])


def filled(text, results):
    """Return the text with the stored table, the summary, or a count, at every mark."""

    def table(match):
        if match[1] == "summary":
            return f"<!-- summary -->\n{summary(results)}\n<!-- end -->"
        if match[1].startswith("counts:"):
            said = counts(results, match[1].removeprefix("counts:").split("+"))
            return f"<!-- {match[1]} -->\n{said}\n<!-- end -->"
        if match[1].startswith("best:"):
            return f"<!-- {match[1]} -->\n{best(results, match[1][5:])}\n<!-- end -->"
        path = results / f"{match[1]}.md"
        found = folded(path.read_text(encoding="utf-8")) if path.exists() else "not run yet"
        return f"<!-- {match[1]} -->\n{found}\n<!-- end -->"

    return MARK.sub(table, text)


if __name__ == "__main__":
    page = HERE / "README.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), HERE / "results"), encoding="utf-8")
    print(f"written: {page}")
