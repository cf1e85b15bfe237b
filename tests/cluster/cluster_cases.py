"""Real dask processes, with their output kept, and comparisons of models."""

import contextlib
import json
import subprocess
import sys

import numpy as np
from waiting import wait_until

from dask_s3vm import load_model

#: Small data on the workers, in several shards, and vectors that go from worker to worker.
SMALL = {
    "DASK_S3VM__EXCHANGE_BYTES": "0",
    "DASK_S3VM__LOCAL_BYTES": "0",
    "DASK_S3VM__SHARD_BYTES": "8192",
    "DASK_S3VM__CONNECT_TIMEOUT": "100s",
}


class Processes:
    """Processes of one test, started with their output in files, and stopped in the end."""

    def __init__(self, folder, env):
        self.folder, self.env, self.started = folder, env, []

    def dask(self, name, *words):
        """Start `dask WORDS` in the background."""
        log = (self.folder / f"{name}.log").open("w")
        command = [sys.executable, "-m", "dask", *map(str, words)]
        self.started.append(
            subprocess.Popen(command, stdout=log, stderr=log, env=self.env, cwd=self.folder)
        )
        log.close()

    def run(self, *words):
        """Run `dask-s3vm WORDS` to its end."""
        command = [sys.executable, "-c", "from dask_s3vm.cli import main; main()"]
        return subprocess.run(
            [*command, *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            env=self.env,
            cwd=self.folder,
        )

    def stop(self):
        """End all of them: how dask ends is not our subject."""
        for process in self.started:  # a nanny that is asked to end ends its worker
            process.terminate()
        for process in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=15)
            process.kill()
            process.wait()

    def wait_for(self, path):
        """Wait until a file is there and is whole JSON; gives what it holds."""
        found = []

        def is_there():
            assert all(process.poll() is None for process in self.started), "one has ended"
            with contextlib.suppress(OSError, ValueError):
                found.append(json.loads(path.read_text()))
            return bool(found)

        wait_until(is_there, lambda: f"{path} did not appear")
        return found[0]


def same_model(one, other):
    """Whether two model files hold the same bits."""
    a, b = load_model(one), load_model(other)
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)
