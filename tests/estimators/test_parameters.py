"""Parameters are written once: signature, constraints and documentation come from the fields."""

import inspect
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import make_constraint

import dask_s3vm
from dask_s3vm.parameters.fields import attributes_of, parameters_of

ESTIMATORS = {
    name: getattr(dask_s3vm, name)
    for name in dask_s3vm.__all__
    if inspect.isclass(getattr(dask_s3vm, name))
    and issubclass(getattr(dask_s3vm, name), BaseEstimator)
    and getattr(dask_s3vm, name).__module__.startswith("dask_s3vm.estimators")
}
every_estimator = pytest.mark.parametrize("kind", ESTIMATORS.values(), ids=ESTIMATORS)

POSITIONAL = {
    "L2SVM": ["lam"],
    "LapSVM": ["lam", "lam_manifold"],
    "TSVM": ["lam", "lam_unlabeled"],
    "S3VM": ["lam"],
    "CCCPS3VM": ["lam", "lam_unlabeled"],
    "DAS3VM": ["lam", "lam_unlabeled"],
    "QNS3VM": ["lam", "lam_unlabeled"],
    "RLSC": ["lam"],
    "S2RLSC": ["lam", "lam_unlabeled"],
    "MaxMarginClustering": ["n_clusters"],
    "QPS3VM": ["C", "C_unlabeled"],
    "SubmodularS3VM": ["C", "C_unlabeled"],
    "STARSVM": ["C", "confidence"],
}

#: Parameters that are not the same in all estimators -> those that differ from most, and why.
DIFFERENT = {
    "balance": (
        {"MaxMarginClustering"},
        "a clustering has no ratio to agree with: its balance is the share itself",
    ),
    "lam": (
        {"RLSC", "S2RLSC", "MaxMarginClustering"},
        "The square loss counts every row, not only those in the margin, and wants more of the "
        "regularizer: RLSC and S2RLSC choose it from the data.",
    ),
    "kernel": (
        {"RLSC", "S2RLSC", "MaxMarginClustering", "STARSVM"},
        "Least squares of many columns and rows need landmarks for the linear kernel too. The "
        "kernels of STAR-SVM are exact unless it works in shards.",
    ),
    "unlabeled": (
        {"L2SVM", "RLSC"},
        "Supervised: rows without a label are left out, and y in {-1, +1} are two classes.",
    ),
    "tol": (
        {"CCCPS3VM", "QNS3VM", "STARSVM"},
        "QN-S3VM has no bound of the gap and stops by the decrease; STAR-SVM and CCCP stop by the "
        "duality gap, which their ascent closes more slowly than Newton steps do.",
    ),
    "max_iter": (
        {"CCCPS3VM", "QNS3VM", "STARSVM"},
        "What is counted is not Newton steps, but evaluations, and rounds or steps.",
    ),
    "safe": (
        {"RLSC"},
        "A projection that uses no folds: with the square loss there is a guarantee.",
    ),
    "n_restarts": (
        {"QPS3VM"},
        "Restarts of QP-S3VM come on top of a start that is not random, and need not help.",
    ),
    "center": (
        {"S2RLSC", "MaxMarginClustering"},
        "About which mean depends on the method; the paper of S2RLSC does not center.",
    ),
    "scale": (
        {"S3VM"},
        "For those who do not want to choose; the others train on the rows that they are given.",
    ),
    "balance_tol": (
        {"MaxMarginClustering"},
        "Without labels to tell the balance, it is around `balance`, and the band is wider.",
    ),
}

OLD_NAMES = [
    ("STARSVM", "solver", "with False for 'exact' and True for 'sharded'"),
    ("SubmodularS3VM", "scheme", "with False for 'exact' and True for 'greedi'"),
    ("S2RLSC", "placement", "with False for 'pool' and True for 'shards'"),
    ("MaxMarginClustering", "placement", "with False for 'pool' and True for 'shards'"),
]

