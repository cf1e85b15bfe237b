"""Feeds damaged files to one reader for a while: `python fuzz.py TARGET SECONDS SEED`.

Runs in a process of its own whose memory is limited, so that a crash, a hang and a huge allocation
are all seen from outside. Prints how many files were read, refused, and wrongly accepted.
"""

import collections
import gc
import resource
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from mutate import damaged
from targets import TARGETS

#: Memory on top of what the process has when it begins, and seconds for one file.
MEMORY = 2 << 30
PATIENCE = 60  # something may have to be compiled


def main(name: str, seconds: float, seed: int) -> int:
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
        while time.monotonic() < ends:
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
            if sum(counts.values()) % 500 == 0:
                gc.collect()
    print(f"{name}: {dict(counts)}")
    return 0 if counts and "refused without a word" not in counts else 1


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def _too_long(signum: int, frame: object) -> None:
    raise TimeoutError(f"a file took more than {PATIENCE} s")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
