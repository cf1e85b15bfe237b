"""The layers: every module imports only what is below it."""

import ast
from pathlib import Path

import pytest

import dask_s3vm

ROOT = Path(dask_s3vm.__file__).parent
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))

#: Layer -> the layers that its modules may import, and do. A layer stands below all that import it.
LAYERS = {
    "_version": [],
    "_lazy": [],
    "exceptions": [],
    "parameters": [],
    "sizes": [],
    "local_cluster": [],
    "_config": [],
    "labels": [],
    "frames": [],
    "interrupts": ["exceptions"],
    "numerics": ["_version"],
    "kernels": ["numerics"],
    "engine": ["_version", "_config", "exceptions", "labels", "interrupts", "numerics", "kernels"],
    "solvers": ["numerics"],
    "problems": ["numerics", "kernels", "engine", "solvers"],
    "methods": [
        "exceptions", "interrupts", "parameters", "numerics", "engine", "solvers", "problems",
    ],
    "live": ["_config", "parameters", "engine", "methods"],
    "features": [
        "_lazy", "_config", "exceptions", "frames", "interrupts", "parameters", "numerics",
        "kernels", "engine",
    ],
    "prediction": ["_config", "frames", "numerics", "kernels", "engine", "features"],
    "io": [
        "_lazy", "_config", "parameters", "interrupts", "numerics", "engine", "features",
        "prediction",
    ],
    "checkpoints": ["_version", "exceptions", "kernels", "engine", "methods", "io"],
    "estimators": [
        "_config", "exceptions", "parameters", "labels", "frames", "interrupts", "numerics",
        "engine", "problems", "methods", "live", "features", "prediction", "checkpoints",
    ],
    "baselines": ["labels", "features", "estimators"],
    "model_selection": [
        "_version", "_config", "exceptions", "labels", "frames", "interrupts", "numerics", "engine",
        "features", "io", "checkpoints", "estimators",
    ],
    "datasets": ["_lazy", "labels", "numerics", "engine", "features", "io"],
    "plotting": ["parameters", "labels"],
    "reports": ["_version", "_config", "parameters", "io", "plotting"],
    "bench": [
        "_config", "local_cluster", "kernels", "engine", "problems", "live", "estimators",
        "baselines", "model_selection", "datasets", "plotting",
    ],
    "cli": [
        "_version", "_config", "exceptions", "parameters", "labels", "interrupts", "local_cluster",
        "kernels", "engine", "live", "io", "checkpoints", "datasets", "model_selection", "plotting",
        "reports", "bench",
    ],
    "__main__": ["cli"],
}  # fmt: skip

#: Who may import dask or distributed.
DASK = (
    "engine/",
    "features/",
    "io/",
    "datasets/",
    "cli/",
    "bench/",
    "live/plugin.py",
    "estimators/_linear.py",
    "model_selection/metrics.py",
    "interrupts.py",
    "local_cluster.py",
    "prediction.py",
    "frames.py",
    "_config.py",
)


def imports_of(module):
    """Full dotted names of all that a module imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer_of(module):
    """The layer of a file of the package, or of a dotted name that one imports."""
    return module.removeprefix("dask_s3vm.").replace("/", ".").removesuffix(".py").split(".")[0]


def layers_below(module):
    """Layers of the package that a module imports, itself left out."""
    own = {name for name in imports_of(module) if name.startswith("dask_s3vm.")}
    # `from dask_s3vm import TSVM` is what a user writes: commands may do so too
    public = {f"dask_s3vm.{name}" for name in dask_s3vm.__all__}
    return {layer_of(name) for name in own - public} - {layer_of(module)}


def test_every_module_is_in_a_layer():
    assert {layer_of(module) for module in MODULES if module != "__init__.py"} == set(LAYERS)


@pytest.mark.parametrize("module", [m for m in MODULES if m != "__init__.py"])
def test_a_layer_imports_only_what_is_below(module):
    assert layers_below(module) <= set(LAYERS[layer_of(module)])


def test_the_layers_have_an_order():
    order = list(LAYERS)
    for layer, below in LAYERS.items():
        assert all(order.index(one) < order.index(layer) for one in below), layer


@pytest.mark.parametrize("layer", LAYERS)
def test_no_permission_is_left_over(layer):
    used = [layers_below(module) for module in MODULES if layer_of(module) == layer]
    assert set(LAYERS[layer]) == set().union(*used)


@pytest.mark.parametrize(
    "module", [m for m in MODULES if m.startswith(("problems/", "solvers/", "methods/"))]
)
def test_recovery_belongs_to_the_engine(module):
    words = ("generation", "epoch ", "transaction", "WorkerLost", "engine.step", "a lost worker")
    text = (ROOT / module).read_text()
    assert not [word for word in words if word in text]


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("solvers/")])
def test_solvers_know_numpy_and_nothing_else(module):
    tops = {name.split(".")[0] for name in imports_of(module)}
    own = {"numpy", "dask_s3vm"}
    assert tops <= own | {"math", "time", "collections", "contextlib", "dataclasses", "typing"}


@pytest.mark.parametrize("module", [m for m in MODULES if not m.startswith(DASK)])
def test_dask_is_known_to_few(module):
    tops = {name.split(".")[0] for name in imports_of(module)}
    assert not tops & {"dask", "distributed"}
