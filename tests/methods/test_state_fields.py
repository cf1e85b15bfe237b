"""States and results field by field."""

import json
from typing import Any

import numpy as np
import pytest
from walks import (
    Place,
    Range,
    Walk,
    WalkState,
    same,
)

from dask_s3vm.io.archive import decode, encode
from dask_s3vm.methods import run
from dask_s3vm.methods.run import Checkpoint, Record, Saved
from dask_s3vm.methods.state_fields import from_fields, to_fields

# States field by field


def through_json(kind, value):
    """Write a value and read it back."""
    arrays = {}
    text = json.dumps(encode(to_fields(value), "value", arrays), allow_nan=False)
    return from_fields(kind, decode(json.loads(text), arrays))


def state_after(n_steps):
    walk = Walk()
    state = walk.start()
    for _ in range(n_steps):
        state = walk.advance(state)
    return state


@pytest.mark.parametrize("n_steps", [0, 1, 2, 5])
def test_a_state_comes_back_bit_by_bit(n_steps):
    state = state_after(n_steps)
    back = through_json(WalkState, state)
    same(back, state)
    assert isinstance(back, WalkState)
    assert isinstance(back.place, Place)
    assert isinstance(back.ends, Range)
    assert (back.last is None) == (n_steps == 0)
    assert n_steps == 0 or isinstance(back.last, Place)
    assert type(back.counts) is tuple
    assert type(back.counts[1]) is int  # it was a number of numpy's
    assert type(back.done) is bool
    assert sorted(back.by_number) == list(range(n_steps))
    assert all(isinstance(one, Range) for one in back.by_number.values())
    assert back.place.value == (np.inf if n_steps == 0 else state.place.value)


def test_a_value_of_its_type_stays_what_it_is():
    state = state_after(2)
    assert from_fields(WalkState, state) is state
    assert from_fields(list[np.ndarray], state.trail)[0] is state.trail[0]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (float, float("inf")),
        (float, -float("inf")),
        (float, 3),
        (float, np.float32(0.25)),
        (float, np.int64(4)),
        (int, np.int32(-5)),
        (bool, np.bool_(True)),
        (str, "é"),
        (str | None, None),
        (str | None, "x"),
        (list[int], []),
        (list[float], [1.0, np.float64(2.0)]),
        (tuple[int, ...], (1, 2, 3)),
        (tuple[int, str], (1, "x")),
        (dict[int, str], {1: "x", -2: "y"}),
        (dict[str, dict[int, float]], {"x": {1: 2.0}, "$y": {}}),
        (Any, [1, {"x": None}]),
    ],
)
def test_values_come_back_with_their_type(kind, value):
    back = through_json(kind, value)
    assert back == value
    if kind in (float, int, bool, str):
        assert isinstance(back, kind)
    elif value is not None:
        assert type(back) is type(value)


def test_not_a_number_comes_back():
    assert np.isnan(through_json(float, float("nan")))


FIELDS = to_fields(state_after(3))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("place", None),
        ("place", {"w": np.zeros(3)}),
        ("place", {"w": np.zeros(3), "value": 1.0, "more": 2}),
        ("place", {"w": [1.0], "value": 1.0}),
        ("place", {"w": np.zeros(3), "value": "1.0"}),
        ("place", {"w": np.zeros(3), "value": {}}),
        ("place", {"w": np.zeros(3), "value": 10**400}),
        ("place", {"w": {}, "value": 1.0}),
        ("place", {}),
        ("ends", [1.0]),
        ("ends", [1.0, np.zeros(1), 2]),
        ("ends", {}),
        ("ends", {"low": 1.0, "high": np.zeros(1)}),
        ("last", 3),
        ("trail", np.zeros(3)),
        ("trail", {}),
        ("trail", [np.zeros(3), None]),
        ("by_number", [1, 2]),
        ("by_number", {1: 2}),
        ("by_number", {"one": [1.0, np.zeros(1)]}),
        ("counts", [1]),
        ("counts", [1, 2, 3]),
        ("counts", [1, 2.5]),
        ("least", None),
        ("least", "inf"),
        ("scale", "x"),
        ("n_taken", 2.5),
        ("n_taken", float("inf")),
        ("n_taken", "3"),
        ("n_taken", {}),
        ("done", "no"),
        ("done", None),
    ],
)
def test_fields_of_something_else_are_refused(name, value):
    with pytest.raises(ValueError, match=r"wanted|zip\(\)"):
        from_fields(WalkState, {**FIELDS, name: value})


@pytest.mark.parametrize("value", [None, 3, [], {}, {"done": True}, {**FIELDS, "more": 1}])
def test_what_is_no_state_is_refused(value):
    with pytest.raises(ValueError, match=r"wanted the fields of .*WalkState"):
        from_fields(WalkState, value)


def test_a_record_refuses_a_state_of_another_method():
    checkpoint, walk = Checkpoint(), Walk()
    state = {key: value for key, value in FIELDS.items() if key != "trail"}
    checkpoint.save(run.Snapshot({"walk": Saved(state, False, 3, 0)}))
    with pytest.raises(ValueError, match="wanted the fields of"):
        Record(checkpoint=checkpoint).run("walk", walk)
    assert walk.called == ["close"]
    checkpoint.save(run.Snapshot({"walk": Saved(FIELDS, True, 3, 0)}))
    with pytest.raises(ValueError, match="wanted the fields of"):
        Record(checkpoint=checkpoint).run("walk", walk)
