"""`dask-s3vm report`: an HTML page from the folder of a run; and what `train` adds to the folder.

`train --report DIR` writes the folder through a `RunRecord`. This module tells the record how
errors of the command line end a run, and adds dask's performance report.
"""

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from dask_s3vm.cli.stopping import Interrupted, format_errors
from dask_s3vm.io.store import join_url
from dask_s3vm.reports import record as records
from dask_s3vm.reports.record import Ending, RunRecord

#: A picture of more bytes than this, one with many points for example, goes into the page as PNG.
LARGEST_SVG = 600_000

#: File name of dask's performance report in the folder of a run.
PERFORMANCE_FILE = "dask-performance.html"


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="Page to write [default: DIR/report.html].",
)
def report(directory: str, output: str | None) -> None:
    """Make a page about the run in DIR: parameters, data, curves, history, environment.

    The page is a single HTML file that opens without a network connection.
    """
    from dask_s3vm.io.store import replacing
    from dask_s3vm.reports.page import make_page

    with format_errors():
        facts, history, config = records.read_record(directory)
        page = make_page(facts, history, config, pictures_of(Path(directory), facts, history))
        target = output or str(Path(directory) / "report.html")
        with replacing(target) as stream:
            stream.write(page.encode("utf-8", "replace"))
    click.echo(target)


def pictures_of(
    directory: Path, facts: dict[str, Any], history: list[dict[str, Any]]
) -> dict[str, tuple[str, bytes]]:
    """Return the pictures of a run, name -> (media type, bytes); drawn now if there are none."""
    found: dict[str, tuple[str, bytes]] = {}
    for path in sorted((directory / "plots").glob("*.svg")):
        content, other = path.read_bytes(), path.with_suffix(".png")
        if len(content) > LARGEST_SVG and other.exists():
            found[path.stem] = ("image/png", other.read_bytes())
        else:
            found[path.stem] = ("image/svg+xml", content)
    if found:
        return found
    from dask_s3vm.reports.page import draw_run, to_svg

    try:
        drawn = draw_run(facts, history)
    except ImportError:
        return {}
    return {name: ("image/svg+xml", to_svg(figure)) for name, figure in drawn.items()}


def ending_of(error: BaseException | None) -> Ending:
    """Describe the end of a run; errors of the command line have exit codes of their own."""
    if isinstance(error, click.ClickException):
        return Ending(error.exit_code, error.message, is_stop=isinstance(error, Interrupted))
    return records.ending_of(error)


@contextlib.contextmanager
def performance_report(client: Any, record: RunRecord) -> Iterator[None]:
    """Write dask's performance report about the body of the `with` into the folder of a run.

    Without a cluster, or without bokeh, the record gets a note instead. A performance report that
    fails does not make the run fail.
    """
    if record.directory is None:
        yield
        return
    if client is None:
        record.note(f"no {PERFORMANCE_FILE}: the run uses threads of this process, not a cluster")
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
