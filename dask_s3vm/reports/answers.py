"""Did it work? What the facts of a run say, in sentences.

Facts come from a file, in which anything may stand: what is not of the wanted kind is left out.
"""

import itertools
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any, NamedTuple

#: A share of predictions may be off the interval of the ratio by this much.
SLACK = 0.02

#: With more of the unlabeled rows inside the margin, the classes overlap.
MANY_INSIDE = 0.25


class Answer(NamedTuple):
    """A sentence, and whether it is good news; None if it is neither."""

    good: bool | None
    text: str


def answers(facts: Mapping[str, Any]) -> list[Answer]:
    """Return what can be said of a run that was carried out; nothing of one that failed."""
    ending = _dict(facts.get("exit"))
    if ending.get("code") != 0:
        return []
    fitted = _dict(_dict(facts.get("model")).get("fitted"))
    parts = (_of_errors(facts), _of_decision(fitted), _of_shares(facts, fitted), _of_margin(facts))
    found = [answer for part in parts for answer in part]
    termination = fitted.get("termination")
    if termination == "max_iter":
        text = "The solver stopped at max_iter, before it converged: increase max_iter or tol."
        found.append(Answer(False, text))
    elif isinstance(termination, str):
        found.append(Answer(True, f"The solver ended as it should ({termination})."))
    return found


def _of_errors(facts: Mapping[str, Any]) -> Iterator[Answer]:
    result = _dict(facts.get("result"))
    own, count = _number(result.get("hidden_error_%")), _number(result.get("hidden_rows"))
    alone = _number(_dict(facts.get("supervised")).get("hidden_error_%"))
    if own is None or not count:
        yield Answer(
            None,
            "No labels were held out, so that nothing measures the error: --hold-out 0.2 would.",
        )
        return
    # so much may be chance: two standard errors of the difference, at most
    chance = 200.0 * (max(own, alone or 0.0, 1.0) / 100.0 / count) ** 0.5
    text = f"On {count:,.0f} labels that were held out, the error is {own:.2f} %"
    if alone is None:
        yield Answer(None, f"{text}.")
        return
    text += f"; that of the supervised SVM on the same labels is {alone:.2f} %"
    if abs(own - alone) <= chance:
        yield Answer(None, f"{text}. The difference may be chance.")
    elif own < alone:
        yield Answer(True, f"{text}. The unlabeled rows helped.")
    else:
        yield Answer(
            False, f"{text}. The unlabeled rows harmed: use S3VM or safe=True, or check the ratio."
        )


def _of_decision(fitted: Mapping[str, Any]) -> Iterator[Answer]:
    decision, reason = fitted.get("decision"), fitted.get("decision_reason")
    if isinstance(decision, str) and isinstance(reason, str) and "Nothing was" not in reason:
        yield Answer(None, f"The guard decided for the model {decision!r}. {reason}")


def _of_shares(facts: Mapping[str, Any], fitted: Mapping[str, Any]) -> Iterator[Answer]:
    shares = facts.get("shares")
    rows = [_dict(row) for row in shares] if isinstance(shares, list) else []
    intervals = fitted.get("positive_ratio_interval")
    if len(rows) != 2 or not isinstance(intervals, list) or len(intervals) != 2:
        return
    low, high = (_number(end) for end in intervals)
    found = _number(rows[1].get("predicted"))
    if low is None or high is None or found is None:
        return
    agrees = low - SLACK <= found <= high + SLACK
    text = (
        f"{100 * found:.1f} % of the unlabeled rows are predicted to be of class "
        f"{rows[1].get('class')}, where {100 * low:.1f} % to {100 * high:.1f} % are expected"
    )
    yield Answer(agrees, f"{text}." if agrees else f"{text}: the fit may have collapsed.")


def _of_margin(facts: Mapping[str, Any]) -> Iterator[Answer]:
    outputs = _dict(facts.get("outputs"))
    edges, counts = _list(outputs.get("edges")), _list(outputs.get("unlabeled"))
    if len(edges) != len(counts) + 1:
        return
    if any(_number(one) is None for one in (*edges, *counts)):
        return
    middles = [0.5 * (a + b) for a, b in itertools.pairwise(edges)]
    total = sum(counts)
    if len(_list(facts.get("shares"))) != 2 or not total:
        return
    inside = sum(n for n, at in zip(counts, middles, strict=True) if -1 < at < 1) / total
    if inside <= MANY_INSIDE:
        yield Answer(
            True,
            f"{100 * inside:.0f} % of the unlabeled rows lie inside the margin: there is a gap "
            "between the classes, which is what the method looks for.",
        )
    else:
        yield Answer(
            None,
            f"{100 * inside:.0f} % of the unlabeled rows lie inside the margin: the classes "
            "overlap, and unlabeled rows may be of little use.",
        )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return float(value) if is_number else None
