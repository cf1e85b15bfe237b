"""Parameters of what keeps a semi-supervised model near the labels: the guard, and the blend."""

from typing import Any

from dask_s3vm.parameters.fields import SHARE, fitted, parameter, parametrized


@parametrized
class GuardAttributes:
    """What a guarded fit decided, and why."""

    decision_: str = fitted(
        "str",
        'The name of the model that was kept: that of the method, or "supervised" where the '
        "labeled rows alone did better, or where `supervised_part_` is 1.",
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
        "shows no gain; see `decision_`. It is that of the method, with its loss and its `lam` or "
        "`C`, and need not be `L2SVM`. Costs: fits on folds, each with all labeled rows and up to "
        "10,000 unlabeled ones.",
        ["boolean"],
        default=False,
    )


@parametrized
class BlendParameters:
    """How much of a model is the supervised one."""

    supervised_part: float | None = parameter(
        "float or None",
        "Share of the supervised SVM that is mixed into the model, from 0 to 1. The weights are "
        "this share a times those of `L2SVM` on the labeled rows, with the same `lam` (0.001 if "
        "there is none), plus 1 - a times those that the method finds, to which `objective_` "
        "refers. Outputs of both are 1 at their margins: with few labels among many columns the "
        "supervised outputs are small, and the method decides; where they are large, it must be "
        "sure to change a prediction. 0: the method alone. None: chosen from the rows. It is "
        "larger where the boundary of the method crosses denser regions than that of the "
        "supervised SVM (but `LapSVM` looks for no gap), and large enough that every labeled row "
        "which the supervised SVM classifies correctly stays correct; see `supervised_part_`. "
        "Cross-validation on the labels may then speak against the method, or for fewer "
        "predictions of a rare class, within the interval of the ratio. With 300 labels or more, "
        "or with 20 or more if over 3 % "
        "of the predictions for two classes would change (`LapSVM`: with 20 or more of several "
        "classes, too), the method itself is cross-validated, as "
        "`safe` does it, not in fits of a search: where one of both models is clearly better it is "
        "used alone, and with fewer labels the supervised SVM is, too, if the method loses a row. "
        'With balance="paper" None is 0.',
        [SHARE, None],
        default=None,
    )

    supervised_part_: Any = fitted(
        "float or ndarray of shape (n_classes,)",
        "Part of the supervised SVM that was used; 0 where there was nothing to add it to.",
    )
