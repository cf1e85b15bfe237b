"""Rows that stay in memory-mapped files."""

import mmap
import os
import pickle
from dataclasses import replace

import numpy as np
import psutil
import pytest
import scipy.sparse as sp
from dask.sizeof import sizeof
from mapped_cases import opener, write_rows

from dask_s3vm.engine import memory, plan
from dask_s3vm.engine.blocks import load_rows, make_block, opened, slice_block
from dask_s3vm.engine.local import Group
from dask_s3vm.engine.mapped import MappedRows, mapped_array
from dask_s3vm.engine.shard import build_shard
from dask_s3vm.kernels.rows import CSR

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/maps"), reason="maps of a process are known on Linux alone"
)


@pytest.fixture
def numbers(tmp_path):
    """A file of a million float32, and its name."""
    path = tmp_path / "a file.bin"
    values = np.arange(1_000_000, dtype=np.float32)
    values.tofile(path)
    return str(path), values


def views(path):
    """Views of a file from entry 10 on, by whatever mapped it."""
    yield np.memmap(path, np.float32, "r")[10:]
    yield np.asarray(np.memmap(path, np.float32, "r+"))[10:]
    with open(path, "rb") as stream:
        yield np.frombuffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), np.float32)[10:]
    pyarrow = pytest.importorskip("pyarrow")
    yield np.frombuffer(pyarrow.memory_map(path).read_buffer(), np.float32)[10:]


def test_a_view_of_a_file_is_found_and_opened_again(numbers):
    path, values = numbers
    for view in views(path):
        found = mapped_array(view)
        assert found.file.path == path
        assert found.offset == 40
        again = pickle.loads(pickle.dumps(found)).open()
        assert not again.flags.writeable
        assert np.array_equal(again, values[10:])
        assert np.array_equal(found.part(5, 9).open(), values[15:19])


def test_what_is_not_a_file_is_not_taken_for_one(numbers, tmp_path):
    path, values = numbers
    assert mapped_array(values[3:]) is None
    assert mapped_array(np.frombuffer(values.tobytes(), np.float32)) is None
    assert mapped_array(np.frombuffer(mmap.mmap(-1, 4096), np.float32)) is None
    assert mapped_array(np.memmap(path, np.float32, "c")) is None  # may differ from the file
    assert mapped_array(np.memmap(path, np.float32, "r")[::2]) is None
    gone = np.memmap(path, np.float32, "r")
    os.remove(path)
    assert mapped_array(gone) is None
    values.tofile(path)  # another file of the same name
    assert mapped_array(gone) is None


def test_a_file_that_has_changed_or_is_missing_is_named(numbers):
    path, _ = numbers
    found = mapped_array(np.memmap(path, np.float32, "r"))
    with open(path, "ab") as stream:
        stream.write(b"more")
    with pytest.raises(OSError, match=r"a file\.bin was changed while"):
        found.open()
    os.remove(path)
    with pytest.raises(FileNotFoundError, match="need a file system that all workers share"):
        found.open()


def test_pages_are_let_go(tmp_path):
    path = tmp_path / "large.bin"
    np.ones(2**23).tofile(path)  # 64 MiB
    found = mapped_array(np.memmap(path, np.float64, "r"))
    view = found.open()
    process = psutil.Process()
    assert view.sum() == 2**23
    before = process.memory_info().rss
    found.part(2**20, 2**23).release()
    assert before - process.memory_info().rss > 48 * 2**20
    assert view.sum() == 2**23


@pytest.fixture
def data(sparse_data):
    X, y = sparse_data
    return X.astype(np.float32), y


