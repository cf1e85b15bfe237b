"""Arrow IPC and Parquet: mapped without a copy, and never trusted."""

import dask
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from unsummed import arrow_without_checksums

from dask_s3vm.engine.mapped import mapped_array
from dask_s3vm.io import DataFileError, read_arrow, read_data, read_parquet, write_data

U32, F32 = pa.list_(pa.uint32()), pa.list_(pa.float32())
X = sp.random_array((300, 40), density=0.2, rng=np.random.default_rng(7), format="csr")
Y = np.arange(300) % 3


def save(path, columns, metadata=None, batches=1, schema=None):
    """Write a table with pyarrow's own writers."""
    table = pa.table(columns, schema=schema).replace_schema_metadata(metadata)
    rows = -(-len(table) // batches)
    if str(path).endswith(".parquet"):
        pq.write_table(table, path, row_group_size=rows)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return path


def lists(rows, kind):
    return pa.array(rows, type=kind)


def blocks_of(X):
    return list(dask.compute(*X.to_delayed().ravel()))


@pytest.fixture(params=["arrow", "parquet"])
def form(request):
    return request.param


@pytest.fixture
def good():
    return {
        "label": pa.array([1, -1, 1]),
        "indices": lists([[0, 3], [], [2]], U32),
        "values": lists([[1, 2], [], [3]], F32),
    }


def test_files_of_other_tools(tmp_path, good, form):
    path = save(tmp_path / f"rows.{form}", good, {"n_features": "6"}, batches=2)
    X, y = read_data(path, block="scipy")
    assert X.chunks == ((2, 1), (6,))
    whole = sp.vstack(blocks_of(X)).toarray()
    assert whole.tolist() == [[1, 0, 0, 2, 0, 0], [0] * 6, [0, 0, 3, 0, 0, 0]]
    assert y.compute().tolist() == [1, -1, 1]
    assert read_data(path, n_features=9)[0].shape == (3, 9)
    with pytest.raises(DataFileError, match=rf"rows\.{form}: has 6 columns, but n_features is 5"):
        read_data(path, n_features=5)


def test_number_of_columns_is_looked_for_where_no_file_tells(tmp_path, good, form):
    save(tmp_path / f"a.{form}", good, batches=3)
    wide = good | {"indices": lists([[0, 1], [], [8]], U32)}
    save(tmp_path / f"b.{form}", wide)
    X, _ = read_data(str(tmp_path / f"*.{form}"))
    assert X.shape == (6, 9)
    empty = {name: column.slice(1, 1) for name, column in good.items()}
    path = save(tmp_path / f"c.{form}", empty)
    with pytest.raises(DataFileError, match=r"no row has an entry: n_features must be given"):
        read_data(path)
    assert read_data(path, n_features=2)[0].compute().shape == (1, 2)


@pytest.mark.parametrize("numbers", [pa.int8(), pa.int64(), pa.uint64()])
@pytest.mark.parametrize("large", [False, True])
def test_other_types_of_lists(tmp_path, form, numbers, large):
    make = pa.large_list if large else pa.list_
    columns = {
        "indices": lists([[0, 3], [], [2]], make(numbers)),
        "values": lists([[1, 2], [], [3]], make(pa.int32() if large else pa.float64())),
        "label": pa.array(["a", "b", "a"]).dictionary_encode(),
    }
    X, y = read_data(save(tmp_path / f"rows.{form}", columns), block="scipy")
    assert blocks_of(X)[0].toarray().tolist() == [[1, 0, 0, 2], [0] * 4, [0, 0, 3, 0]]
    assert y.compute().tolist() == ["a", "b", "a"]


def test_blocks_are_views_of_the_file(tmp_path):
    lazy = dask.array.from_array(X.toarray(), chunks=(70, 40)).map_blocks(sp.csr_array)
    write_data(lazy, Y, tmp_path / "rows.arrow")
    got, y = read_data(tmp_path / "rows.arrow", block="scipy")
    assert got.chunks[0] == (70, 70, 70, 70, 20)
    for block in blocks_of(got):
        for part in (block.data, block.indices, block.indptr):
            assert mapped_array(part) is not None
            assert part.flags.aligned
    assert np.array_equal(y.compute(), Y)
    dense = X.toarray()
    write_data(dense, None, tmp_path / "dense.arrow")
    (block,) = blocks_of(read_data(tmp_path / "dense.arrow")[0])
    assert mapped_array(block) is not None
    assert np.array_equal(block, dense)


@pytest.mark.parametrize("y", [None, Y, Y / 3, Y.astype("i1"), Y.astype(str)])
def test_what_is_written_is_arrow(tmp_path, y):
    write_data(X, y, tmp_path / "rows.arrow")
    with pa.memory_map(str(tmp_path / "rows.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    table.validate(full=True)
    assert table.schema.metadata[b"n_features"] == b"40"
    assert table["indices"].to_pylist() == [
        row.indices.tolist() for row in map(X.__getitem__, [slice(i, i + 1) for i in range(300)])
    ]
    assert table["values"].combine_chunks().values.to_numpy().tolist() == X.data.tolist()
    assert ("label" in table.schema.names) == (y is not None)
    if y is not None:
        assert table["label"].to_pylist() == y.tolist()


def test_labels_are_read_without_rows(tmp_path, good):
    bad = good | {"indices": lists([[0, 9], [], [2]], U32)}
    X, y = read_data(save(tmp_path / "rows.arrow", bad, {"n_features": "4"}))
    assert y.compute().tolist() == [1, -1, 1]
    with pytest.raises(DataFileError, match="column number 9"):
        X.compute()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": lists([[0, 3], [], [4]], U32)}, "row 2: column number 4, wanted 0 to 3"),
        ({"indices": lists([[0, 3], [], [10**12]], pa.list_(pa.int64()))},
         "row 2: column number 1000000000000, wanted 0 to 3"),
        ({"indices": lists([[-1, 3], [], [2]], pa.list_(pa.int64()))}, "row 0: column number -1"),
        ({"indices": lists([[0, 3], [], [2**64 - 1]], pa.list_(pa.uint64()))}, "row 2: column"),
        ({"indices": lists([[3, 0], [], [2]], U32)}, "row 0: column number 0 after 3, but columns"),
        ({"indices": lists([[3, 3], [], [2]], U32)}, "row 0: column number 3 after 3"),
        ({"indices": lists([[3], [], [2]], U32)}, "row 0: 'indices' and 'values' are of different"),
        ({"indices": lists([[0, 3], None, [2]], U32)}, "row 1: 'indices' is null"),
        ({"values": lists([[1, None], [], [3]], F32)}, "'values' has a null among its numbers"),
        ({"values": lists([[1, 2], [], [np.nan]], F32)}, "row 2: value nan of column 2 is not"),
        ({"values": lists([[1, np.inf], [], [3]], F32)}, "row 0: value inf of column 3"),
        ({"label": pa.array([1, None, 1])}, "row 1: the label is null"),
        ({"label": pa.array([1.0, np.inf, 1])}, "row 1: label inf is not finite"),
    ],
)  # fmt: skip
def test_bad_rows_are_told_with_their_place(tmp_path, good, form, change, message):
    path = save(tmp_path / f"rows.{form}", good | change, {"n_features": "4"})
    X, y = read_data(path)
    unit = "record batch" if form == "arrow" else "row group"
    with pytest.raises(DataFileError, match=rf"rows\.{form}, {unit} 0.*{message}"):
        dask.compute(X, y)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"indices": [1], "values": [[1.0]]}, r"column 'indices' is int64; wanted"),
        ({"indices": [[1.5]], "values": [[1.0]]}, r"column 'indices' is list<.*double"),
        ({"indices": [[1]], "values": [["a"]]}, r"column 'values' is list<.*string"),
        ({"row": [[1.0]]}, r"column 'row' is list<.*; wanted"),
        ({"indices": [[1]], "values": [[1.0]], "label": [[1]]}, r"column 'label' is list"),
    ],
)
def test_wrong_schema(tmp_path, form, columns, message):
    path = save(tmp_path / f"rows.{form}", columns)
    with pytest.raises(DataFileError, match=rf"rows\.{form}: {message}"):
        read_data(path)


