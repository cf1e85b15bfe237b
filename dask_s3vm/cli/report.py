"""`dask-s3vm report`: an HTML page from the folder of a run; and what `train` adds to the folder.

`train --report DIR` writes the folder through a `RunRecord`. This module tells the record how
errors of the command line end a run, and adds dask's performance report.
"""

import contextlib
import importlib.util
from collections.abc import Iterator
from typing import Any

import click

from dask_s3vm.cli.options import GroupedCommand, Place, option
from dask_s3vm.cli.output import check_output
from dask_s3vm.cli.stopping import Interrupted, format_errors
from dask_s3vm.io.store import exists, join_url, open_input, replacing
from dask_s3vm.reports import record as records
from dask_s3vm.reports.record import Ending, RunRecord

#: A picture of more bytes than this, one with many points for example, goes into the page as PNG.
LARGEST_SVG = 600_000

#: File name of dask's performance report in the folder of a run.
PERFORMANCE_FILE = "dask-performance.html"


@click.command(cls=GroupedCommand)
@click.argument("directory", metavar="DIR", type=Place())
@option(
    "-o",
    "--output",
    type=Place(),
    group="run",
    metavar="FILE",
    shown="DIR/report.html",
    help="Page to write.",
)
@option(
    "--card",
    is_flag=True,
    group="run",
    help="Write a model card in Markdown instead, by default DIR/model-card.md.",
)
def report(directory: str, output: str | None, card: bool) -> None:
    """Make a page about the run in DIR: did it work, pictures, shares, weights, history.

    The page is a single HTML file that opens without a network connection.
    """
    from dask_s3vm.reports.card import make_card
    from dask_s3vm.reports.page import make_page

    if output:
        check_output("--output", output)
    with format_errors():
        facts, history, config = records.read_record(directory)
        if card:
            page = make_card(facts)
        else:
            page = make_page(facts, history, config, pictures_of(directory, facts, history))
        target = output or join_url(directory, "model-card.md" if card else "report.html")
        with replacing(target) as stream:
            stream.write(page.encode("utf-8", "replace"))
    click.echo(target)


def pictures_of(
    directory: str, facts: dict[str, Any], history: list[dict[str, Any]]
) -> dict[str, tuple[str, bytes]]:
    """Return the pictures of a run, name -> (media type, bytes); drawn now if there are none."""
    from dask_s3vm.reports.page import PICTURES

    found: dict[str, tuple[str, bytes]] = {}
    for name in PICTURES:
        vector, pixels = (join_url(directory, "plots", f"{name}.{kind}") for kind in ("svg", "png"))
        if exists(vector):
            content = _read(vector)
            if len(content) > LARGEST_SVG and exists(pixels):
                found[name] = ("image/png", _read(pixels))
            else:
                found[name] = ("image/svg+xml", content)
    if found:
        return found
    from dask_s3vm.reports.pictures import draw_run, to_svg

    try:
        drawn = draw_run(facts, history)
    except ImportError:
        return {}
    return {name: ("image/svg+xml", to_svg(figure)) for name, figure in drawn.items()}


def _read(url: str) -> bytes:
    with open_input(url) as stream:
        return bytes(stream.read())


def ending_of(error: BaseException | None) -> Ending:
    """Describe the end of a run; errors of the command line have exit codes of their own."""
    if isinstance(error, click.ClickException):
        return Ending(error.exit_code, error.message, is_stop=isinstance(error, Interrupted))
    return records.ending_of(error)


@contextlib.contextmanager
def performance_report(client: Any, record: RunRecord) -> Iterator[None]:
    """Write dask's performance report about the body of the `with` into the folder of a run.

    There is none without a cluster. Without bokeh, the record gets a note instead. A performance
    report that fails does not make the run fail.
    """
    if record.directory is None or client is None:
        yield
        return
    if importlib.util.find_spec("bokeh") is None:
        record.note(f"no {PERFORMANCE_FILE}: bokeh is missing (pip install 'dask-s3vm[plot]')")
        yield
        return
    import distributed

    report = distributed.performance_report(
        join_url(record.directory, PERFORMANCE_FILE), mode="inline"
    )
    report.__enter__()
    try:
        yield
    finally:
        try:
            if client.status != "running":
                raise RuntimeError("the connection to the scheduler is lost")
            report.__exit__(None, None, None)
        except Exception as error:
            record.note(f"no {PERFORMANCE_FILE}: {error}")
