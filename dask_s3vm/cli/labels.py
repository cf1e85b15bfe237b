"""Labels of a command: a file of their own, the mark of unlabeled rows, hiding some for a test."""

from collections.abc import Callable, Mapping
from typing import Any

import click
import numpy as np

from dask_s3vm.cli.methods import mark_of
from dask_s3vm.cli.stopping import BadData
from dask_s3vm.labels import AUTO, is_unlabeled

#: Labels in text files of SVMlin: two classes, and 0 for rows without a label.
_SVMLIN = (-1, 0, 1)


def check_label_options(chosen: Mapping[str, Any]) -> None:
    """Refuse options about labels that contradict each other."""
    if (chosen.get("labels") or "").startswith("column:"):
        raise click.UsageError("--labels column:NAME is --label NAME now")
    if chosen.get("unlabeled") == "none" and (chosen["hide_all_but"] or chosen["hold_out"]):
        raise click.UsageError("hidden labels need a mark: --unlabeled none does not go with them")
    for one, other in (("labels", "label"), ("labels", "positive"), ("hide_all_but", "hold_out")):
        if chosen.get(one) and chosen.get(other):
            first, second = one.replace("_", "-"), other.replace("_", "-")
            raise click.UsageError(f"--{first} and --{second} exclude each other; give one of them")


def mark_from(text: str) -> Any:
    """Return the mark of `--unlabeled`."""
    return AUTO if text == AUTO else mark_of(text)


def separate_labels(
    path: str, unlabeled: str, say: Callable[[str], None]
) -> tuple[np.ndarray, Any]:
    """Read the file of `--labels`; returns the labels and the mark of unlabeled rows.

    By default the mark of a text file of -1, 0 and +1 is 0, as in SVMlin. In a text file with other
    labels 0 may be a class: `--unlabeled` is required then.
    """
    from dask_s3vm.io.arrays import read_labels

    found = read_labels(path)
    if unlabeled != AUTO or path.lower().endswith(".npy"):
        return found, mark_from(unlabeled)
    values = np.unique(found)
    if found.dtype.kind == "U" or not set(values.tolist()) <= set(_SVMLIN):
        shown = ", ".join(str(value) for value in values[:6].tolist())
        kind = "that are words" if found.dtype.kind == "U" else "beyond -1, 0 (unlabeled) and +1"
        raise BadData(
            f"{path} has labels {kind} ({shown}{', ...' if len(values) > 6 else ''}): add "
            "--unlabeled with the label that marks unlabeled rows, or `none`"
        )
    count = int(np.count_nonzero(found == 0))
    say(f"{path}: {count:,} of {len(found):,} rows are 0, unlabeled (--unlabeled changes that)")
    return found, 0


def check_length(labels: np.ndarray, rows: float, name: str) -> None:
    """Refuse labels whose number differs from that of the rows, if that is known (not NaN)."""
    if not np.isnan(rows) and len(labels) != rows:
        raise BadData(f"{name} has {len(labels):,} labels, but there are {int(rows):,} rows")


def hidden_rows(
    y: np.ndarray, mark: Any, keep: int | None, share: float | None, seed: int
) -> np.ndarray:
    """Choose the rows whose labels are hidden; every class keeps at least one label.

    Every row has a key, a hash of the seed and its number. Rows of smallest key keep their label
    (`keep`), as in `datasets.hide_labels`, or lose it (`share`).

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels.
    mark : object
        Mark of rows without a label; these are left as they are.
    keep : int or None
        Number of labels to keep.
    share : float or None
        In place of `keep`, the share of the labels of each class to hide.
    seed : int
        Of the draw.

    Returns
    -------
    ndarray of bool, shape (n,)
        True for a label that is hidden.
    """
    from dask_s3vm.datasets._sampling import row_keys, stream_seed

    labeled = np.flatnonzero(~is_unlabeled(y, mark))
    keys = row_keys(stream_seed(seed, "labels"), 0, len(y))[labeled]
    labeled = labeled[np.argsort(keys)]
    classes, first, of = np.unique(y[labeled], return_index=True, return_inverse=True)
    hidden = np.zeros(len(y), dtype=bool)
    if keep is not None:
        if not len(classes) <= keep < len(labeled):
            raise BadData(
                f"--hide-all-but {keep}: wanted at least one label for each of {len(classes)} "
                f"classes, and fewer than the {len(labeled):,} labels that there are"
            )
        others = np.delete(labeled, first)
        hidden[others[keep - len(classes) :]] = True
    elif share is not None:
        for number in range(len(classes)):
            rows = labeled[of == number]
            hidden[rows[: min(round(share * len(rows)), len(rows) - 1)]] = True
        if not hidden.any():
            raise BadData(
                f"--hold-out {share:g}: that is less than one label of each class, of "
                f"{len(labeled):,} labels in all"
            )
    return hidden
