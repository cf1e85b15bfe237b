"""Writing in parallel: parts beside the target, a manifest, and one last step that shows it all.

Parts go to a hidden folder ``.NAME.partial`` beside the target, each of them whole or not there.
When all are written, they are joined to one file, or the folder becomes the target: nothing ever
stands half written under the final name. If writing is interrupted, the folder stays, and the
same call goes on from there; its manifest tells whether it is the same call.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.base import tokenize

from dask_s3vm.io.errors import DataFileError
from dask_s3vm.io.folders import Store, split_target
from dask_s3vm.io.parts import Part, PartFormat, Shape, plain_rows, stored_labels
from dask_s3vm.io.running import each_as_done, row_blocks

__all__ = ["Progress", "write_parts"]

_MANIFEST = "manifest.json"
_VERSION = 1

#: Called with a line of text, and parts done and parts in all (0 and 0 if the line is a remark).
Progress = Callable[[str, int, int], None]


def write_parts(
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    form: PartFormat,
    *,
    dense: bool,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[Part]:
    """Write rows in parallel, on the current client's workers or on threads.

    Parameters
    ----------
    X, y : array
        Rows and labels (or None), in memory or dask arrays.
    path : str or path
        The file; with a slash at the end, a folder of part files.
    form : PartFormat
        The format.
    dense : bool
        Whether all columns of a row are stored.
    overwrite : bool
        Whether to replace what is there.
    progress : callable, optional
        Told what is going on.

    Returns
    -------
    list of Part
        What was written.

    Raises
    ------
    FileExistsError
        If the target exists.
    ValueError, TypeError
        If the rows cannot be written in this format. Nothing is left behind then.
    """
    url = os.fspath(path)
    home, name = split_target(url)
    folder = url.endswith("/")
    say = progress or (lambda line, done, total: None)
    if home.exists(name) and not overwrite:
        raise FileExistsError(f"{home.address(name)} exists already; overwrite=True replaces it")
    if not home.fs.isdir(home.root):
        raise FileNotFoundError(f"there is no folder {home.address()!r} to write {name!r} to")
    blocks, fingerprint = row_blocks(X, y)
    shape = Shape(int(X.shape[1]), dense)
    form.check(shape, y is not None, folder)
    staged = home.inside(f".{name}.partial")
    fingerprint = tokenize(fingerprint, type(form).__name__, form.__dict__, shape, folder, _VERSION)
    try:
        local = not isinstance(X, da.Array)
        parts = _stage(staged, blocks, form, shape, fingerprint, say, local)
        _finish(home, name, staged, parts, form, shape, folder)
    except (ValueError, TypeError):
        # The input is wrong: with other input nothing of this could be used.
        home.discard(f".{name}.partial")
        raise
    except BaseException:
        say(f"interrupted; finished parts are saved in {staged.address()}", 0, 0)
        raise
    return parts


def _stage(
    staged: Store,
    blocks: list[Any],
    form: PartFormat,
    shape: Shape,
    fingerprint: str,
    say: Progress,
    local: bool,
) -> list[Part]:
    """Write the parts that are not written yet; return all parts."""
    done = _begin(staged, fingerprint, form, len(blocks), say)
    total = len(blocks)
    write = dask.delayed(_write_part, pure=False)
    left = [i for i in range(total) if i not in done]
    # increasing keys: schedulers then start with the first part
    name = f"write-part-{fingerprint}"
    tasks = [
        write(staged, i, form, shape, *blocks[i], dask_key_name=f"{name}-{i:05d}") for i in left
    ]
    for place, told in each_as_done(tasks, local):
        done[left[place]] = _seen(staged, told)
        part = done[left[place]]
        say(f"{part.name}: {part.rows} rows", len(done), total)
    parts = [done[i] for i in range(total)]
    if not form.typed:
        return parts
    values, labels = _common(parts)
    again = [i for i, p in enumerate(parts) if (p.values, p.labels) != (values, labels)]
    if again:
        say(f"{len(again)} parts are written again as {values}, like the others", 0, 0)
    tasks = [write(staged, i, form, shape, *blocks[i], values=values, kind=labels) for i in again]
    for place, told in each_as_done(tasks, local):
        parts[again[place]] = _seen(staged, told)
    return parts


def _begin(
    staged: Store, fingerprint: str, form: PartFormat, total: int, say: Progress
) -> dict[int, Part]:
    """Return the parts that an earlier call with the same input and options has written."""
    names = staged.names()
    manifest = staged.read_json(_MANIFEST) if names else None
    if names and (manifest is None or manifest.get("fingerprint") != fingerprint):
        say(
            f"{staged.address()} is of other input or options: starting from the beginning",
            0,
            0,
        )
        staged.fs.rm(staged.root, recursive=True)
        names = []
    staged.make()
    staged.write_json(_MANIFEST, {"fingerprint": fingerprint, "parts": total})
    done: dict[int, Part] = {}
    for i in range(total):
        told = staged.read_json(_stem(i) + ".json") if _stem(i) + ".json" in names else None
        if told is not None and _stem(i) + form.ending in names:
            done[i] = Part(**told)
    if done:
        say(f"{len(done)} of {total} parts are already written", 0, 0)
    return done


def _write_part(
    staged: Store,
    number: int,
    form: PartFormat,
    shape: Shape,
    block: Any,
    labels: Any,
    values: str | None = None,
    kind: str | None = None,
) -> dict[str, Any]:
    """Write one part, and a JSON file about its content; runs on a worker."""
    rows = plain_rows(block, shape, values)
    plain = None if labels is None else stored_labels(labels, rows.shape[0], kind)
    name = _stem(number) + form.ending
    with staged.writing(name) as stream:
        more = form.write(stream, rows, plain, shape)
    stored = rows.size if isinstance(rows, np.ndarray) else rows.nnz
    value_type = rows.dtype.name
    label_type = None if plain is None else plain.dtype.str
    part = Part(name, rows.shape[0], int(stored), value_type, label_type, more)
    # Last: a part counts as finished when this is there.
    staged.write_json(_stem(number) + ".json", part.as_dict())
    return part.as_dict()


def _finish(
    home: Store,
    name: str,
    staged: Store,
    parts: list[Part],
    form: PartFormat,
    shape: Shape,
    folder: bool,
) -> None:
    """Make the target of the parts."""
    if folder:
        for part in parts:
            staged.remove(part.name.removesuffix(form.ending) + ".json")
        staged.remove(_MANIFEST)
        staged.remove_unfinished()
        old = f".{name}.old"
        if home.exists(name):
            home.rename(name, old)
        home.rename(f".{name}.partial", name)
        if home.exists(old):
            home.remove(old)
        return
    with ExitStack() as stack:
        # The last one opened is closed, and so shown, first: files beside the target come first.

        def target(ending: str | None = None) -> Any:
            own = name if ending is None else name.rpartition(".")[0] + ending
            return stack.enter_context(home.writing(own))

        form.join(target, parts, staged, shape)
    home.remove(f".{name}.partial")


def _seen(staged: Store, told: dict[str, Any]) -> Part:
    part = Part(**told)
    if not staged.exists(part.name):
        raise OSError(
            f"a worker wrote {staged.address(part.name)}, but it is not to be seen from here: "
            "write to a file system that the client and all workers share"
        )
    return part


def _common(parts: list[Part]) -> tuple[str, str | None]:
    """Return types of values and labels that hold those of all parts without loss."""
    values = np.result_type(*{np.dtype(part.values) for part in parts}).name
    kinds = {np.dtype(part.labels) for part in parts if part.labels is not None}
    if not kinds:
        return values, None
    if len({kind.kind == "U" for kind in kinds}) > 1:
        raise DataFileError("y", "has blocks of numbers and blocks of strings")
    return values, np.result_type(*kinds).str


def _stem(number: int) -> str:
    return f"part-{number:05d}"
