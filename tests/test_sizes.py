"""Modules are short, and what is public is documented."""

import ast
from pathlib import Path

import pytest

import dask_s3vm

ROOT = Path(dask_s3vm.__file__).parent
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


def undocumented(body, prefix=""):
    """Names of public functions and classes without a docstring, methods included."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None:
                yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from undocumented(node.body, f"{prefix}{node.name}.")


@pytest.mark.parametrize("module", MODULES)
def test_no_module_is_longer_than_400_lines(module):
    assert len((ROOT / module).read_text().splitlines()) <= 400


@pytest.mark.parametrize("module", MODULES)
def test_everything_public_has_a_docstring(module):
    tree = ast.parse((ROOT / module).read_text())
    assert ast.get_docstring(tree)
    assert list(undocumented(tree.body)) == []


def test_missing_docstrings_are_noticed():
    tree = ast.parse(
        "def f(): pass\nclass A:\n    'A.'\n    def g(self): pass\n    def _h(self): pass"
    )
    assert list(undocumented(tree.body)) == ["f", "A.g"]
