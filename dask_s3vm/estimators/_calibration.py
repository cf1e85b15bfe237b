"""Probabilities of a fitted model: the outputs of labeled rows that its folds have not seen.

As the guard does, folds see all labeled rows and a sample of the unlabeled ones, in this process.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dask_s3vm.estimators._base import FitRows
from dask_s3vm.estimators._rows import check_for_folds
from dask_s3vm.estimators._trials import Trial
from dask_s3vm.methods.calibration import OutputsOfFolds, calibrate_all
from dask_s3vm.methods.run import RecordPart
from dask_s3vm.methods.safe import sample_for_folds
from dask_s3vm.problems.folds import assign_folds


def find_calibration(model: Any, rows: FitRows, solved: Sequence[Any], name: str) -> np.ndarray:
    """Slope and level of the probabilities of each binary problem, (k, 2).

    Parameters
    ----------
    model : the estimator, after its training.
    rows : what it was trained on.
    solved : its binary problems. Where their biases were moved to predict few rows of a rare class,
        as those of the folds are not, probabilities stay.
    name : of its states in the record.

    Costs: 1 round, and fits on a sample; see `methods.safe.sample_for_folds`.
    """
    sample = sample_for_folds(rows.engine, rows.totals)
    labeled = sample.codes >= 0
    check_for_folds(rows.classes, np.bincount(sample.codes[labeled], minlength=len(rows.classes)))
    with Trial([model._trial()], rows, sample) as trial:
        folds = assign_folds(trial.codes, trial.keys)[0]
        n_problems, alone = len(rows.positives), not model._uses_unlabeled(rows)

        def outputs_without(out: np.ndarray) -> np.ndarray:
            return trial.outputs(out, alone).reshape(-1, n_problems)

        record = RecordPart(rows.record, name)
        found = record.run("outputs", OutputsOfFolds(folds, n_problems, outputs_without))
    ratio = rows.ratios[0].value if rows.ratios else None
    calibration = calibrate_all(
        trial.codes, found.outputs, sample.weights[labeled], rows.positives, ratio
    )
    if rows.ratios:
        calibration[:, 1] -= calibration[:, 0] * [one.moved for one in solved]
    return calibration