SECTIONS = ["Parameters", "Attributes", "References", "Examples"]


def sections(kind):
    """Sections of a docstring by title, in order; "" is what comes before the first."""
    parts = re.split(r"^([A-Z]\w+)\n-+\n", inspect.getdoc(kind), flags=re.MULTILINE)
    return dict(zip(["", *parts[1::2]], parts[0::2], strict=True))


def documented(kind, section):
    """(name, type text) of what a section describes."""
    return re.findall(r"^(\w+) : (.+)$", sections(kind)[section], flags=re.MULTILINE)


def facts(kind, parameter):
    constraints = kind._parameter_constraints[parameter.name]
    constraints = sorted(str(make_constraint(one)) for one in constraints)
    return (
        parameter.default,
        constraints,
        parameter.metadata["kind"],
        parameter.metadata["description"],
    )


def test_all_estimators_are_found():
    assert set(ESTIMATORS) == set(POSITIONAL)


@every_estimator
def test_the_signature_is_what_is_documented(kind):
    signature = inspect.signature(kind).parameters
    assert [name for name, _ in documented(kind, "Parameters")] == list(signature)
    for name, words in documented(kind, "Parameters"):
        default = signature[name].default
        shown = f'"{default}"' if isinstance(default, str) else repr(default)
        assert words.endswith(f", default={shown}")
    assert list(inspect.signature(kind.__init__).parameters) == ["self", *signature]


@every_estimator
def test_positional_parameters_come_first(kind):
    parameters = inspect.signature(kind).parameters.values()
    names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert names == POSITIONAL[kind.__name__]
    assert all(one.default is not one.empty for one in parameters)
    model = kind(*range(1, len(names) + 1))
    assert [getattr(model, name) for name in names] == list(range(1, len(names) + 1))
    with pytest.raises(TypeError):
        kind(*range(len(names) + 1))


@every_estimator
def test_constraints_cover_all_parameters(kind):
    assert list(kind._parameter_constraints) == list(inspect.signature(kind).parameters)
    kind()._validate_params()


@every_estimator
def test_each_section_is_there_once_in_order(kind):
    text = inspect.getdoc(kind)
    found = re.findall(r"^([A-Z]\w+)\n-+$", text, flags=re.MULTILINE)
    assert [title for title in found if title != "Notes"] == SECTIONS
    assert len(found) == len(set(found))
    assert "\n" not in text.split("\n\n")[0]
    assert "::\n\n    " in sections(kind)[""], "the formula"
    assert max(map(len, text.splitlines())) <= 96


@every_estimator
def test_attributes_are_documented_once(kind):
    names = [name for name, _ in documented(kind, "Attributes")]
    assert names == [one.name for one in attributes_of(kind)]
    assert len(names) == len(set(names))
    assert all(name.endswith("_") and not hasattr(kind, name) for name in names)


@every_estimator
@pytest.mark.filterwarnings("ignore:.*of the unlabel:UserWarning")
def test_what_a_fit_sets_is_documented(kind, make_rows):
    X, y = make_rows(60, 4, seed=1)
    y[::2] = -1 if kind.__name__ not in ("L2SVM", "RLSC") else y[::2]
    small = {"n_restarts": 2} if "n_restarts" in inspect.signature(kind).parameters else {}
    if kind.__name__ == "STARSVM":  # has support vectors
        small = {"kernel": "rbf"}
    model = kind(**small, random_state=0).fit(X, y)
    found = {name for name in vars(model) if name.endswith("_")}
    known = {name for name, _ in documented(kind, "Attributes")}
    assert known - {"feature_names_in_", "label_name_"} == found  # of frames


