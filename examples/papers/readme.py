"""Insert the tables of ``results/`` into README.md, folded, between the marks with their names.

python examples/papers/readme.py
"""

import csv
import re
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK = re.compile(r"<!-- (\S+) -->\n.*?<!-- end -->", flags=re.DOTALL)


#: Rows of the summary, and the tables that they count.
COUNTED = {
    "QN-S3VM, Table 2": ("000_table_2",),
    "S2RLSC, Table 2": ("001_table_2",),
    "S2RLSC, Table 3": ("001_table_3",),
    "QP-S3VM, Table II (accuracy)": ("003_table_II",),
    "QP-S3VM, Table III (seconds)": ("003_table_III",),
    "STAR-SVM, Tables III-V, variance 1": ("004_table_III", "004_table_IV", "004_table_V"),
    "STAR-SVM, Tables III-V, [0, 1]": (
        "004_table_III_range", "004_table_IV_range", "004_table_V_range",
    ),
}  # fmt: skip


def summary(results):
    """Return a table of how many cells agree, are better and are worse, by table."""
    lines = ["| cells | agree | better | worse | agree or better | most splits |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for name, tables in COUNTED.items():
        said, splits = Counter(), 0
        for path in (results / f"{table}.csv" for table in tables):
            if path.exists():
                with open(path, encoding="utf-8", newline="") as stream:
                    cells = list(csv.DictReader(stream))
                said.update(cell["agree"] for cell in cells)
                splits = max(splits, *(int(cell["splits"] or 0) for cell in cells))
        counts = [said[word] for word in ("yes", "no, better", "no, worse")]
        share = 100 * (counts[0] + counts[1]) / max(sum(counts), 1)
        numbers = " | ".join(str(count) for count in counts)
        lines.append(f"| {name} | {numbers} | {share:.0f} % | {splits} |")
    return "\n".join(lines)


def folded(table):
    """Return a table that opens by a click on its title and its count of cells."""
    title, *rest = table.strip().split("\n")
    count = f" {rest[-1]}" if rest[-1].startswith("Of ") else ""
    lines = ["<details>", f"<summary><b>{title.strip('*')}.</b>{count}</summary>", *rest, ""]
    return "\n".join([*lines, "</details>"])


def filled(text, results):
    """Return the text with the stored table, or the summary, at every mark."""

    def table(match):
        if match[1] == "summary":
            return f"<!-- summary -->\n{summary(results)}\n<!-- end -->"
        path = results / f"{match[1]}.md"
        found = folded(path.read_text(encoding="utf-8")) if path.exists() else "not run yet"
        return f"<!-- {match[1]} -->\n{found}\n<!-- end -->"

    return MARK.sub(table, text)


if __name__ == "__main__":
    page = HERE / "README.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), HERE / "results"), encoding="utf-8")
    print(f"written: {page}")
