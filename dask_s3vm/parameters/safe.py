"""Parameters of the guard of semi-supervised estimators, and of the estimator that chooses."""

from typing import Any

from dask_s3vm.parameters.fields import fitted, parameter, parametrized


@parametrized
class GuardAttributes:
    """What a guarded fit decided, and why."""

    decision_: str = fitted(
        "str",
        'The name of the model that was kept: that of the method, or "supervised" where the '
        "labeled rows alone did better.",
    )
    decision_reason_: str = fitted("str", "Why, in one sentence.")
    candidates_: list[dict[str, Any]] = fitted(
        "list of dict",
        "What was compared, the supervised model first. `name`; `fold_error`: share of the labeled "
        "rows that models of the other folds put into a wrong class; `gain`: labeled rows that it "
        "gains over the supervised model, counted by their margins; `fixed` and `broken`: labeled "
        "rows, a mean over the repeats, that it puts right and wrong where the supervised model "
        "does not; `p_value` of a sign test: chance of so many fixed, were it no better.",
    )


@parametrized
class SafetyParameters(GuardAttributes):
    """The guard of a semi-supervised method."""

    safe: bool = parameter(
        "bool",
        "Whether to return the supervised model instead if cross-validation on the labeled rows "
        "shows no gain; see `decision_`. Costs: fits on folds, each with all labeled "
        "rows and up to 10,000 unlabeled ones.",
        ["boolean"],
        default=False,
    )
