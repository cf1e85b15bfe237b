"""Whether unlabeled rows helped: folds of the labeled rows, compared row by row.

No method can promise to be at least as good as the labels alone for every labeling of the other
rows, if its loss decreases in the margin (Krijthe & Loog, The pessimistic limits and possibilities
of margin-based losses in semi-supervised learning). What can be done is to ask the labels: models
are trained on folds, with and without the unlabeled rows, and are tested on the same held-out rows.

Folds see all labeled rows and a sample of the unlabeled ones, in this process: what a fold costs
does not grow with the data.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import ClassTotals
from dask_s3vm.methods.run import Method
from dask_s3vm.problems.sample import Sample, draw_sample

#: Most labeled and most unlabeled rows that folds are made of.
MOST_LABELED = 5_000
MOST_UNLABELED = 10_000

N_FOLDS = 5

#: Folds are drawn again until so many predictions of held-out rows were made, but not more often.
LEAST_TESTED = 300
MOST_REPEATS = 4

#: Labeled rows that a candidate must put right beyond those that it puts wrong.
LEAST_GAIN = 1.0


def sample_for_folds(engine: Engine, totals: ClassTotals) -> Sample:
    """Draw the rows that folds are made of. Costs: see `draw_sample`."""
    labeled = min(1.0, MOST_LABELED / int(totals.counts.sum()))
    unlabeled = min(1.0, MOST_UNLABELED / max(totals.n_unlabeled, 1))
    return draw_sample(engine, labeled, unlabeled)


# Folds --------------------------------------------------------------------------------------------


def assign_folds(codes: np.ndarray) -> np.ndarray:
    """Number the folds of labeled rows: (repeats, l), stratified, the same every time.

    Few labels are divided several times: one division alone would decide by chance.
    """
    repeats = int(np.clip(np.ceil(LEAST_TESTED / len(codes)), 1, MOST_REPEATS))
    found = np.empty((repeats, len(codes)), dtype=np.int8)
    rng = np.random.default_rng(0)
    for folds in found:
        first = 0
        for code in np.unique(codes):
            own = rng.permutation(np.flatnonzero(codes == code))
            # classes go on where the last one ended: folds differ by one row at most
            folds[own] = (first + np.arange(len(own))) % N_FOLDS
            first += len(own)
    return found


@dataclass(frozen=True)
class Trials:
    """Which held-out rows each candidate puts into a wrong class.

    wrong : (candidates, repeats, l) 1 where it does.
    n_done, n_folds : folds done, of all repeats, and how many there are.
    """

    wrong: np.ndarray
    n_done: int
    n_folds: int

    @property
    def done(self) -> bool:
        """Whether all folds are done."""
        return self.n_done >= self.n_folds


class FoldTrials(Method[Trials, Trials]):
    """Trains all candidates on one fold after the other.

    Parameters
    ----------
    codes : class numbers of the labeled rows.
    folds : their folds, see `assign_folds`.
    n_candidates : number of candidates.
    predict : (mask of the labeled rows that are held out) -> (candidates, held out) class numbers.
    """

    State = Trials
    Result = Trials

    def __init__(
        self,
        codes: np.ndarray,
        folds: np.ndarray,
        n_candidates: int,
        predict: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self._codes = codes
        self._folds = folds
        self._n_candidates = n_candidates
        self._predict = predict

    def start(self) -> Trials:
        """No fold is done."""
        wrong = np.zeros((self._n_candidates, *self._folds.shape), dtype=np.uint8)
        return Trials(wrong, 0, len(self._folds) * N_FOLDS)

    def advance(self, state: Trials) -> Trials:
        """Train on all folds but one, and test on that one."""
        repeat, fold = divmod(state.n_done, N_FOLDS)
        out = self._folds[repeat] == fold
        wrong = state.wrong.copy()
        if out.any():
            wrong[:, repeat, out] = self._predict(out) != self._codes[out]
        return Trials(wrong, state.n_done + 1, state.n_folds)

    def finish(self, state: Trials) -> Trials:
        """Return what was found."""
        return state

    def progress(self, state: Trials) -> tuple[str, float | None]:
        """Folds take about the same time."""
        return f"fold {state.n_done + 1} of {state.n_folds}", state.n_done / state.n_folds


# The decision -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """A candidate against the supervised model, on held-out rows.

    fold_error : share of wrong predictions.
    fixed, broken : rows that it puts right and wrong where the supervised model does not; means
        over the repeats.
    p_value : of the sign test: chance of so many fixed among those that differ, were it no better
        than the supervised model.
    """

    name: str
    fold_error: float
    fixed: float
    broken: float
    p_value: float

    @property
    def net(self) -> float:
        """Rows that it gains."""
        return self.fixed - self.broken


def compare(names: Sequence[str], trials: Trials) -> list[Candidate]:
    """Compare all candidates with the first one, row by row."""
    wrong = trials.wrong.astype(bool)
    first = wrong[0]
    repeats = len(first)
    found = []
    for name, own in zip(names, wrong, strict=True):
        fixed = float(np.count_nonzero(first & ~own) / repeats)
        broken = float(np.count_nonzero(~first & own) / repeats)
        found.append(Candidate(name, float(own.mean()), fixed, broken, _sign_test(fixed, broken)))
    return found


def _sign_test(fixed: float, broken: float) -> float:
    """P(at least `fixed` of `fixed` + `broken` fair coins show heads), for whole numbers."""
    k, n = round(fixed), round(fixed) + round(broken)
    return sum(math.comb(n, i) for i in range(k, n + 1)) / 2**n


def choose(candidates: Sequence[Candidate]) -> int:
    """Number of the candidate to keep: the one that gains most, if it gains a row; else the first.

    Rows of the test are those of few labels: a candidate that gains none of them has nothing to
    show for itself, and the labels alone are what it could harm. Of equal gains, the first counts.
    """
    gains = [one.net for one in candidates]
    best = int(np.argmax(gains))
    return best if gains[best] >= LEAST_GAIN else 0
