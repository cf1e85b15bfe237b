"""Files of states: what is in them comes back, and nothing is believed that is not checked."""

import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_s3vm.checkpoints.state_file import holds_state, read_state, remove_state, write_state
from dask_s3vm.exceptions import CheckpointError
from dask_s3vm.methods.run import Saved, Snapshot

IDENTITY = {"estimator": "TSVM", "rows: shape": [3, 2]}


def state_of(**states):
    saved = {name: Saved(value, False, 3, 1) for name, value in states.items()}
    return Snapshot(saved, [{"level": 0.5}], 7)


def values_of(snapshot):
    return {name: one.value for name, one in snapshot.states.items()}


def test_a_state_comes_back(tmp_path):
    state = state_of(
        a={"w": np.arange(3.0), "bits": [np.uint8([1, 2]), np.uint8([])], "gap": float("inf")},
        b={"none": None, "text": "é", "inner": {"n": np.int64(4)}},
    )
    write_state(tmp_path / "deep" / "er", IDENTITY, state)
    back = read_state(tmp_path / "deep" / "er", IDENTITY)
    found = values_of(back)
    np.testing.assert_array_equal(found["a"].pop("w"), np.arange(3.0))
    bits = found["a"].pop("bits")
    assert [part.tolist() for part in bits] == [[1, 2], []]
    assert bits[0].dtype == np.uint8
    assert found == {"a": {"gap": float("inf")}, "b": state.states["b"].value}
    assert all(one == Saved(one.value, False, 3, 1) for one in back.states.values())
    assert back.history == [{"level": 0.5}]
    assert back.rounds == 7


def test_there_may_be_none(tmp_path):
    assert read_state(tmp_path / "nowhere", IDENTITY) is None
    assert not holds_state(tmp_path / "nowhere")
    remove_state(tmp_path / "nowhere")


def test_a_write_that_fails_leaves_the_last_state(tmp_path):
    write_state(tmp_path, IDENTITY, state_of(a={"n": 1}))
    with pytest.raises(TypeError, match="is a object"):
        write_state(tmp_path, IDENTITY, state_of(a={"n": object()}))
    assert values_of(read_state(tmp_path, IDENTITY)) == {"a": {"n": 1}}
    assert [path.name for path in tmp_path.iterdir()] == ["fit.npz"]


def rewritten(directory, change):
    """Change the header of a file."""
    path = directory / "fit.npz"
    with np.load(path) as arrays:
        held = dict(arrays)
    header = json.loads(bytes(held["header"]))
    change(header)
    held["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **held)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda header: header.update(format="other"), "is not a checkpoint"),
        (lambda header: header.update(version=99), "is of version 99, wanted 2"),
        (lambda header: header.update(identity=None), "does not say what it belongs to"),
        (lambda header: header["identity"].update(estimator="DAS3VM"), "estimator was DAS3VM"),
        (lambda header: header["state"].pop("rounds"), "other parts"),
        (lambda header: header["state"].update(rounds="7"), "rounds is a str, wanted int"),
        (lambda header: header["state"].update(history=[1]), "rows that are not dicts"),
        (lambda header: header["state"].update(states=[]), "states is a list, wanted dict"),
        (lambda header: header["state"]["states"].update(a=3), "wanted the fields of .*Saved"),
        (lambda header: header["state"]["states"]["a"].pop("n_iter"), "wanted the fields of"),
        (lambda header: header["state"]["states"]["a"].update(more=1), "wanted the fields of"),
        (lambda header: header["state"]["states"]["a"].update(n_iter="x"), "cannot be read"),
        (lambda header: header["state"]["states"]["a"].update(n_iter={}), "wanted the fields of"),
        (lambda header: header["state"]["states"]["a"].update(done=None), "wanted the fields of"),
        (lambda header: header["state"].update(states={"$array": "nothing"}), "cannot be read"),
        (lambda header: header["state"].update(states={"$call": "exit"}), "cannot be read"),
    ],
)
def test_other_headers_are_refused(change, named, tmp_path):
    write_state(tmp_path, IDENTITY, state_of(a={"w": np.arange(3.0)}))
    rewritten(tmp_path, change)
    with pytest.raises(CheckpointError, match=named):
        read_state(tmp_path, IDENTITY)


def test_objects_are_refused(tmp_path):
    np.savez(tmp_path / "fit.npz", header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(CheckpointError, match="Python objects"):
        read_state(tmp_path, IDENTITY)


def test_a_member_larger_than_the_file_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "fit.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", bytes(1 << 20))
    with pytest.raises(CheckpointError, match="compressed or longer"):
        read_state(tmp_path, IDENTITY)


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    write_state(directory, IDENTITY, state_of(a={"w": np.arange(300.0), "n": [1, None, "x"]}))
    return (directory / "fit.npz").read_bytes()


@settings(max_examples=150, deadline=None)
@given(cut=st.floats(0, 1), places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255))))
def test_damage_never_goes_unsaid_or_ends_elsewhere(whole_file, tmp_path_factory, cut, places):
    raw = bytearray(whole_file)
    for place, byte in places:
        raw[int(place * (len(raw) - 1))] = byte
    if cut < 0.5:
        raw = raw[: int(2 * cut * len(raw))]
    directory = tmp_path_factory.mktemp("damaged")
    (directory / "fit.npz").write_bytes(raw)
    try:
        back = read_state(directory, IDENTITY)
    except CheckpointError:
        return
    else:  # bytes of padding and of times are looked at by no one
        assert back.rounds == 7
        np.testing.assert_array_equal(values_of(back)["a"]["w"], np.arange(300.0))
