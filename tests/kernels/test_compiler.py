"""Compiled kernels are cached where nobody else can write, and never outlive their sources."""

import ast
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dask_s3vm
from dask_s3vm.numerics import compiler

ROOT = Path(dask_s3vm.__file__).parent


def kernel_modules():
    for path in sorted(ROOT.rglob("*.py")):
        if "import kernel\n" in path.read_text():
            yield path


def test_kernels_build_on_their_own_subpackage_and_on_kernels_and_numerics_alone():
    """These are the sources that `source_stamp` hashes."""
    modules = list(kernel_modules())
    assert len(modules) > 15
    for path in modules:
        assert path.parent.parent == ROOT, "subpackages of subpackages are not hashed"
        tree = ast.parse(path.read_text())
        seen = ("numerics", "kernels", path.parent.name)
        foreign = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            and node.module.startswith("dask_s3vm")
            and not node.module.startswith(tuple(f"dask_s3vm.{name}." for name in seen))
            for alias in node.names
        }
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        compiled = [node for node in functions if node.decorator_list]
        used = {
            part.id for node in compiled for part in ast.walk(node) if isinstance(part, ast.Name)
        }
        assert not foreign & used, f"{path} uses {foreign & used} in a kernel"


FIRST_CALLS = """
import sys, threading, time
import numpy as np
from numba.core import entrypoints
from numba.core.typing.typeof import typeof_impl
from dask_s3vm.numerics.random import row_uniform

class Slow(type):
    def __subclasscheck__(cls, other):
        time.sleep(0.1)
        return False

def add_types():  # numba does this in the first call, without a lock
    entrypoints.init_all = lambda: None
    for _ in range(10):
        typeof_impl.register(type("Added", (), {}), lambda value, context: None)
        time.sleep(0.05)

failed = []
threading.excepthook = lambda args: failed.append(args.exc_value)
typeof_impl.register(Slow("Walked", (), {}), lambda value, context: None)
entrypoints.init_all = add_types
threads = [threading.Thread(target=row_uniform, args=(np.uint64(1), 2)) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(repr(failed) if failed else 0)
"""


def test_first_calls_from_several_threads_do_not_disturb_each_other():
    """numba looks through its registry of types while another thread adds to it."""
    found = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


@pytest.fixture
def toy_package(tmp_path):
    """A copy of the package with a kernel and its helper in files of their own."""
    package = tmp_path / "dask_s3vm"
    for folder in ("kernels", "numerics"):
        (package / folder).mkdir(parents=True)
        (package / folder / "__init__.py").touch()
    for name in ("__init__.py", "_lazy.py", "_version.py", "numerics/compiler.py"):
        shutil.copy(ROOT / name, package / name)
    helper = package / "kernels" / "helper.py"
    helper.write_text(
        "from dask_s3vm.numerics.compiler import kernel\n\nFACTOR = 2\n\n\n"
        "@kernel\ndef scaled(x):\n    return FACTOR * x\n"
    )
    (package / "kernels" / "toy.py").write_text(
        "import logging\nlogging.basicConfig(level=logging.INFO, format='%(message)s')\n"
        "from dask_s3vm.numerics.compiler import kernel\n"
        "from dask_s3vm.kernels.helper import scaled\n\n\n"
        "@kernel\ndef twice(x):\n    return scaled(x) + 1\n\n\n"
        "print(twice(20), twice(20.5))\n"
    )
    return package


