"""Feeds damaged files to one reader: `python fuzz.py TARGET SECONDS SEED`.

Runs in a process of its own whose memory is limited, so that a crash, a hang and a huge allocation
are all seen from outside. Counts how many files were accepted and refused.
"""

import collections
import gc
import itertools
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from mutate import damaged
from targets import TARGETS

#: Memory on top of what the process has when it begins, and seconds for one file.
MEMORY = 2 << 30
PATIENCE = 200  # something may have to be compiled, on a busy machine


def fuzz(name: str, seed: int, n_files: int | None, seconds: float = 0.0) -> dict[str, int]:
    """Feed so many files, or files for so many seconds; returns counts of what became of them."""
    warnings.simplefilter("ignore")
    target, rng = TARGETS[name](), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"damaged{target.ending}"
        originals = target.originals(Path(folder))
        for raw in originals:  # compiles what is to be compiled, and checks the harness itself
            path.write_bytes(raw)
            target.read(path)
        _limit_memory()
        signal.signal(signal.SIGALRM, _too_long)
        counts: collections.Counter[str] = collections.Counter()
        ends = time.monotonic() + seconds
        for number in itertools.count():
            if number == n_files or (n_files is None and time.monotonic() > ends):
                break
            raw = damaged(originals[int(rng.integers(len(originals)))], rng)
            path.write_bytes(raw)
            signal.alarm(PATIENCE)
            try:
                target.read(path)
                counts["accepted"] += 1
            except target.refusals as error:
                counts["refused" if str(error) else "refused without a word"] += 1
            except BaseException:
                kept = Path(tempfile.gettempdir()) / f"fuzz-{name}-{seed}{target.ending}"
                kept.write_bytes(raw)
                print(f"{name}: see {kept}", file=sys.stderr)
                raise
            finally:
                signal.alarm(0)
            if number % 500 == 0:
                gc.collect()
    return dict(counts)


def tell(pipe, *args):
    """Send the counts, or the traceback of what went wrong."""
    try:
        pipe.send(fuzz(*args))
    except BaseException:
        pipe.send(traceback.format_exc())


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def _too_long(signum: int, frame: object) -> None:
    raise TimeoutError(f"a file took more than {PATIENCE} s")


if __name__ == "__main__":
    print(fuzz(sys.argv[1], int(sys.argv[3]), None, float(sys.argv[2])))
