"""Sphinx extension: docstrings, which are for a terminal, become valid reStructuredText."""

import re
from typing import Any

from sphinx.application import Sphinx

LITERAL = re.compile(r"(``.*?``|`[^`]*`)")


def escape(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape bars (|w|^2) and trailing underscores (coef_) outside code."""
    literal_indent = None
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal_indent is not None and line.strip() and indent <= literal_indent:
            literal_indent = None
        if literal_indent is None and not line.lstrip().startswith(">>>"):
            head, colon, rest = line.partition(" : ")  # numpydoc escapes names of attributes
            parts = LITERAL.split(rest if colon else line)
            parts[::2] = [_escaped(part) for part in parts[::2]]
            lines[number] = head + colon + "".join(parts) if colon else "".join(parts)
            if line.rstrip().endswith("::"):
                literal_indent = indent


def _escaped(text: str) -> str:
    return re.sub(r"(?<=\w)_(?!\w)", r"\_", text.replace("|", r"\|"))


def skip(app: Sphinx, what: str, name: str, obj: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what every scikit-learn estimator has; its docstrings refer to other sites."""
    module = getattr(obj, "__module__", None) or ""
    return True if module.startswith("sklearn.") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both."""
    app.connect("autodoc-process-docstring", escape, priority=100)  # before numpydoc
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True}
