"""Models on folds of the labeled rows: what the guard, the blend and probabilities ask.

Folds are trained in this process, on all labeled rows and a sample of the unlabeled ones; see
`methods.safe`.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from dask_s3vm import _config
from dask_s3vm.engine.blocks import make_block
from dask_s3vm.engine.lanes import run_together
from dask_s3vm.engine.local import LocalEngine
from dask_s3vm.engine.protocol import Engine
from dask_s3vm.engine.shard import hold_out
from dask_s3vm.engine.sources import Columns, LocalSource
from dask_s3vm.estimators._base import fit_path
from dask_s3vm.estimators._fit_rows import FitRows
from dask_s3vm.estimators._rows import PlacedRows
from dask_s3vm.exceptions import quiet
from dask_s3vm.features.landmarks import take_rows
from dask_s3vm.methods.run import Record
from dask_s3vm.methods.safe import (
    SUPERVISED,
    Candidate,
    FoldTrials,
    Sample,
    compare,
    mistakes_of,
)
from dask_s3vm.methods.unseen import Mistakes
from dask_s3vm.problems.folds import assign_folds, content_keys

#: Trials stop at this gap, or restart so often: they need labels of rows, not digits of weights.
TRIAL_TOL = 1e-3
TRIAL_RESTARTS = 5


class Compared(NamedTuple):
    """What folds said.

    candidates : the supervised model first, then the others.
    mistakes : of each of them on the rows held out; for two classes.
    n_labeled, n_repeats : labeled rows, and how often they were divided.
    n_tested : those that were held out.
    """

    candidates: list[Candidate]
    mistakes: list[Mistakes]
    n_labeled: int
    n_repeats: int
    n_tested: int


def compare_on_folds(
    models: Mapping[str, Any],
    rows: FitRows,
    sample: Sample,
    record: Record,
    supervised: Any = None,
    once: bool = False,
) -> Compared:
    """Train models on folds of the labeled rows, and compare them on the rows held out.

    Parameters
    ----------
    models : the semi-supervised candidates, by name.
    rows : all rows.
    sample : those to train on.
    record : holds the states of the folds.
    supervised : the supervised one; None for the first of the others, without unlabeled rows.
    once : whether the rows are divided once, however few they are, and only as many folds are asked
        as tell which candidate is better.

    Costs: a fit of each model for each fold, in this process.
    """
    with Trial(list(models.values()), rows, sample, supervised) as trial:
        folds = assign_folds(trial.codes, trial.keys)[: 1 if once else None]
        method = FoldTrials(folds, 1 + len(models), trial.margins, trial.at_once, until_clear=once)
        trials = record.run("folds", method)
    costs = rows.costs[trial.codes] * sample.weights[sample.codes >= 0]
    tested = np.ones(len(costs), dtype=bool) if trials.tested is None else trials.tested
    return Compared(
        compare([SUPERVISED, *models], trials),
        mistakes_of(trials, trial.codes[tested], costs[tested]),
        len(trial.codes),
        trials.n_repeats,
        int(np.count_nonzero(tested)),
    )


class Trial:
    """Trains candidates on a sample of the rows, in this process.

    Parameters
    ----------
    models : the semi-supervised candidates.
    rows : all rows.
    sample : those to train on.
    supervised : the supervised one; None for the first of the others, without unlabeled rows.

    Attributes
    ----------
    codes : class numbers of the labeled rows of the sample.
    keys : what tells these rows apart, in whatever order they come.
    at_once : folds to train at the same time, each in a thread; one where there are as many classes
        as threads.
    """

    def __init__(
        self, models: Sequence[Any], rows: FitRows, sample: Sample, supervised: Any = None
    ) -> None:
        self._models = [_hasty(model, _shares(rows)) for model in models]
        self._alone = self._models[0] if supervised is None else _hasty(supervised, None)
        self._classes = rows.classes
        self._labeled = np.flatnonzero(sample.codes >= 0)
        self.codes = sample.codes[self._labeled].astype(np.int64)
        threads = _config.local_threads()
        self.at_once = 1 if len(rows.positives) >= threads else threads
        X = sample.matrix()
        exact = None if rows.exact_rows is None else take_rows(rows.exact_rows, sample.numbers)
        everything = np.arange(len(sample.codes))
        self._all = _place(X, exact, sample, everything, rows.classes)
        self._few = _place(X, exact, sample, self._labeled, rows.classes)
        self._X = X if exact is None else exact
        self.keys = content_keys(
            self._X[self._labeled],
            rows.engine.layout.order if exact is None else None,
            sample.weights[self._labeled],
        )

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *error: Any) -> None:
        self._all.engine.close()
        self._few.engine.close()

    def margins(self, outs: list[np.ndarray]) -> list[np.ndarray]:
        """Margins of labeled rows by models of the other rows, (candidates, held out).

        outs : masks of the labeled rows that are held out, one for each fold.
        """
        return run_together(self._all.engine, [partial(self._margins_of, out) for out in outs])

    def _margins_of(self, out: np.ndarray, engine: Engine) -> np.ndarray:
        """Margins of the labeled rows `out`; the engine has all rows."""
        held = np.flatnonzero(out)
        present = np.unique(self.codes[~out])
        if len(present) < 2:
            right = np.where(self.codes[held] == present[0], 1.0, -1.0)
            return np.broadcast_to(right, (1 + len(self._models), len(held)))
        everything, labeled = replace(self._all, engine=engine), self._few.engine
        assert isinstance(labeled, LocalEngine), "samples are in this process"
        with closing(labeled.shared_rows().engine(_config.local_threads())) as few:
            models = [self._fitted(self._alone, replace(self._few, engine=few), held)]
        models += [self._fitted(one, everything, self._labeled[held]) for one in self._models]
        test = self._X[self._labeled[held]]
        return np.stack([_margins(one.decision_function(test), self.codes[held]) for one in models])

    def outputs(self, out: np.ndarray, alone: bool) -> np.ndarray:
        """Outputs of the labeled rows `out`, by the first model of the other rows.

        alone : whether it is the supervised model, without the unlabeled rows.
        """
        held = np.flatnonzero(out)
        rows, own = (self._few, held) if alone else (self._all, self._labeled[held])
        model = self._fitted(self._models[0], rows, own)
        return model.decision_function(self._X[self._labeled[held]])

    def _fitted(self, model: Any, rows: PlacedRows, out: np.ndarray) -> Any:
        rows.engine.forget()
        rows.engine.each(hold_out, out)
        model = clone(model)
        with quiet():
            fit_path([model], rows, None)
        return model


def _shares(rows: FitRows) -> Any:
    """The shares of the classes, as users would give them."""
    values = [one.value for one in rows.ratios]
    if not values:
        return None
    if len(values) == 1:
        return values[0]
    return dict(zip(rows.classes.tolist(), values, strict=True))


def _hasty(model: Any, ratio: Any) -> Any:
    """The same model for trials: silent, with the ratio given, and not to the last digit."""
    wanted = {
        "callbacks": None, "verbose": False, "checkpoint": None, "warm_start": False,
        "positive_ratio": ratio, "probability": False,
    }  # fmt: skip
    if not model.facts.supervised:  # no folds of folds
        wanted["safe"] = False
    known = model.get_params(deep=False)
    if "tol" in known:
        wanted["tol"] = max(known["tol"], TRIAL_TOL)
    if "n_restarts" in known:
        wanted["n_restarts"] = min(known["n_restarts"], TRIAL_RESTARTS)
    return clone(model).set_params(**{k: v for k, v in wanted.items() if k in known})


def _place(
    X: Any, exact: Any, sample: Sample, chosen: np.ndarray, classes: np.ndarray
) -> PlacedRows:
    """Place some rows of a sample in this process."""
    codes, weights = sample.codes[chosen], sample.weights[chosen]
    block = make_block(X[chosen], codes, None if (weights == 1.0).all() else weights)
    source = LocalSource([block], Columns(None, None), own=True)
    # many classes have a thread each: a shard less is a vector less in every round
    engine = source.place(np.arange(len(classes)), whole=len(classes) > 2)
    rows = None if exact is None else exact[chosen]
    n_features = X.shape[1] if exact is None else exact.shape[1]
    return PlacedRows(engine, classes, n_features, None, None, (len(chosen),), rows)


def _margins(outputs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Output of each row's own class over that of the best other one."""
    if outputs.ndim == 1:
        return np.where(codes == 1, outputs, -outputs)
    rows = np.arange(len(codes))
    others = outputs.copy()
    others[rows, codes] = -np.inf
    return outputs[rows, codes] - others.max(axis=1)
