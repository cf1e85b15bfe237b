"""The share of positive rows among the unlabelled ones."""

from dask_s3vm.estimators._base import Placed


def positive_ratios(rows: Placed, given: float | None) -> list[float]:
    """Share for each binary problem: the one given, or that of the labelled rows."""
    if given is None:
        share = rows.totals.weights / rows.totals.weights.sum()
        return [float(share[positive]) for positive in rows.positives]
    if len(rows.classes) > 2:
        raise ValueError(
            f"positive_ratio={given} is for two classes, y has {len(rows.classes)}; leave it "
            "None to take the shares of the labelled rows"
        )
    return [float(given)]
