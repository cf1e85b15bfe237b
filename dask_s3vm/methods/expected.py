"""What a fit by each method is expected to take, from fits that were measured.

Rounds were counted on eight real sets, text, web pages, census and dense ones (pcmac, text, a
sample of rcv1, w8a, a9a, digit1, g241c, bci), with default settings, and with 80 to 200 labels for
the methods that use unlabeled rows. Text is at the lower end, dense rows are at the upper.
"""

import math

#: Bytes per row that a method keeps beside the row itself: labels, costs, outputs, active rows. The
#: most that shards of text were seen to hold; the factor of S2RLSC is not counted.
STATE_BYTES = {
    "l2svm": 38,
    "tsvm": 50,
    "da": 60,
    "qn": 30,
    "rlsc": 9,
    "s2rlsc": 9,
    "star": 50,
    "qp": 74,
    "sqp": 50,
}

#: (fewest, most) rounds at lam = 1e-2 and at 1e-4; one pair where lam is no parameter.
_ROUNDS: dict[str, tuple[tuple[int, int], ...]] = {
    "l2svm": ((9, 157), (72, 966)),
    "tsvm": ((52, 511), (274, 3982)),
    "da": ((353, 2192), (1241, 11131)),
    "qn": ((35, 375), (142, 727)),
    "rlsc": ((4, 4),),
    "s2rlsc": ((6, 19),),
    "star": ((15, 135),),
    "qp": ((35, 417),),
    "sqp": ((29, 411),),
}


def expected_rounds(method: str, lam: float = 1e-3, n_problems: int = 1) -> tuple[int, int]:
    """Fewest and most rounds that a fit is expected to make.

    Parameters
    ----------
    method : a key of `STATE_BYTES`.
    lam : weight of the regularizer; between and beyond those measured, along a power of it.
    n_problems : how many problems are solved: one per class where these are more than two.
    """
    ranges = _ROUNDS[method]
    if len(ranges) == 1:
        low, high = ranges[0]
        return low * n_problems, high * n_problems
    place = (math.log10(1e-2) - math.log10(lam)) / 2  # 0 at 1e-2, 1 at 1e-4
    place = min(max(place, -0.5), 2.0)
    low, high = (
        round(loose ** (1 - place) * tight**place) for loose, tight in zip(*ranges, strict=True)
    )
    return max(low, 2) * n_problems, max(high, 2) * n_problems
