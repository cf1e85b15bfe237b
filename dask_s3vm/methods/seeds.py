"""Seeds: what a solve for one lam leaves for the next smaller one.

TSVM, DA and QN go from an easy problem, with one minimum, to the hard one. What a seed holds is a
place on the easy part of that way, where it depends on nothing but the rows and lam; the hard part,
in which labels are decided, is always gone anew. A model that was found with a seed is thus one
that the method could have found; it need not be the one that it finds alone.

TSVM   weights of the supervised SVM, from which the first labels come.
QN     weights of the first stage, without the unlabelled rows.
DA     weights at the last temperature at which nearly nothing was decided. Cooling begins there,
       and goes into less detail: what remains is done by the descent at the end, on the objective
       itself. On pairs of digits (lam from 1024 to 1/1024) this took a sixth of the time;
       objectives were equal for large lam and, as a rule, lower for small ones, for which cooling
       from w = 0 does not come to rest within the evaluations that it has.
"""

from typing import Any, NamedTuple

import numpy as np


class Seed(NamedTuple):
    """Weights (d + 1,) in internal order, and the temperature at which they were found (DA)."""

    temperature: float
    w: np.ndarray


#: The last seed of each binary problem, by its positive class.
Seeds = dict[int, Any]
