"""Fields of estimators, each written once: default, constraint and description.

An estimator is a dataclass whose fields are its parameters (`parameter`) and what a fit sets
(`fitted`). Fields that several estimators have are inherited: see `shared`. The decorator
`parametrized` makes of them the constructor and the sections "Parameters" and "Attributes" of the
docstring; `constraints_of` gives the constraints for scikit-learn to check.
"""

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, TypeVar, dataclass_transform


class Between(NamedTuple):
    """A constraint: a number of a kind between two bounds, None for infinity.

    closed : which bounds are included: "left", "right", "both" or "neither".
    """

    kind: type
    low: float | None
    high: float | None
    closed: str


class OneOf(NamedTuple):
    """A constraint: one of several words."""

    words: tuple[str, ...]


#: Constraints that many parameters have.
POSITIVE = Between(Real, 0, None, "neither")
NOT_NEGATIVE = Between(Real, 0, None, "left")
SHARE = Between(Real, 0, 1, "both")
COUNT = Between(Integral, 1, None, "left")
COUNT_OR_ZERO = Between(Integral, 0, None, "left")

#: Columns of the text of a description, indented by four, in lines of 100 with the class's indent.
_WIDTH = 92
#: A section of a numpydoc docstring: its title, underlined.
_SECTION = re.compile(r"^[A-Z][A-Za-z ]*\n-{3,}$", re.MULTILINE)

T = TypeVar("T", bound=type)


def parameter(
    kind: str, description: str, constraints: list[Any], *, default: Any, kw_only: bool = True
) -> Any:
    """Declare a parameter of an estimator.

    Parameters
    ----------
    kind : its type in words, without the default.
    description : what it means.
    constraints : what values it may have: `Between`, `OneOf`, or a constraint of scikit-learn's
        `_parameter_constraints` that is a type, None or a word such as "boolean".
    default : its default.
    kw_only : whether it must be given by name.
    """
    facts = {"kind": kind, "description": description, "constraints": constraints}
    return field(default=default, kw_only=kw_only, metadata=facts)


def redeclared(
    base: Any, name: str, *, default: Any, description: str | None = None, kw_only: bool = True
) -> Any:
    """Declare a parameter as `base` does, but for its default, and its description if given."""
    facts = base.__dataclass_fields__[name].metadata
    return parameter(
        facts["kind"],
        description or facts["description"],
        facts["constraints"],
        default=default,
        kw_only=kw_only,
    )


def fitted(
    kind: str, description: str | Callable[[Any], str], *, init: Literal[False] = False
) -> Any:
    """Declare an attribute that a fit sets: its type in words, and its description.

    A description that depends on the method is a function of the estimator's class.
    """
    return field(init=init, metadata={"kind": kind, "description": description})


@dataclass_transform(
    eq_default=False, kw_only_default=True, field_specifiers=(parameter, redeclared, fitted)
)
def parametrized(cls: T) -> T:
    """Make a class a dataclass with a constructor and a docstring from its fields."""
    words = cls.__dict__.get("__doc__")
    made: Any = dataclass(eq=False, repr=False, match_args=False)(cls)
    ordered = parameters_of(made)
    made.__init__ = _constructor(made, ordered)
    # without docstrings (python -OO) there is nothing to add to
    made.__doc__ = None if words is None else _Docstring(words)
    return made


class _Docstring:
    """The docstring of a class, put together when it is read: most programs never do."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._text: str | None = None

    def __get__(self, instance: Any, owner: Any) -> str:
        if self._text is None:
            self._text = _with_sections(owner, self._words, parameters_of(owner))
        return self._text


@functools.cache
def parameters_of(cls: Any) -> "tuple[Field[Any], ...]":
    """Parameters of an estimator in the order of its signature.

    Positional ones come first. Others go by the class that declares them first: those of the
    estimator itself, then those of its bases, in the order in which Python looks names up.
    """
    own = {one.name: one for one in fields(cls) if one.init}
    declaring = [base for base in cls.__mro__ if "__dataclass_fields__" in vars(base)]
    home = {name: base for base in declaring for name in inspect.get_annotations(base)}
    by_home = [
        own[name]
        for base in declaring
        for name in inspect.get_annotations(base)
        if name in own and home[name] is base
    ]
    positional = [one for one in own.values() if not one.kw_only]
    return (*positional, *(one for one in by_home if one.kw_only))


@functools.cache  # scikit-learn asks at every fit
def constraints_of(cls: Any) -> dict[str, list[Any]]:
    """Constraints of the parameters in scikit-learn's form."""
    import numpy as np
    from sklearn.utils._param_validation import Interval, StrOptions

    class Number(Interval):
        """An interval of numbers: True and False are none."""

        def is_satisfied_by(self, val: Any) -> bool:
            return not isinstance(val, (bool, np.bool_)) and super().is_satisfied_by(val)

    def converted(one: Any) -> Any:
        if isinstance(one, Between):
            return Number(one.kind, one.low, one.high, closed=one.closed)
        if one == "generator":
            return np.random.Generator
        return StrOptions(set(one.words)) if isinstance(one, OneOf) else one

    return {
        one.name: [converted(constraint) for constraint in one.metadata["constraints"]]
        for one in parameters_of(cls)
    }


def attributes_of(cls: Any) -> "list[Field[Any]]":
    """Attributes that a fit sets, those of bases first."""
    return [one for one in fields(cls) if not one.init]


def refuse_renamed(cls: Any, given: Mapping[str, Any], error: type[Exception]) -> None:
    """Refuse names that parameters once had, and say what they are called now."""
    for old, (new, how) in getattr(cls, "_renamed", {}).items():
        if old in given:
            raise error(f"{cls.__name__} has no parameter {old!r}: it is called {new!r} now, {how}")


def _constructor(cls: Any, ordered: "Sequence[Field[Any]]") -> Any:
    """The constructor that dataclass made, with its parameters in order."""
    assign = cls.__init__

    @functools.wraps(assign)
    def __init__(self: Any, *args: Any, **given: Any) -> None:
        refuse_renamed(type(self), given, TypeError)
        assign(self, *args, **given)

    known = inspect.signature(assign)
    parts = [known.parameters[name] for name in ("self", *(one.name for one in ordered))]
    __init__.__signature__ = known.replace(parameters=parts)  # type: ignore[attr-defined]
    return __init__


def _with_sections(cls: Any, words: str, parameters: "Sequence[Field[Any]]") -> str:
    """Put the sections of parameters and attributes between what is said first and the others."""
    text = inspect.cleandoc(words)
    found = _SECTION.search(text)
    place = len(text) if found is None else found.start()
    parts = [
        text[:place].rstrip(),
        _section(cls, "Parameters", parameters),
        _section(cls, "Attributes", attributes_of(cls)),
        text[place:].rstrip(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(cls: Any, title: str, described: "Sequence[Field[Any]]") -> str:
    if not described:
        return ""
    lines = [title, "-" * len(title)]
    for one in described:
        kind, words = one.metadata["kind"], one.metadata["description"]
        words = words(cls) if callable(words) else words
        lines.append(f"{one.name} : {kind}{_default(one) if one.init else ''}")
        text = textwrap.fill(words, _WIDTH, break_on_hyphens=False)
        lines.append(textwrap.indent(text, "    "))
    return "\n".join(lines)


def _default(one: "Field[Any]") -> str:
    value = one.default
    return f', default="{value}"' if isinstance(value, str) else f", default={value!r}"
