"""Sphinx extension: the code blocks of a page run, and what they print is shown below them."""

import tempfile
from pathlib import Path

from blocks import Block, BlockError, Result, find_blocks, run_page
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

#: pictures that blocks draw, below the folder of the pages; not under version control
FIGURES = "_generated/figures"


class RunBlocks(SphinxTransform):
    """Run the blocks of a Markdown page and insert their results."""

    default_priority = 400  # before Sphinx collects images

    def apply(self) -> None:
        """Match the blocks of the source with those of the document, in order."""
        page = Path(self.env.doc2path(self.env.docname))
        if page.suffix != ".md" or not any(block.runs for block in find_blocks(page)):
            return
        figures = Path(self.env.srcdir) / FIGURES
        figures.mkdir(parents=True, exist_ok=True)
        shown = list(self.document.findall(nodes.literal_block))
        with tempfile.TemporaryDirectory() as scratch:
            try:
                for block, result in run_page(page, Path(scratch), figures):
                    while shown[0].astext().strip() != block.code.strip():
                        shown.pop(0)
                    _insert_after(shown.pop(0), block, result)
            except BlockError as error:
                raise ExtensionError(str(error)) from error


def _insert_after(node: nodes.literal_block, block: Block, result: Result) -> None:
    parts: list[nodes.Node] = [_output(result.text)] if result.text else []
    parts += [_picture(path, block.alt, node.document) for path in result.figures]
    place = node.parent.index(node)
    shown = 0 if "hidden" in block.flags else 1
    node.parent[place : place + 1] = [node][:shown] + parts


def _output(text: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language="text", classes=["output"])


def _picture(path: Path, alt: str, document: nodes.document) -> nodes.figure:
    image = nodes.image(uri=f"/{FIGURES}/{path.name}", alt=alt)
    figure = nodes.figure("", image, nodes.caption(alt, alt))
    document.set_id(figure)
    return figure


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(RunBlocks)
    return {"parallel_read_safe": False}  # blocks change the directory of the process