@pytest.mark.parametrize("form", ["csr", "gcxs"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_block_of_views_keeps_the_place_and_not_the_bytes(tmp_path, data, form, dtype):
    X = data[0].astype(dtype)
    path = str(tmp_path / "rows.bin")
    X_again = opener(path, write_rows(path, X, [600]), X.shape[1], form)(0)
    block = make_block(X_again, mapped=True)
    assert isinstance(block.rows, MappedRows)
    assert make_block(X_again).rows.values.nbytes == X.data.size * 4 or dtype == np.float64
    assert len(pickle.dumps(block)) < 601 * 4 + 2000
    assert sizeof(block.rows) < 601 * 4 + 1000
    part = opened(slice_block(pickle.loads(pickle.dumps(block)), 100, 250).rows)
    wanted = X[100:250]
    for found, right in zip(part, (wanted.indptr, wanted.indices, wanted.data), strict=True):
        assert np.array_equal(found, right)
    facts = plan.facts_of(block)
    assert (facts.n_rows, facts.sparse, facts.mapped) == (600, True, True)
    assert facts.cost == X.nnz + 4 * 600
    assert facts.nbytes == X.data.nbytes + X.nnz * 4 + 601 * 4


def test_rows_that_are_brought_in_are_as_if_never_mapped(tmp_path, data):
    X, _ = data
    path = str(tmp_path / "rows.bin")
    wide = X.astype(np.float64)
    block = make_block(opener(path, write_rows(path, wide, [600]), 30)(0), mapped=True)
    found, right = load_rows(block.rows, 30), make_block(wide).rows
    for a, b in zip(found, right, strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)
    assert not np.shares_memory(found.values, opened(block.rows).values)


def test_dense_rows_can_stay_in_a_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 7))
    np.save(tmp_path / "X.npy", X)
    block = make_block(np.load(tmp_path / "X.npy", mmap_mode="r"), mapped=True)
    assert isinstance(block.rows, MappedRows)
    assert np.array_equal(opened(slice_block(block, 10, 20).rows), X[10:20])
    assert plan.facts_of(block).cost == 50 * 11
    integers = np.arange(12).reshape(3, 4)
    np.save(tmp_path / "n.npy", integers)
    block = make_block(np.load(tmp_path / "n.npy", mmap_mode="r"), mapped=True)
    assert isinstance(block.rows, np.ndarray)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: X.data.__setitem__(-1, np.nan), "NaN or infinity"),
        (lambda X: X.indices.__setitem__(-1, 30), "column numbers outside 0..29"),
        (lambda X: X.indices.__setitem__(0, -1), "column numbers outside 0..29"),
    ],
)
def test_rows_in_files_are_checked(tmp_path, data, spoil, message):
    X = data[0].copy()
    spoil(X)
    path = str(tmp_path / "rows.bin")
    block = opener(path, write_rows(path, X, [600]), 30)
    with pytest.raises(ValueError, match=message):
        make_block(block(0), mapped=True)


def mapped_shard(path, X, y):
    block = make_block(opener(path, write_rows(path, X, [600]), 30)(0), y, mapped=True)
    layout = plan.layout_of([plan.facts_of(block)], (0, 400), None, mapped=True)
    return build_shard(0, 0, layout, [(block, 100, 500)], np.array([0, 1]), None, (None, None))


def test_a_shard_is_a_view_of_the_map(tmp_path, data):
    X, y = data
    shard = mapped_shard(str(tmp_path / "rows.bin"), X, y)
    whole = np.frombuffer(shard.in_file.values.file.map(), np.uint8)
    assert np.shares_memory(shard.rows.values, whole)
    assert np.shares_memory(shard.rows.indices, whole)
    assert np.array_equal(shard.rows.values, X[100:500].data)
    assert np.array_equal(shard.codes, y[100:500])
    held = 401 * 4 + 400
    assert held <= shard.nbytes <= held + 100
    moved = pickle.loads(pickle.dumps(shard))
    assert len(pickle.dumps(shard)) < held + 3000
    assert isinstance(moved.rows, CSR)
    assert np.shares_memory(moved.rows.values, whole)  # one map per process


def test_a_shard_lets_go_only_where_memory_is_short(tmp_path, data, monkeypatch):
    shard = mapped_shard(str(tmp_path / "rows.bin"), *data)
    released = []
    monkeypatch.setattr(MappedRows, "release", lambda self: released.append(self))
    shard.release_pages()
    assert released == []
    assert shard.may_copy(0.1)
    monkeypatch.setattr(memory, "limit_here", lambda: 1000)
    shard.release_pages()
    assert released == [shard.in_file]
    assert not shard.may_copy(0.1)
    shard.in_file = None  # rows in memory are not asked about
    assert shard.may_copy(0.1)


def test_passes_over_files_go_forward_and_backward_in_turn(tmp_path, data):
    shard = mapped_shard(str(tmp_path / "rows.bin"), *data)
    ahead = [0, 1, 2, 3, 4, 5]
    for in_file, orders in ((shard.in_file, [ahead[::-1], ahead]), (None, [ahead, ahead])):
        group = Group([replace(shard, number=i, in_file=in_file) for i in ahead], 6, 1)
        sums = set()
        for order in 2 * orders:
            seen = []

            def third(shard, seen=seen):
                seen.append(shard.number)
                return (1.0 / (3.0 + shard.number),)

            sums.add(group.sum(third))
            assert seen == order
        assert len(sums) == 1  # the same bits
        assert group.each(lambda shard: shard.number) == ahead


def test_an_empty_block_does_not_keep_the_others_from_being_mapped():
    assert plan.facts_of(make_block(sp.csr_array((0, 30)), mapped=True)).mapped
    assert plan.facts_of(make_block(sp.csr_array((5, 30)), mapped=True)).mapped
    assert not plan.facts_of(make_block(sp.csr_array(np.eye(3)), mapped=True)).mapped
