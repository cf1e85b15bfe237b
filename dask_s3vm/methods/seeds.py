"""Seeds: what a solve for one lam leaves for the next smaller one.

TSVM, DA and QN go from an easy problem, with one minimum, to the hard one. What a seed holds is a
place on the easy part of that way, where it depends on nothing but the rows and lam; the hard part,
in which labels are decided, is always gone anew. A model that was found with a seed is thus one
that the method could have found; it need not be the one that it finds alone.

TSVM    weights of the supervised SVM, from which the first labels come.
QN      weights of the first stage, without the unlabeled rows.
DA      weights at the last temperature at which nearly nothing was decided. Cooling begins there,
        and goes into less detail: what remains is done by the descent at the end, on the objective
        itself.
S2RLSC  labels that the restart of the same number has found, from which it goes on (`restarts`).

On two pairs of digits (500 rows, 50 labels, lam from 1024 down to 1/1024 in steps of 4, for DA from
256 to 1/256, and lam_unlabeled 0.01, 1 and 100) the geometric mean of the ratio of objectives, with
seeds over without, was 0.88 and 0.84 for S2RLSC, 0.90 twice for DA, 1.00 and 0.99 for TSVM, 1.00
twice for QN. Single ratios went up to 1.15 (DA) and down to 0.44 (S2RLSC with a small lam, where
random starts fail).
"""

from typing import Any, NamedTuple

import numpy as np


class Seed(NamedTuple):
    """Weights (d + 1,) in internal order, and the temperature at which they were found (DA)."""

    temperature: float
    w: np.ndarray


#: The last seed of each binary problem, by its positive class.
Seeds = dict[int, Any]
