"""A state that was kept on one engine is gone on with on another, with the same bits."""

import os
import signal
import subprocess
import sys
import textwrap

import dask
import distributed
import numpy as np
import pytest

import dask_s3vm as s3
from dask_s3vm.checkpoints import holds_state
from dask_s3vm.solvers import newton

METHODS = {
    "tsvm": lambda **more: s3.TSVM(lam=1e-2, positive_ratio=0.5, **more),
    "da": lambda **more: s3.DAS3VM(lam=1e-2, positive_ratio=0.5, **more),
    "cccp": lambda **more: s3.CCCPS3VM(lam=1e-2, positive_ratio=0.5, **more),
    "star": lambda **more: s3.STARSVM(kernel="linear", **more),
}
METHODS["tsvm, factored systems"] = METHODS["tsvm"]


class Stop(KeyboardInterrupt):
    """Someone pressed a key."""


def stop_after(n):
    """Make a callback that stops a fit at its row number n."""
    seen = []

    def stop(row):
        seen.append(row)
        if len(seen) > n:
            raise Stop

    return stop


@pytest.fixture
def rows(make_rows, rng):
    X, y = make_rows(240, 12, seed=9)
    return X, np.where(rng.random(240) < 0.2, y, -1)


@pytest.mark.parametrize("name", METHODS)
def test_from_workers_to_threads_to_other_workers(name, rows, tmp_path, tiny_shards, monkeypatch):
    monkeypatch.setattr("dask_s3vm.methods.run.SAVING_SHARE", 1e9)
    make = METHODS[name]
    if "factored" in name:
        rows = rows[0].toarray() * 10.0 ** np.linspace(-2, 3, rows[0].shape[1]), rows[1]
        factors, factored = [], newton.factored
        monkeypatch.setattr(newton, "factored", lambda H: factors.append(1) or factored(H))
    whole = make().fit(*rows)
    assert "factored" not in name or factors
    with dask.config.set({"s3vm.checkpoint-interval": "0 s"}):
        n = len(whole.history_)
        for n_workers, place in ((2, n // 4), (0, n // 4), (3, 10**9)):
            made = make(checkpoint=tmp_path, callbacks=stop_after(place))
            if n_workers == 0:
                with pytest.raises(Stop):
                    made.fit(*rows)
                continue
            with (
                distributed.LocalCluster(
                    n_workers, threads_per_worker=1, processes=False, dashboard_address=":0"
                ) as cluster,
                distributed.Client(cluster),
            ):
                if place < n:
                    with pytest.raises(Stop):
                        made.fit(*rows)
                    assert holds_state(tmp_path)
                else:
                    made.fit(*rows)
    np.testing.assert_array_equal(made.coef_, whole.coef_)
    np.testing.assert_array_equal(made.transduction_, whole.transduction_)


SCRIPT = """
    import os, signal, sys
    import dask, numpy as np
    import dask_s3vm as s3
    from dask_s3vm.methods import run

    run.SAVING_SHARE = 1e9  # every state is written: the first one has nothing in it yet

    def die(row):
        if row["event"] == "anneal" and row["temperature"] < 1.0:
            os.kill(os.getpid(), signal.SIGKILL)

    X, y = np.load(sys.argv[1]), np.load(sys.argv[2])
    with dask.config.set({"s3vm.checkpoint-interval": "0 s", "s3vm.shard-bytes": 4096}):
        s3.DAS3VM(lam=1e-2, positive_ratio=0.5, checkpoint=sys.argv[3], callbacks=die).fit(X, y)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_client_that_is_killed(rows, tmp_path, tiny_shards):
    X, y = rows[0].toarray(), rows[1]
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    arguments = [str(tmp_path / name) for name in ("X.npy", "y.npy", "state")]
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(SCRIPT), *arguments], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert holds_state(tmp_path / "state")
    whole = METHODS["da"]().fit(X, y)
    later = []
    again = METHODS["da"](checkpoint=tmp_path / "state", callbacks=later.append).fit(X, y)
    np.testing.assert_array_equal(again.coef_, whole.coef_)
    assert len(later) < len(whole.history_)
    assert later[0]["temperature"] < 1.0, "all that was done before is there"
