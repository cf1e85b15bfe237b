"""The layers: every module imports only what is below it."""

import ast
from pathlib import Path

import pytest

import dask_s3vm

ROOT = Path(dask_s3vm.__file__).parent
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))

#: Layer -> what of the package its modules may import, as prefixes.
ALLOWED = {
    "kernels": ["kernels", "_version"],
    "engine": ["kernels", "engine", "_config", "exceptions", "interrupts", "_version"],
    "problems": [
        "kernels",
        "engine.operations",
        "engine.protocol",
        "engine.shard",
        "engine.select",
        "engine.blocks.frozen",
        "engine.checks.MAX_ENTRIES",
        "solvers.root",
        "features.blas",
        "problems",
    ],
    "solvers": ["problems.base", "solvers", "kernels.vectors"],
    "methods": [
        "problems",
        "solvers",
        "methods",
        "features.blas",
        "engine.pool",
        "engine.protocol",
        "engine.shard",
        "engine.select",
    ],
    "plotting": ["plotting"],
    "reports": ["reports", "plotting", "io.archive", "_config", "_version"],
    "features": [
        "features",
        "interrupts",
        "kernels.compiler",
        "kernels.rows",
        "engine.blocks",
        "engine.computing",
        "engine.ingest.is_dask",
        "_config",
    ],
    "checkpoints": [
        "checkpoints",
        "methods.keeping",
        "io.archive",
        "io.encoding",
        "exceptions",
        "_version",
    ],
    "estimators": [
        "methods",
        "features",
        "engine.ingest",
        "engine.fingerprint",
        "engine.protocol",
        "engine.sources",
        "checkpoints",
        "engine.blocks.as_labels",
        "engine.local",
        "estimators",
        "exceptions",
        "interrupts",
        "prediction",
        "_config",
    ],
    "model_selection": [
        "estimators",
        "features",
        "engine.pool",
        "engine.shard.hold_out",
        "io.archive",
        "interrupts",
        "model_selection",
        "_config",
        "_version",
    ],
}

#: Who may import dask or distributed.
DASK = (
    "engine/",
    "features/",
    "io/",
    "datasets/",
    "cli/",
    "bench/",
    "estimators/_linear.py",
    "model_selection/metrics.py",
    "interrupts.py",
    "local_cluster.py",
    "prediction.py",
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


def within(name, prefix):
    return name == prefix or name.startswith(prefix + ".")


def test_the_modules_are_found():
    assert len(MODULES) > 40
    assert {f"{layer}/__init__.py" for layer in ALLOWED} <= set(MODULES)
    assert "dask_s3vm.kernels.passes.pack_csr" in imports_of("problems/packing.py")


@pytest.mark.parametrize("module", [m for m in MODULES if m.split("/")[0] in ALLOWED])
def test_a_layer_imports_only_what_is_below(module):
    allowed = [f"dask_s3vm.{prefix}" for prefix in ALLOWED[module.split("/")[0]]]
    own = {name for name in imports_of(module) if within(name, "dask_s3vm")}
    wrong = {name for name in own if not any(within(name, prefix) for prefix in allowed)}
    # `import dask_s3vm` is how a worker is asked for its version
    assert wrong <= ({"dask_s3vm"} if module == "engine/workers.py" else set())


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
    assert tops <= {"numpy", "dask_s3vm", "math", "time", "collections", "dataclasses", "typing"}


@pytest.mark.parametrize("module", [m for m in MODULES if not m.startswith(DASK)])
def test_dask_is_known_to_few(module):
    tops = {name.split(".")[0] for name in imports_of(module)}
    assert not tops & {"dask", "distributed"}
