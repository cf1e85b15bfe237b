"""Damaged files: no crash, no hang, no silent acceptance of garbage, no memory taken on trust.

Each reader is fed for `DASK_S3VM_FUZZ_SECONDS`, 2 by default.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from targets import TARGETS  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_refused_or_read_right(name):
    seconds = float(os.environ.get("DASK_S3VM_FUZZ_SECONDS", "2"))
    ended = subprocess.run(
        [sys.executable, str(HERE / "fuzz.py"), name, str(seconds), "1"],
        capture_output=True,
        text=True,
        timeout=seconds + 280,
        check=False,
    )
    print(ended.stdout)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "refused" in ended.stdout, "no file was damaged enough: the harness is at fault"
