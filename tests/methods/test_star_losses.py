"""STAR-SVM on shards: a worker that is lost, at any moment, changes nothing."""

import numpy as np
import pytest

from dask_s3vm.methods.run import Record
from dask_s3vm.methods.star import STAGE_GAP, SelfTraining, class_codes
from dask_s3vm.parameters.methods import STARParameters
from dask_s3vm.problems.sharded_dual import ShardedDual

pytestmark = pytest.mark.usefixtures("tiny_shards")


def trained_bits(engine):
    record = Record()
    assert STAGE_GAP == 1e-2
    parameters = STARParameters(confidence=0.8, tol=1e-4, max_iter=1000, min_share=0.05)
    found = []
    for positive in (0, 1):
        problem = ShardedDual(engine, positive, np.array([0.7, 1.3]))
        training = SelfTraining(problem, (1.3, 0.7), parameters)
        one = record.run(f"class {positive}", training, {"class": positive})
        assert np.array_equal(one.w, problem.w)
        found += [one.w.tobytes(), one.objective, one.gap, one.n_iter, one.termination]
        found += [one.labels.tobytes(), one.stages.tobytes(), one.ranking.tobytes()]
    codes, weights = class_codes(engine)
    assert weights is None
    return [*found, codes.tobytes()], [{**row, "seconds": 0} for row in record.history]


def test_a_loss_at_any_moment_changes_no_bit(losses, make_rows):
    X, y = make_rows(300, 20, seed=8)
    world = losses(X, np.where(np.arange(300) % 6 == 0, y, -1))
    wanted = trained_bits(world.source)  # compiles: slow trainings save more states
    assert world.bits_of(trained_bits) == wanted
