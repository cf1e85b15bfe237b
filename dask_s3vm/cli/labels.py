"""`--labels`: labels that do not stand beside the rows."""

from collections.abc import Callable, Mapping
from typing import Any

import click
import numpy as np

from dask_s3vm.cli.errors import BadData
from dask_s3vm.cli.kinds import COLUMN
from dask_s3vm.cli.methods import mark_of
from dask_s3vm.io.label_files import read_labels

#: What SVMlin writes: a class, a class, and the mark of a row without a label.
_SVMLIN = (-1, 0, 1)


def column_of(labels: str | None) -> str | None:
    """Name of the column that `--labels column:NAME` asks for, or None."""
    return labels[len(COLUMN) :] if labels is not None and labels.startswith(COLUMN) else None


def check_options(chosen: Mapping[str, Any]) -> None:
    """Refuse options about labels that say the same thing twice, or in vain."""
    labels = chosen["labels"]
    if labels is None:
        return
    if chosen["label_column"] is not None:
        raise click.UsageError("--labels and --label-column both say where the labels are")
    if column_of(labels) is not None:
        return
    for name in ("positive", "label_rows"):
        if chosen[name]:
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} has no effect on labels of a file of their own")


def separate_labels(
    labels: str, unlabeled: str | None, say: Callable[[str], None]
) -> tuple[np.ndarray, Any]:
    """Read a file of labels; returns them and the mark of rows without one.

    The mark is that of `--unlabeled`. If that is not given it is -1 for an .npy file, as everywhere
    in this package, and for text, as SVMlin has it, 0. That would be a wrong guess if 0 were a
    class among others, so labels beyond -1, 0 and +1 then want `--unlabeled`.
    """
    found = read_labels(labels)
    if unlabeled is not None:
        return found, mark_of(unlabeled)
    if labels.lower().endswith(".npy"):
        return found, -1
    values = np.unique(found)
    if found.dtype.kind == "U":
        raise BadData(
            f"{labels} has labels that are words ({_some(values)}): say by --unlabeled which one "
            "marks rows without a label, or `none`"
        )
    if not set(values.tolist()) <= set(_SVMLIN):
        raise BadData(
            f"{labels} has labels beyond -1, 0 (unlabeled) and +1 ({_some(values)}): say by "
            "--unlabeled which one marks rows without a label, or `none`"
        )
    count = int(np.count_nonzero(found == 0))
    say(f"{labels}: {count:,} of {len(found):,} rows are 0, unlabeled (--unlabeled changes that)")
    return found, 0


def check_length(labels: np.ndarray, rows: float, name: str) -> None:
    """Refuse labels that are not as many as the rows, where that number is known already."""
    if not np.isnan(rows) and len(labels) != rows:
        raise BadData(f"{name} has {len(labels):,} labels, but there are {int(rows):,} rows")


def _some(values: np.ndarray) -> str:
    shown = ", ".join(str(value) for value in values[:6].tolist())
    return shown + (", ..." if len(values) > 6 else "")
