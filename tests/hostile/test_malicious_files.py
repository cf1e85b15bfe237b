"""Files, and addresses, that are made to do harm."""

import gzip
import io
import json
import socket
import threading
import zipfile

import dask
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from dask_s3vm import L2SVM, load_model, save_model
from dask_s3vm import io as s3io
from dask_s3vm.cli import main
from dask_s3vm.io import DataFileError, ModelFileError, sources, table_files
from dask_s3vm.io.archive import read_header


@pytest.fixture
def model(tmp_path):
    """The file of a model."""
    X = np.random.default_rng(0).normal(size=(20, 3))
    save_model(L2SVM().fit(X, np.arange(20) % 2), tmp_path / "model.npz")
    return tmp_path / "model.npz"


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def array(values):
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def header_of(members):
    return json.loads(np.load(io.BytesIO(members["header.npy"])).tobytes())


def with_header(members, header):
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    return members | {"header.npy": array(text)}


def test_a_zip_bomb_is_refused_before_it_goes_off(tmp_path):
    path = tmp_path / "bomb.npz"
    content = array(np.zeros((1000, 1000)))
    write_members(path, {"header.npy": content}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < len(content) / 100
    with pytest.raises(ModelFileError, match="compressed"):
        load_model(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("block", [None, "gcxs"])
def test_a_size_is_not_believed(tmp_path, compression, block):
    """Rows may be compressed, but no array is larger than what is there to fill it."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 8)}
    )
    path = tmp_path / "rows.npz"
    write_members(path, {"X.npy": stream.getvalue() + bytes(640)}, compression)
    with pytest.raises(DataFileError, match=r"rows\.npz.*does not fit its member"):
        dask.compute(*s3io.read_npz(path, block=block), scheduler="sync")


@pytest.mark.parametrize("name", ["../outside.npy", "/tmp/outside.npy", "a/../../outside.npy"])
def test_names_in_an_archive_are_no_paths(tmp_path, model, name):
    folder = tmp_path / "inner"
    folder.mkdir()
    path = folder / "model.npz"
    write_members(path, members_of(model) | {name: array(np.zeros(3))})
    load_model(path)
    X = array(np.zeros((2, 3)))
    write_members(folder / "rows.npz", {"X.npy": X, name: X})
    s3io.read_npz(folder / "rows.npz")
    assert sorted(one.name for one in tmp_path.rglob("*.np*")) == [
        "model.npz",
        "model.npz",
        "rows.npz",
    ]


@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "load_model", "object", ""])
def test_a_model_file_cannot_name_a_class(model, name):
    members = members_of(model)
    write_members(model, with_header(members, header_of(members) | {"class": name}))
    with pytest.raises(ModelFileError, match="is not an estimator"):
        load_model(model)


@pytest.mark.parametrize("name", ["checkpoint", "callbacks", "verbose"])
def test_a_model_file_cannot_say_what_the_next_fit_does(model, tmp_path, name):
    members = members_of(model)
    header = header_of(members)
    header["params"] |= {name: str(tmp_path / "elsewhere")}
    write_members(model, with_header(members, header))
    with pytest.raises(ModelFileError, match=f"has no parameters.*{name}"):
        load_model(model)


@pytest.mark.parametrize(
    "header", [b"{'descr': '<f8', 'shape': (", b"{'descr': '''", b"(" * 5000, b"[" * 90 + b"]" * 90]
)
def test_headers_that_are_no_headers(tmp_path, header):
    path = tmp_path / "rows.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(DataFileError, match=r"rows\.npy"):
        s3io.read_data(path)


def test_codes_of_a_parquet_dictionary_that_has_no_such_word(tmp_path, monkeypatch):
    """Nothing that pyarrow reads from a damaged file is taken on trust."""
    words = pa.array(["red", "green"])
    codes = pa.array(np.arange(20, dtype=np.int32) % 3)
    wrong = pa.DictionaryArray.from_arrays(codes, words, safe=False)
    path = tmp_path / "t.parquet"
    right = pa.array(["red", "green"] * 10).dictionary_encode()
    parquet.write_table(pa.table({"kind": right, "label": np.arange(20) % 2}), path)

    def read(format, file, numbers, columns):
        return pa.table({"kind": wrong, "label": np.arange(20) % 2}).select(columns), None

    monkeypatch.setattr(table_files, "read_batches", read)
    with pytest.raises(DataFileError, match=r"t\.parquet.*out of bounds"):
        s3io.read_table(path, label="label")


def test_a_parquet_with_a_huge_dictionary_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    kinds = pa.array([f"word {i}" for i in range(20_000)]).dictionary_encode()
    parquet.write_table(pa.table({"kind": kinds, "label": np.arange(20_000) % 2}), path)
    with pytest.raises(ValueError, match="'kind' has more than 10000 categories"):
        s3io.read_table(path, label="label")


def test_a_row_without_end_is_looked_at_once(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"0" * 1_000_000))
    looks, row_ends = [], sources.row_ends
    monkeypatch.setattr(
        sources, "row_ends", lambda text, quoted: looks.append(len(text)) or row_ends(text, quoted)
    )
    (file,) = sources.find_files(path)
    assert file.read_rows(0, 1000, None) == (0, b"0" * 1_000_000)
    assert sum(looks) <= 1_000_000


def answer_nothing(connection):
    pass


def answer_http(connection):
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    connection.close()


def close(connection):
    connection.close()


@pytest.fixture(params=[answer_nothing, answer_http, close])
def other_server(request):
    """The address of a server that is no scheduler."""
    server = socket.create_server(("127.0.0.1", 0))
    held = []

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            held.append(connection)
            request.param(connection)

    threading.Thread(target=serve, daemon=True).start()
    yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    for connection in held:
        connection.close()


def test_an_address_that_is_not_a_scheduler(other_server, tmp_path):
    (tmp_path / "rows.svm").write_text("0 1:1\n1 1:2\n")
    args = ["train", str(tmp_path / "rows.svm"), "--scheduler", other_server]
    with dask.config.set({"s3vm.connect-timeout": "1 s"}):
        ended = CliRunner().invoke(main, args)
    assert ended.exit_code == 69, ended.output
    assert other_server in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.parametrize("option", ["--scheduler", "--scheduler-file"])
def test_an_empty_address_is_not_taken_for_none(option, tmp_path):
    """A script whose variable is not set would train somewhere else than it says."""
    (tmp_path / "rows.svm").write_text("0 1:1\n1 1:2\n")
    ended = CliRunner().invoke(main, ["train", str(tmp_path / "rows.svm"), option, ""])
    assert ended.exit_code == 2, ended.output
    assert "is empty" in ended.output


def test_a_type_that_numpy_cannot_parse_is_refused():
    """Numpy reads it as Python, and lets a SyntaxError out."""
    stream = io.BytesIO()
    np.save(stream, np.zeros((4, 2), np.float32))
    raw = stream.getvalue().replace(b"'<f4'", b"',f4'")
    with pytest.raises(ValueError, match="header that cannot be read"):
        read_header(io.BytesIO(raw))
