"""`dask-s3vm report`: one page of what `train --report` left behind."""

from pathlib import Path
from typing import Any

import click

from dask_s3vm.cli.errors import told_plainly

#: A picture of more bytes than this goes into the page as PNG: one of many points, for example.
LARGEST_SVG = 600_000


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="Page to write; DIR/report.html by default.",
)
def report(directory: str, output: str | None) -> None:
    """Make a page of the run in DIR: parameters, data, curves, history, environment.

    It is one HTML file that opens without network and needs nothing beside it.
    """
    from dask_s3vm.io.archive import write_atomically
    from dask_s3vm.reports.page import make_page
    from dask_s3vm.reports.record import read_record

    with told_plainly():
        facts, history, config = read_record(directory)
        page = make_page(facts, history, config, pictures_of(Path(directory), facts, history))
        target = output or str(Path(directory) / "report.html")
        with write_atomically(target) as stream:
            stream.write(page.encode("utf-8", "replace"))
    click.echo(target)


def pictures_of(
    directory: Path, facts: dict[str, Any], history: list[dict[str, Any]]
) -> dict[str, tuple[str, bytes]]:
    """Pictures that the run left, or drawn now if it could not draw; name -> (type, bytes)."""
    found: dict[str, tuple[str, bytes]] = {}
    for path in sorted((directory / "plots").glob("*.svg")):
        content, other = path.read_bytes(), path.with_suffix(".png")
        if len(content) > LARGEST_SVG and other.exists():
            found[path.stem] = ("image/png", other.read_bytes())
        else:
            found[path.stem] = ("image/svg+xml", content)
    if found:
        return found
    from dask_s3vm.reports.figures import draw_run, to_svg

    try:
        drawn = draw_run(facts, history)
    except ImportError:
        return {}
    return {name: ("image/svg+xml", to_svg(figure)) for name, figure in drawn.items()}
