"""Insert the tables of ``results/`` into README.md, folded, between the marks with their names.

python examples/papers/readme.py
"""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK = re.compile(r"<!-- (\S+) -->\n.*?<!-- end -->", flags=re.DOTALL)


def folded(table):
    """Return a table that opens by a click on its title and its count of cells."""
    title, *rest = table.strip().split("\n")
    count = f" {rest[-1]}" if rest[-1].startswith("Of ") else ""
    lines = ["<details>", f"<summary><b>{title.strip('*')}.</b>{count}</summary>", *rest, ""]
    return "\n".join([*lines, "</details>"])


def filled(text, results):
    """Return the text with the stored table at every mark."""

    def table(match):
        path = results / f"{match[1]}.md"
        found = folded(path.read_text(encoding="utf-8")) if path.exists() else "not run yet"
        return f"<!-- {match[1]} -->\n{found}\n<!-- end -->"

    return MARK.sub(table, text)


if __name__ == "__main__":
    page = HERE / "README.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), HERE / "results"), encoding="utf-8")
    print(f"written: {page}")