def run_toy(package, cache, *options, **environment):
    done = subprocess.run(
        [sys.executable, *options, "-c", "import dask_s3vm.kernels.toy"],
        env=os.environ
        | {"PYTHONPATH": str(package.parent), "XDG_CACHE_HOME": str(cache)}
        | {"NUMBA_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1"}
        | environment,
        cwd=package.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr.splitlines()


COMPILING = "compiling loops for this method and kind of rows, once"


def test_a_changed_helper_is_compiled_and_nothing_is_written_beside_the_code(toy_package, tmp_path):
    cache = tmp_path / "cache"
    before = sorted(toy_package.rglob("*"))
    assert run_toy(toy_package, cache) == ("41 42.0", [COMPILING])  # once, for two kernels
    assert run_toy(toy_package, cache) == ("41 42.0", [])
    helper = toy_package / "kernels" / "helper.py"
    status = helper.stat()
    helper.write_text(helper.read_text().replace("FACTOR = 2", "FACTOR = 3"))
    os.utime(helper, ns=(status.st_atime_ns, status.st_mtime_ns))  # content counts, not time
    assert run_toy(toy_package, cache) == ("61 62.5", [COMPILING])
    assert run_toy(toy_package, cache) == ("61 62.5", [])
    (toy_package / "_version.py").write_text('__version__ = "99"\n')
    assert run_toy(toy_package, cache) == ("61 62.5", [COMPILING])
    assert sorted(toy_package.rglob("*")) == before
    assert len(list((cache / "dask-s3vm").iterdir())) == 3


def test_files_that_cannot_be_read_cost_a_compilation(toy_package, tmp_path):
    cache = tmp_path / "cache"
    run_toy(toy_package, cache)
    for path in cache.rglob("*.nb[ic]"):
        path.write_bytes(path.read_bytes()[:-40])
    assert run_toy(toy_package, cache) == ("41 42.0", [COMPILING])


def test_numba_cache_dir_wins_and_is_shared_with_care(toy_package, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    run_toy(toy_package, tmp_path / "cache", NUMBA_CACHE_DIR=str(shared))
    (own,) = shared.iterdir()
    assert own.name == f"dask-s3vm-{os.geteuid()}"
    assert own.stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / "cache").exists()


@pytest.fixture
def root_of(monkeypatch, tmp_path):
    """The cache directory for given directories of the user and the machine."""

    def find(user, temporary):
        monkeypatch.setattr(compiler.numba.config, "CACHE_DIR", "")
        monkeypatch.setattr(compiler.platformdirs, "user_cache_path", lambda *_, **__: user)
        monkeypatch.setattr(compiler.tempfile, "tempdir", str(temporary))
        return compiler.cache_root.__wrapped__()

    return find


def test_directories_of_others_are_not_trusted(root_of, tmp_path):
    user, temporary = tmp_path / "user", tmp_path / "tmp"
    temporary.mkdir()
    assert root_of(user, temporary) == user
    user.chmod(0o770)  # others could have put kernels there
    private = temporary / f"dask-s3vm-{os.geteuid()}"
    assert root_of(user, temporary) == private
    assert private.stat().st_mode & 0o777 == 0o700
    private.chmod(0o707)
    last = root_of(user, temporary)
    assert last not in (user, private)
    assert last.parent == temporary
    assert last.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_could_replace_is_not_trusted(root_of, tmp_path):
    above, temporary = tmp_path / "open", tmp_path / "tmp"
    above.mkdir()
    temporary.mkdir()
    above.chmod(0o777)
    assert root_of(above / "cache", temporary).parent == temporary
    above.chmod(0o1777)  # as /tmp: only owners rename
    assert root_of(above / "cache", temporary) == above / "cache"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_a_directory_below_that_of_somebody_else_is_not_trusted(root_of, tmp_path):
    above, temporary = tmp_path / "theirs", tmp_path / "tmp"
    above.mkdir()
    temporary.mkdir()
    os.chown(above, 12345, 12345)
    assert root_of(above / "cache", temporary).parent == temporary


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_a_directory_that_belongs_to_somebody_else_is_not_trusted(root_of, tmp_path):
    user, temporary = tmp_path / "user", tmp_path / "tmp"
    temporary.mkdir()
    user.mkdir(mode=0o700)
    os.chown(user, 12345, 12345)
    assert root_of(user, temporary).parent == temporary


def test_what_cannot_be_written_is_passed_over(root_of, tmp_path):
    blocked, temporary = tmp_path / "file", tmp_path / "tmp"
    blocked.touch()
    temporary.mkdir()
    assert root_of(blocked / "cache", temporary).parent == temporary


def test_kernels_that_nobody_uses_are_removed(monkeypatch, tmp_path):
    monkeypatch.setattr(compiler, "cache_root", lambda: tmp_path)
    old, recent = tmp_path / "kernels-old", tmp_path / "kernels-recent"
    old.mkdir()
    recent.mkdir()
    (old / "some.nbc").touch()
    long_ago = time.time() - compiler.KEEP - 60.0
    os.utime(old, (long_ago, long_ago))
    now = compiler._folder.__wrapped__("kernels")
    assert sorted(tmp_path.iterdir()) == sorted([now, recent])
