"""What a method is: facts that the rest of the package reads, and the registry of methods.

The command line, searches, plots, reports and `--dry-run` read these facts, and nothing else of a
method. A class that declares `facts` is registered by the name in them.
"""

import importlib
import math
from dataclasses import dataclass
from typing import Any, ClassVar

#: Columns of a history, and what they hold. A name means the same in every method.
COLUMNS = {
    "class": "number of the class that is positive",
    "split": "number of the split",
    "lam": "weight of the regularizer",
    "event": "what was done",
    "iteration": "number of the step",
    "restart": "number of the start",
    "stage": "number of the stage",
    "level": "weight of the unlabeled rows at the present level",
    "lam_unlabeled": "weight of the unlabeled rows",
    "temperature": "weight of the entropy",
    "objective": "objective",
    "svm_objective": "objective of the SVM that was trained on the labels found",
    "start_objective": "objective at the start",
    "set_value": "value of the set function",
    "proven_share": "part of the largest value that was proven to be reached",
    "entropy": "mean entropy of the labels",
    "gap": "duality gap",
    "gradient_norm": "norm of the gradient",
    "step_length": "length of the step",
    "tau": "threshold of the stage",
    "n_active": "rows with y o < 1",
    "n_positive": "rows labeled positive",
    "n_negative": "rows labeled negative",
    "n_waiting": "unlabeled rows left",
    "switches": "pairs of labels switched, or single labels released",
    "distinct_rows": "distinct rows",
    "picks": "rows picked",
    "gains_computed": "gains computed",
    "flips": "flips tried",
    "changes": "flips carried out",
    "evaluation": "number of the evaluation",
    "evaluations": "evaluations of the objective",
    "newton_steps": "Newton steps",
    "cg_steps": "conjugate gradient steps",
    "line_rounds": "rounds of the line search",
    "steps": "steps of the solver",
    "loo_error": "leave-one-out error",
    "loo_loss": "leave-one-out loss",
    "seconds": "seconds",
}


@dataclass(frozen=True)
class AnnealingAxis:
    """The column of a history that tells how far an annealing is, and whether it falls."""

    column: str
    label: str
    falls: bool = False


@dataclass(frozen=True)
class MethodFacts:
    """What the rest of the package needs to know of a method.

    name : its name on the command line; "" if it has none.
    title : one line about it.
    history : what a row of the history is about.
    columns : names of the columns of the history; see `COLUMNS`.
    iteration : what an outer iteration is.
    estimator : where its class is, as module:name within `dask_s3vm.estimators`; not needed if that
        class itself has the facts.
    supervised : whether it leaves unlabeled rows out.
    shares_path : whether fits that differ in `lam` share work, and are better made together; `lam`
        must then be a column of the history.
    takes_seeds : whether a fit can start from what the fit for a larger `lam` left behind.
    in_kernels : whether a fit on small data spends its time in kernels, so that threads help.
    axis : of plots of an annealing.
    restarts : whether rows of the history are independent restarts, not successive steps.
    row_bytes : bytes that a fit keeps for each row beside the row itself: the most that shards of
        text were seen to hold.
    rounds : (fewest, most) rounds that fits were seen to make at lam = 1e-2 and at 1e-4, or one
        pair where `lam` is no parameter: on eight real sets of text, web pages, census and dense
        rows, default settings, 80 to 200 labels.
    """

    name: str
    title: str
    history: str
    columns: tuple[str, ...]
    iteration: str
    estimator: str = ""
    supervised: bool = False
    shares_path: bool = False
    takes_seeds: bool = False
    in_kernels: bool = False
    axis: AnnealingAxis | None = None
    restarts: bool = False
    row_bytes: int = 50
    rounds: tuple[tuple[int, int], ...] = ((10, 1000),)

    def history_words(self) -> str:
        """Describe `history_`."""
        words = (f"`{name}` ({COLUMNS.get(name, name)})" for name in self.columns)
        return f"{self.history}. Columns: {', '.join(words)}."

    def iteration_words(self) -> str:
        """Describe `n_iter_`."""
        return f"Outer iterations: {self.iteration}; the most over the binary problems."

    def expected_rounds(self, lam: float = 1e-3, n_problems: int = 1) -> tuple[int, int]:
        """Fewest and most rounds that a fit is expected to make.

        Between and beyond the values of lam that were measured, along a power of lam.
        """
        if len(self.rounds) == 1:
            low, high = self.rounds[0]
            return low * n_problems, high * n_problems
        place = (math.log10(1e-2) - math.log10(lam)) / 2  # 0 at 1e-2, 1 at 1e-4
        place = min(max(place, -0.5), 2.0)
        low, high = (
            round(loose ** (1 - place) * tight**place)
            for loose, tight in zip(*self.rounds, strict=True)
        )
        return max(low, 2) * n_problems, max(high, 2) * n_problems


#: Methods by name: the class that has their facts and parameters.
METHODS: dict[str, Any] = {}


class MethodParameters:
    """Base of what has `facts`: a class that declares some is found by the name in them."""

    facts: ClassVar[MethodFacts]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "facts" not in vars(cls):
            return
        if cls.facts.shares_path and "lam" not in cls.facts.columns:
            raise TypeError(f"{cls.__name__}: shares_path wants a column `lam` of the history")
        if cls.facts.name:
            METHODS[cls.facts.name] = cls


def estimator_of(name: str) -> Any:
    """Estimator class of a method."""
    known = METHODS[name]
    if hasattr(known, "fit"):
        return known
    module, kind = known.facts.estimator.split(":")
    return getattr(importlib.import_module(f"dask_s3vm.estimators.{module}"), kind)


def estimator_named(kind: str) -> Any:
    """Estimator class of that name, if it is one of a method; None if there is none."""
    for name, known in METHODS.items():
        own = known.__name__ if hasattr(known, "fit") else known.facts.estimator.split(":")[1]
        if own == kind:
            return estimator_of(name)
    return None