@pytest.mark.parametrize("name", sorted({n for k in ESTIMATORS.values() for n in k().get_params()}))
def test_a_name_means_the_same_everywhere(name):
    by_estimator = {
        kind.__name__: facts(kind, one)
        for kind in ESTIMATORS.values()
        for one in parameters_of(kind)
        if one.name == name
    }
    others, reason = DIFFERENT.get(name, (set(), None))
    same = [found for kind, found in by_estimator.items() if kind not in others]
    assert all(found == same[0] for found in same)
    assert all(by_estimator[kind] != same[0] for kind in others), "no exception any more"
    assert reason is None or len(reason) > 20


def test_random_state_is_none_everywhere():
    assert all(kind().random_state is None for kind in ESTIMATORS.values())


@pytest.mark.parametrize(("name", "old", "how"), OLD_NAMES)
def test_old_names_are_refused_with_the_new_one(name, old, how):
    kind = ESTIMATORS[name]
    words = re.escape(f"{name} has no parameter {old!r}: it is called 'sharded' now, {how}")
    with pytest.raises(TypeError, match=words):
        kind(**{old: "auto"})
    with pytest.raises(ValueError, match=words):
        kind().set_params(**{old: "auto"})


def test_other_names_are_refused_as_ever():
    with pytest.raises(TypeError, match="unexpected keyword argument 'solver'"):
        dask_s3vm.TSVM(solver="exact")
    with pytest.raises(ValueError, match="Invalid parameter 'solver'"):
        dask_s3vm.TSVM().set_params(solver="exact")


@every_estimator
def test_copies_and_their_text(kind):
    model = kind(kernel="rbf", random_state=3, verbose=True)
    text = repr(model)
    assert text.startswith(f"{kind.__name__}(")
    assert "random_state=3" in text
    assert "n_components" not in text
    for copy in (clone(model), pickle.loads(pickle.dumps(model))):
        assert copy.get_params() == model.get_params()
        assert repr(copy) == text
    assert copy != model
    assert hash(model) != hash(copy)


def test_subclasses_may_have_a_constructor_of_their_own():
    class Fixed(dask_s3vm.STARSVM):
        def __init__(self, C=2.0):
            super().__init__(C=C, sharded=False)

    assert Fixed().get_params() == {"C": 2.0}
    assert Fixed().sharded is False


def test_without_docstrings():
    code = (
        "import dask_s3vm; model = dask_s3vm.TSVM(); model._validate_params(); "
        "print(model.__doc__, model)"
    )
    done = subprocess.run(
        [sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "None TSVM()\n"


def signatures():
    """The number of types that each kernel was compiled for."""
    return {
        f"{name}.{key}": len(value.signatures)
        for name, module in list(sys.modules.items())
        if name.startswith("dask_s3vm.")
        for key, value in vars(module).items()
        if isinstance(value, Dispatcher)
    }


@every_estimator
def test_whole_numbers_compile_nothing_new(kind):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X, few = rng.normal(size=(60, 3)) + 2.0 * y[:, None], np.where(np.arange(60) < 20, y, -1)
    names = [one.name for one in parameters_of(kind)]
    numbers = [name for name in names if name in ("lam", "lam_unlabeled", "lam_manifold", "C")]
    others = {"n_restarts": 2} if "n_restarts" in names else {}
    kind(**dict.fromkeys(numbers, 1.0), **others).fit(X, few)
    before = signatures()
    for one in (1, np.float32(1.0)):
        kind(**dict.fromkeys(numbers, one), **others).fit(X, few)
    assert signatures() == before


def test_entries_of_callbacks_are_checked():
    with pytest.raises(TypeError, match="callbacks has 1 among its entries"):
        dask_s3vm.L2SVM(callbacks=[print, 1]).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(dask_s3vm.DAS3VM, "lam_unlabeled", 1e-300), (dask_s3vm.QNS3VM, "annealing", {})],
)
def test_values_that_no_method_can_use_are_named(kind, name, value):
    with pytest.raises(ValueError, match=name):
        kind(**{name: value}).fit([[0.0], [1.0], [2.0]], [0, 1, -1])
