"""STAR-SVM on shards: a worker that is lost, at any moment, changes nothing."""

import numpy as np
import pytest

from dask_s3vm.methods.base import History
from dask_s3vm.methods.star import StarSettings, class_codes, train_sharded

pytestmark = pytest.mark.usefixtures("tiny_shards")


def trained_bits(engine):
    history = History()
    settings = StarSettings(0.8, 1e-4, 1e-2, 1000, None, 0.05)
    found = []
    for positive in (0, 1):
        costs = np.array([0.7, 1.3])
        w, one = train_sharded(engine, costs, (1.3, 0.7), settings, history, positive)
        found += [w.tobytes(), one.labels.tobytes(), one.stages.tobytes(), one.ranking.tobytes()]
    codes, weights = class_codes(engine)
    assert weights is None
    return [*found, codes.tobytes()], [{**row, "seconds": 0} for row in history.rows]


def test_a_loss_at_any_moment_changes_no_bit(losses, make_rows):
    X, y = make_rows(300, 20, seed=8)
    world = losses(X, np.where(np.arange(300) % 6 == 0, y, -1))
    wanted = trained_bits(world.source)
    assert trained_bits(world.engine()) == wanted
    total = world.calls
    assert total > 50
    for at in range(1, total + 1, max(1, total // 20)):
        engine = world.engine(at)
        assert trained_bits(engine) == wanted, f"lost at call {at}"
        assert engine.losses == 1
