"""`cv_results_`: scores of all candidates, in the form of scikit-learn."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.stats import rankdata

from dask_s3vm.model_selection._pieces import Score

#: Means that agree to so many digits are equal: sums of the same scores in another order.
DIGITS = 12


def results_table(
    candidates: list[dict[str, Any]], n_splits: int, scores: Iterable[Score], names: list[str]
) -> dict[str, Any]:
    """Put scores into columns, one entry for each candidate.

    Parameters
    ----------
    candidates : parameters of each candidate.
    n_splits : number of splits.
    scores : one for each candidate and split.
    names : of the scores.
    """
    shape = (len(candidates), n_splits)
    fit_time, score_time = np.full(shape, np.nan), np.full(shape, np.nan)
    test = {name: np.full(shape, np.nan) for name in names}
    train: dict[str, np.ndarray] = {}
    for score in scores:
        place = score.candidate, score.fold
        fit_time[place], score_time[place] = score.fit_time, score.score_time
        for name, value in score.test.items():
            test[name][place] = value
        for name, value in score.train.items():
            train.setdefault(name, np.full(shape, np.nan))[place] = value
    table: dict[str, Any] = {}
    for name, seconds in (("fit_time", fit_time), ("score_time", score_time)):
        table[f"mean_{name}"], table[f"std_{name}"] = seconds.mean(axis=1), seconds.std(axis=1)
    table |= _parameters(candidates)
    for name, values in test.items():
        table |= _columns(f"test_{name}", values)
        table[f"rank_test_{name}"] = ranks(table[f"mean_test_{name}"])
    for name, values in train.items():
        table |= _columns(f"train_{name}", values)
    return table


def ranks(means: np.ndarray) -> np.ndarray:
    """Ranks of mean scores, 1 for the best; equal ones share a rank, failed ones are last."""
    low = np.nanmin(means) - 1.0 if np.isfinite(means).any() else 0.0
    rounded = np.round(np.where(np.isnan(means), low, means), DIGITS)
    return rankdata(-rounded, method="min").astype(np.int32)


def _columns(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    columns = {f"split{number}_{name}": column.copy() for number, column in enumerate(values.T)}
    return columns | {f"mean_{name}": values.mean(axis=1), f"std_{name}": values.std(axis=1)}


def _parameters(candidates: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns of the parameters, masked where a candidate does not set one."""
    columns: dict[str, Any] = {}
    for name in sorted({name for params in candidates for name in params}):
        values = np.empty(len(candidates), dtype=object)
        mask = np.array([name not in params for params in candidates])
        for number, params in enumerate(candidates):
            values[number] = params.get(name)
        columns[f"param_{name}"] = np.ma.MaskedArray(values, mask=mask)
    return columns | {"params": candidates}
