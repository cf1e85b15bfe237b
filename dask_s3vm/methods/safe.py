"""Whether unlabeled rows helped: folds of the labeled rows, compared row by row.

No method can promise to be at least as good as the labels alone for every labeling of the other
rows, if its loss decreases in the margin (Krijthe & Loog, The pessimistic limits and possibilities
of margin-based losses in semi-supervised learning). What can be done is to ask the labels: models
are trained on folds, with and without the unlabeled rows, and are tested on the same held-out rows.

Labels are few, so that whole rows are a coarse measure. A held-out row counts by its margin m, the
output of its own class over that of the best other one, in units of the model's own margins:

    c(m) = 0 .. 1, rising linearly for m from -h to h,    h = WIDTH (mean m^2)^(1/2)

A row far from the boundary counts as right or wrong, one near to it as partly both. The gain of a
candidate is the sum of c over the labeled rows, less that of the supervised model. Margins of both
have distributions of their own, so that a candidate may gain by the rows that are right anyway. It
is not kept if it puts more rows wrong than right.

Where few labels leave it open who is right, what could be lost is bounded. Of the rows whose
predictions a candidate changes, a share q become right, and the others wrong: a share c of changed
predictions loses c (1 - 2q). Held-out rows that it puts right and wrong tell q, of which any value
is as likely beforehand, and q is more than its quantile of DOUBT with a chance of 1 - DOUBT. So

    c (1 - 2q) <= MOST_LOSS

bounds c. Nothing is bounded where q is more than 1/2.

Folds see all labeled rows and a sample of the unlabeled ones, in this process: what a fold costs
does not grow with the data.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from dask_s3vm.engine.protocol import Engine
from dask_s3vm.methods.base import ClassTotals
from dask_s3vm.methods.run import Method
from dask_s3vm.methods.unseen import CLEAR_GAIN, LEAST_GAIN, OPEN, Mistakes
from dask_s3vm.problems.folds import LEAST_TESTED, N_FOLDS
from dask_s3vm.problems.sample import Sample, draw_sample

#: Most labeled and most unlabeled rows that folds are made of.
MOST_LABELED = 5_000
MOST_UNLABELED = 10_000

#: Half width of the range of margins in which a row counts partly.
WIDTH = 0.75

#: Keeps margins that are all zero from being divided by it.
TINY = 1e-300

#: Chance of a sign test below which folds speak clearly.
CLEAR = 0.05

#: The same for a look after a fold that is not the last: trials end there if it is clear. With the
#: last look, at CLEAR, the chance of a wrong answer is 9 % at most.
CLEAR_EARLY = CLEAR / N_FOLDS

#: Share of the rows that may become wrong, and the chance that it is more nevertheless.
MOST_LOSS = 0.03
DOUBT = 0.1

#: Name of the model that the labels alone give.
SUPERVISED = "supervised"


def sample_for_folds(engine: Engine, totals: ClassTotals) -> Sample:
    """Draw the rows that folds are made of. Costs: see `draw_sample`."""
    labeled = min(1.0, MOST_LABELED / int(totals.counts.sum()))
    unlabeled = min(1.0, MOST_UNLABELED / max(totals.n_unlabeled, 1))
    return draw_sample(engine, labeled, unlabeled)


# Folds --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trials:
    """Margins of held-out rows.

    margins : (candidates, repeats, l) output of a row's own class over that of the best other one.
    n_done : folds done, of all repeats.
    tested : mask of the rows that were held out, where a few folds were clear; else None.
    """

    margins: np.ndarray
    n_done: int
    tested: np.ndarray | None = None

    @property
    def done(self) -> bool:
        """Whether all repeats are done, or those done leave nothing open."""
        if self.tested is not None:
            return True
        if self.n_done == 0 or self.n_done % N_FOLDS:
            return False
        is_open = abs(float(self.gains[1:].max()) - LEAST_GAIN) < OPEN
        return self.n_repeats == self.margins.shape[1] or not is_open

    @property
    def n_repeats(self) -> int:
        """Repeats done, or ended."""
        return self.n_done // N_FOLDS if self.tested is None else 1

    @property
    def held_out(self) -> np.ndarray:
        """Margins of the rows held out, (candidates, repeats done, rows)."""
        margins = self.margins[:, : self.n_repeats]
        return margins if self.tested is None else margins[:, :, self.tested]

    @property
    def gains(self) -> np.ndarray:
        """Rows that each candidate gains over the first one, a mean over the repeats."""
        margins = self.held_out
        half = WIDTH * np.sqrt(np.square(margins).mean(axis=2, keepdims=True))
        counts = np.clip(0.5 + 0.5 * margins / np.maximum(half, TINY), 0.0, 1.0).sum(axis=2)
        return (counts - counts[0]).mean(axis=1)


class FoldTrials(Method[Trials, Trials]):
    """Trains all candidates on one fold after the other, or on several at once.

    Parameters
    ----------
    folds : folds of the labeled rows, see `problems.folds`.
    n_candidates : number of candidates.
    margins_of : (masks of the labeled rows that are held out, one for each fold) -> for each of
        these, (candidates, held out) margins.
    at_once : folds of a turn.
    until_clear : whether no more folds are asked once these tell which candidate is better. How
        many are asked does not depend on `at_once`.
    """

    State = Trials
    Result = Trials

    def __init__(
        self,
        folds: np.ndarray,
        n_candidates: int,
        margins_of: Callable[[list[np.ndarray]], Sequence[np.ndarray]],
        at_once: int = 1,
        until_clear: bool = False,
    ) -> None:
        self._folds = folds
        self._n_candidates = n_candidates
        self._margins_of = margins_of
        self._at_once = at_once
        self._until_clear = until_clear

    def start(self) -> Trials:
        """No fold is done."""
        return Trials(np.zeros((self._n_candidates, *self._folds.shape)), 0)

    def advance(self, state: Trials) -> Trials:
        """Train on all folds but one, and test on that one; of as many folds as a turn has."""
        repeat, first = divmod(state.n_done, N_FOLDS)
        stop = min(first + self._at_once, N_FOLDS)
        masks = [self._folds[repeat] == fold for fold in range(first, stop)]
        outs = [out for out in masks if out.any()]
        margins = state.margins.copy()
        for out, found in zip(outs, self._margins_of(outs), strict=True):
            margins[:, repeat, out] = found
        if self._until_clear and repeat == 0:
            for n_done in range(first + 1, min(stop, N_FOLDS - 1) + 1):
                early = Trials(margins, n_done, self._folds[0] < n_done)
                others = compare([""] * self._n_candidates, early)[1:]
                if all(_clear_part(one, CLEAR_EARLY) is not None for one in others):
                    return early
        return Trials(margins, state.n_done + len(masks))

    def finish(self, state: Trials) -> Trials:
        """Return what was found."""
        return state

    def progress(self, state: Trials) -> tuple[str, float | None]:
        """Folds take about the same time; how many there will be is open."""
        return f"fold {state.n_done + 1} of at most {N_FOLDS * len(self._folds)}", None


# The decision -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """A candidate against the supervised model, on held-out rows.

    fold_error : share of wrong predictions.
    gain : rows that it gains, counted by their margins; a mean over the repeats.
    fixed, broken : rows that it puts right and wrong where the supervised model does not; means
        over the repeats.
    p_value : of the sign test: chance of so many fixed among those that differ, were it no better
        than the supervised model.
    """

    name: str
    fold_error: float
    gain: float
    fixed: float
    broken: float
    p_value: float


def compare(names: Sequence[str], trials: Trials) -> list[Candidate]:
    """Compare all candidates with the first one, row by row."""
    repeats = trials.n_repeats
    right = trials.held_out > 0.0
    found = []
    for name, own, gain in zip(names, right, trials.gains, strict=True):
        fixed = float(np.count_nonzero(own & ~right[0]) / repeats)
        broken = float(np.count_nonzero(right[0] & ~own) / repeats)
        error, p_value = float(1.0 - own.mean()), _sign_test(fixed, broken)
        found.append(Candidate(name, error, float(gain), fixed, broken, p_value))
    return found


def mistakes_of(trials: Trials, codes: np.ndarray, costs: np.ndarray) -> list[Mistakes]:
    """Mistakes of each candidate on the rows held out, of two classes; means over the repeats.

    codes, costs : class numbers of these rows, and what a mistake costs.
    """
    wrong = (trials.held_out <= 0.0).mean(axis=1)
    positive, negative = (float(np.add.reduce(costs[codes == code])) for code in (1, 0))
    return [
        Mistakes(float(np.add.reduce(costs * own)), positive, negative, len(codes)) for own in wrong
    ]


def _sign_test(fixed: float, broken: float) -> float:
    """P(at least `fixed` of `fixed` + `broken` fair coins show heads), for whole numbers."""
    k, n = round(fixed), round(fixed) + round(broken)
    return sum(math.comb(n, i) for i in range(k, n + 1)) / 2**n


def _clear_part(candidate: Candidate, chance: float) -> float | None:
    """0 where a candidate is better by a sign test at this chance, 1 where it is worse; or None."""
    if candidate.p_value <= chance:
        return 0.0
    return 1.0 if _sign_test(candidate.broken, candidate.fixed) <= chance else None


def choose(candidates: Sequence[Candidate]) -> int:
    """Number of the candidate to keep: the one that gains most, if that is clear; else the first.

    Those that put more rows wrong than right are left out. A gain that is still open after all
    repeats is not enough.

    Rows of the test are those of few labels: a candidate that gains none of them has nothing to
    show for itself, and the labels alone are what it could harm. Of equal gains, the first counts.
    """
    gains = [one.gain if one.fixed >= one.broken else 0.0 for one in candidates]
    best = int(np.argmax(gains))
    return best if gains[best] >= CLEAR_GAIN else 0


def part_of_folds(candidate: Candidate, n_labeled: int) -> float | None:
    """Part of the supervised model beside a candidate that folds ask for; None if that is open.

    0 or 1 where one of both is clearly better. Whole rows count here: margins of methods that
    differ in their losses do not compare. Few labels are seldom clear, and a candidate may be far
    off: there 1 also where it loses as much as `choose` would have it gain.
    """
    part = _clear_part(candidate, CLEAR)
    loses = n_labeled < LEAST_TESTED and candidate.gain <= -LEAST_GAIN
    return 1.0 if part is None and loses else part


def change_allowed(candidate: Candidate) -> float:
    """Share of the predictions that may change on behalf of a candidate; see the module."""
    right = float(betaincinv(candidate.fixed + 1.0, candidate.broken + 1.0, DOUBT))
    return min(MOST_LOSS / (1.0 - 2.0 * right), 1.0) if right < 0.5 else 1.0