def test_plain_columns_are_no_rows(tmp_path, form):
    # `read_data` takes such a file for a table.
    path = save(tmp_path / f"rows.{form}", {"a": [1], "b": [2]})
    read = read_arrow if form == "arrow" else read_parquet
    with pytest.raises(DataFileError, match=r"has the columns \['a', 'b'\]; wanted columns 'indi"):
        read(path)


@pytest.mark.parametrize("told", ["0", "-1", "many", "1000000000000", "9" * 5000])
def test_wrong_metadata(tmp_path, good, form, told):
    path = save(tmp_path / f"rows.{form}", good, {"n_features": told})
    with pytest.raises(DataFileError, match=r"metadata n_features is .*, wanted 1 to 4294967295"):
        read_data(path)


def test_null_labels_can_be_the_mark(tmp_path, good, form):
    path = save(tmp_path / f"rows.{form}", good | {"label": pa.array([1, None, 1])})
    assert read_data(path, unlabeled=-1)[1].compute().tolist() == [1, -1, 1]
    with pytest.raises(DataFileError, match="unlabeled is 'none', which is no int64"):
        read_data(path, unlabeled="none")[1].compute()


@pytest.mark.parametrize("keep", [0, 1, 8, 100, -1, -6, -100])
def test_files_that_are_cut_short(tmp_path, good, form, keep):
    path = save(tmp_path / f"rows.{form}", good)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataFileError, match=rf"rows\.{form}: cannot be read as {form}"):
        read_data(path)


