"""The stages of QN-S3VM, and losses of workers at any moment."""

import numpy as np
import pytest

from dask_s3vm.engine.ingest import ingest
from dask_s3vm.methods.base import BinaryJob, BinaryTask, Start
from dask_s3vm.methods.qn import train_qn
from dask_s3vm.methods.run import Record
from dask_s3vm.parameters.methods import QNParameters
from dask_s3vm.parameters.svm import STAGES

pytestmark = pytest.mark.usefixtures("tiny_shards")


@pytest.fixture(scope="module")
def medium():
    """200 rows of three classes, 30 labeled, several shards."""
    rng = np.random.default_rng(6)
    truth = rng.permutation(np.arange(200) % 3)
    X = rng.normal(size=(200, 6)) + 2.0 * np.eye(6)[truth]
    return X, np.where(np.arange(200) < 30, truth, -1)


def train(engine, record, positive=1, start=None, **more):
    task = BinaryTask(positive, np.full(3, 1 / 30), 170, 170.0, 1 / 3)
    wanted = {
        "lam": 0.02, "lam_unlabeled": 0.8, "annealing": STAGES, "offset": "free", "tol": 1e-6,
        "gtol": 1e-9, "max_iter": 500,
    }  # fmt: skip
    place = Start(np.zeros(engine.layout.n_features + 1) if start is None else start)
    name, tags = f"class {positive}", {"class": positive}
    return train_qn(
        BinaryJob(engine, record, task, place, name, tags), QNParameters(**(wanted | more))
    )


def trained_bits(engine):
    record = Record()
    found = [train(engine, record, positive) for positive in (0, 1, 2)]
    numbers = [(one.w.tobytes(), one.objective, one.n_iter, one.termination) for one in found]
    return numbers, [{**row, "seconds": 0} for row in record.history]


def test_a_loss_at_any_moment_changes_no_bit(losses, medium):
    losses(*medium).bits_of(trained_bits, n_moments=25, least=100)


def test_the_last_stage_takes_steps_even_if_they_promise_little(medium):
    """A stage that is all but the same as the last one is not taken for solved at once."""
    engine = ingest(*medium).place(np.arange(3))
    record = Record()
    train(engine, record, annealing=(0.0, 0.999999, 1.0), tol=1e-3)
    assert sum(row["stage"] == 2 for row in record.history) >= 4
    engine.close()


@pytest.mark.parametrize("offset", ["balanced", "free", "none"])
def test_a_start_at_the_solution_stays_there(medium, offset):
    engine = ingest(*medium).place(np.arange(3))
    how = {"fit_intercept": False} if offset == "none" else {"offset": offset}
    first = train(engine, Record(), **how, tol=1e-10)
    record = Record()
    again = train(engine, record, start=first.w, annealing=(1.0,), **how, tol=1e-10)
    assert again.objective == pytest.approx(first.objective, rel=1e-9)
    np.testing.assert_allclose(again.w, first.w, atol=1e-4)
    assert record.history[-1]["evaluation"] == len(record.history) < 10
    assert again.n_iter == 1
    engine.close()


def test_every_evaluation_is_one_round(medium):
    engine = ingest(*medium).place(np.arange(3))
    record = Record()
    solution = train(engine, record)
    evaluations = record.history[-1]["evaluation"]
    assert engine.rounds == evaluations + 3  # targets, costs, mean
    assert evaluations == len(record.history)
    assert solution.n_iter == len(STAGES)
    engine.close()
