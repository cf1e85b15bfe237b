"""Code blocks of Markdown pages: where they are, and what they print when they run.

The tests run the blocks of README.md and of every page; the build of the site runs those of the
pages and inserts what they print. A fence says what becomes of its block:

python, shell       the blocks of a page run in order: one Python session, one scratch directory
... not-run         it is shown only: it needs a cluster, a large file or a lot of time
... hidden          the site shows its results alone: code that draws figures of a table
... warns           it shows a warning on purpose; elsewhere a warning is an error
... alt="words"     what the picture shows that the block draws
"""

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("MPLBACKEND", "Agg")  # figures go to files

FENCE = re.compile(
    r"^(?P<ticks>`{3,})(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=ticks)\s*$", re.DOTALL | re.MULTILINE
)
#: seconds that the commands of one block may take
PATIENCE = 300
#: warnings that Python does not show by default
HIDDEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


class BlockError(Exception):
    """A block failed; the message names the page and the line."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    flags: frozenset[str]
    alt: str
    code: str

    @property
    def runs(self) -> bool:
        """Whether the block is to be run."""
        return self.language in ("python", "shell") and "not-run" not in self.flags

    @property
    def place(self) -> str:
        """Page and line, for messages."""
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Result:
    """What a block printed and drew."""

    text: str = ""
    figures: list[Path] = field(default_factory=list)


def find_blocks(page: Path) -> list[Block]:
    """Return all fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [_block(page, text, match) for match in FENCE.finditer(text)]


def _block(page: Path, text: str, match: re.Match[str]) -> Block:
    info = match["info"].strip()
    alt = re.search(r'alt="([^"]*)"', info)
    language, *flags = re.sub(r'alt="[^"]*"', "", info).split() or [""]
    return Block(
        page=page,
        line=text.count("\n", 0, match.start()) + 1,
        language=language,
        flags=frozenset(flags),
        alt=alt[1] if alt else "",
        code=match["code"],
    )


def run_page(page: Path, scratch: Path, figures: Path) -> Iterator[tuple[Block, Result]]:
    """Run the blocks of a page in order and yield each with its result.

    Parameters
    ----------
    page : a Markdown file.
    scratch : existing directory in which the blocks run.
    figures : existing directory for the pictures.
    """
    scope: dict[str, Any] = {"__name__": "page"}
    for block in find_blocks(page):
        if block.runs:
            run = _run_python if block.language == "python" else _run_shell
            with contextlib.chdir(scratch):
                text = run(block, scope)
            yield block, Result(text.strip("\n"), _save_figures(block, figures.resolve()))


def _run_python(block: Block, scope: dict[str, Any]) -> str:
    """Run Python code; a last expression is shown, as in a session."""
    # Blank lines put the code on its line in the page: tracebacks then name the right one.
    tree = ast.parse("\n" * block.line + block.code, filename=str(block.page))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(out):
        warnings.simplefilter("always")
        try:
            exec(compile(tree, str(block.page), "exec"), scope)
            if last is not None:
                shown = eval(compile(ast.Expression(last.value), str(block.page), "eval"), scope)
                if shown is not None and "matplotlib" not in type(shown).__module__:
                    print(shown if isinstance(shown, str) else repr(shown))
        except Exception as error:
            raise BlockError(f"{block.place}: {type(error).__name__}: {error}") from error
    said = {f"{w.category.__name__}: {w.message}": None for w in caught if _is_for_users(w)}
    if bool(said) != ("warns" in block.flags):
        raise BlockError(f"{block.place}: warnings: {list(said) or 'none, but it should warn'}")
    return "\n".join([*said, out.getvalue()])


def _is_for_users(warning: warnings.WarningMessage) -> bool:
    return not issubclass(warning.category, HIDDEN)


def _run_shell(block: Block, scope: dict[str, Any]) -> str:
    """Run shell commands, with the `dask-s3vm` of this Python; they see no Python variable."""
    # the command of this Python, and the package of this checkout
    path, modules = str(Path(sys.executable).parent), str(Path(__file__).resolve().parents[1])
    front = {
        name: os.pathsep.join([first, *os.environ.get(name, "").split(os.pathsep)]).rstrip(
            os.pathsep
        )
        for name, first in (("PATH", path), ("PYTHONPATH", modules))
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        env=os.environ | front | {"COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    if done.returncode:
        raise BlockError(f"{block.place}: exit code {done.returncode}:\n{done.stdout}")
    return done.stdout


def _save_figures(block: Block, folder: Path) -> list[Path]:
    """Save and close the figures that a block left open."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None:
        return []
    paths = []
    for number in plt.get_fignums():
        path = folder / f"{block.page.stem}-{block.line}-{number}.png"
        plt.figure(number).savefig(path, dpi=120, bbox_inches="tight")
        paths.append(path)
    plt.close("all")
    if paths and not block.alt:
        raise BlockError(f'{block.place}: draws a picture and needs alt="what it shows"')
    return paths