@pytest.mark.parametrize("y", [Y, Y.astype(str)], ids=["numbers", "strings"])
def test_files_with_a_flipped_byte_give_an_error_or_rows_in_order(tmp_path, y):
    small = X[:20]
    write_data(small, y[:20], tmp_path / "good.arrow")
    whole = (tmp_path / "good.arrow").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.integers(0, len(whole), 250):
        hurt = bytearray(whole)
        hurt[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "bad.arrow").write_bytes(hurt)
        try:
            got, labels = read_data(tmp_path / "bad.arrow", block="scipy")
            blocks = blocks_of(got)
            dask.compute(labels)
        except DataFileError as error:
            refused += "bad.arrow" in str(error)
            continue
        for block in blocks:
            block.check_format(full_check=True)
            assert np.all(np.isfinite(block.data))
    assert refused > 20


def test_offsets_that_lie_are_refused(tmp_path):
    write_data(X, None, tmp_path / "rows.arrow")
    whole = arrow_without_checksums((tmp_path / "rows.arrow").read_bytes())
    offsets = X.indptr.astype("i4").tobytes()
    for wrong in (2**31 - 1, -1, int(X.indptr[-1]) + 1):
        lie = X.indptr.astype("i4")
        lie[5] = wrong
        (tmp_path / "bad.arrow").write_bytes(whole.replace(offsets, lie.tobytes()))
        with pytest.raises(
            DataFileError, match=r"record batch 0: column 'indices' is broken: Offset .* slot \d"
        ):
            read_data(tmp_path / "bad.arrow")[0].compute()


def test_files_that_do_not_fit_each_other(tmp_path, good, form):
    save(tmp_path / f"a.{form}", good)
    save(tmp_path / f"b.{form}", {"row": pa.array([[1.0, 2.0]], type=pa.list_(pa.float64(), 2))})
    with pytest.raises(
        DataFileError, match=rf"b\.{form}: has dense rows, but .*a\.{form} has spar"
    ):
        read_data(str(tmp_path / f"*.{form}"))
    save(tmp_path / f"b.{form}", {k: v for k, v in good.items() if k != "label"})
    with pytest.raises(DataFileError, match=rf"b\.{form}: has no labels, but other files have"):
        read_data(str(tmp_path / f"*.{form}"))


def test_other_file_systems(form):
    url = f"memory://rows-{form}/all.{form}"
    fsspec.filesystem("memory").mkdir(f"/rows-{form}")
    write_data(X, Y, url)
    got, y = read_data(url, block="scipy")
    assert (sp.vstack(blocks_of(got)) != X).nnz == 0
    assert np.array_equal(y.compute(), Y)
    assert list(fsspec.filesystem("memory").ls(f"/rows-{form}", detail=False)) == [
        f"/rows-{form}/all.{form}"
    ]
