"""Raw kdd99 files, against a naive reading of them."""

import gzip
from itertools import islice

import dask
import numpy as np
import pytest

from dask_s3vm.datasets import read_kdd99
from dask_s3vm.datasets._kdd99 import COLUMNS, LABELS
from dask_s3vm.io import TableError

WORDS = {1: ["tcp", "udp", "icmp"], 2: ["http", "smtp", "ecr_i"], 3: ["SF", "S0", "REJ"]}


def connection(rng, label="normal."):
    fields = []
    for column, name in enumerate(COLUMNS[:-1]):
        if column in WORDS:
            fields.append(str(rng.choice(WORDS[column])))
        elif name.endswith("rate"):
            fields.append(f"{rng.integers(0, 101) / 100:.2f}")
        elif name in ("land", "logged_in", "is_host_login", "is_guest_login"):
            fields.append(str(rng.integers(0, 2)))
        elif name == "num_outbound_cmds":
            fields.append("0")
        else:
            fields.append(str(rng.integers(0, 2) * rng.integers(1, 1000)))
    return [*fields, label]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    labels = ["normal.", "smurf.", "neptune.", "snmpguess."]
    return [connection(rng, str(rng.choice(labels))) for _ in range(120)]


def write(path, rows):
    text = "".join(",".join(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def numbers_of(rows):
    return np.array([[float(row[c]) for c in range(41) if c not in WORDS] for row in rows])


def test_features_of_two_files(tmp_path, rows):
    files = [write(tmp_path / "a.gz", rows[:70]), write(tmp_path / "b", rows[70:])]
    X, y, encoder = read_kdd99(files, blocksize=2000)
    assert X.shape == (120, 123)
    assert X.numblocks[0] > 4
    names = encoder.get_feature_names_out()
    dense, y = X.compute().todense(), y.compute()
    assert y.tolist() == [int(row[41] != "normal.") for row in rows]
    numeric = [i for i, name in enumerate(names) if "=" not in name]
    assert len(numeric) == 38
    values = numbers_of(rows)
    spread = values.std(axis=0)
    np.testing.assert_allclose(
        dense[:, numeric], values / np.where(spread > 0, spread, 1), rtol=1e-9, atol=0
    )
    for column, name in ((1, "protocol_type"), (2, "service"), (3, "flag")):
        found = {i: word.split("=")[1] for i, word in enumerate(names) if word.startswith(name)}
        places = list(found)
        assert (dense[:, places].sum(axis=1) == 1).all()
        assert [found[places[i]] for i in dense[:, places].argmax(axis=1)] == [
            row[column] for row in rows
        ]


def test_the_features_of_the_paper_are_127(tmp_path, rows):
    X, _, encoder = read_kdd99(write(tmp_path / "a", rows), binary="indicators")
    assert X.shape == (120, 127)
    assert "logged_in=0" in encoder.get_feature_names_out()


def test_an_encoder_serves_other_files_with_labels_or_without(tmp_path, rows):
    X, y, encoder = read_kdd99(write(tmp_path / "a", rows))
    again, labels, _ = read_kdd99(write(tmp_path / "b", rows[:50]), encoder=encoder)
    np.testing.assert_array_equal(again.compute().todense(), X.compute().todense()[:50])
    np.testing.assert_array_equal(labels.compute(), y.compute()[:50])
    bare = write(tmp_path / "c", [row[:41] for row in rows])
    again, labels, _ = read_kdd99(bare, encoder=encoder)
    assert labels is None
    np.testing.assert_array_equal(again.compute().todense(), X.compute().todense())
    mixed = read_kdd99([tmp_path / "a", bare])
    assert np.sum(mixed[1].compute() == -1) == 120


@pytest.mark.parametrize(
    ("field", "text", "reason"),
    [
        (41, "norml.", "column 'label': the label is 'norml.', which is not one of normal., "),
        (41, "normal", "column 'label': the label is 'normal', which is not one of normal., "),
        (4, "many", "column 'src_bytes': holds 'many', wanted a number"),
        (2, "", "column 'service': the value is missing"),
    ],
)
def test_mistakes_have_a_file_and_a_line(tmp_path, rows, field, text, reason):
    rows[36][field] = text
    path = write(tmp_path / "a.gz", rows)
    with pytest.raises(TableError, match=reason) as caught:
        read_kdd99(path, blocksize=1000)
    assert (caught.value.path, caught.value.line) == (str(path), 37)


def test_a_missing_field(tmp_path, rows):
    del rows[80][5]
    path = write(tmp_path / "a", rows)
    with pytest.raises(TableError, match="41 fields, wanted 42") as caught:
        read_kdd99(path, blocksize=1000)
    assert caught.value.line == 81


def test_the_real_files(data_dir, tmp_path):
    names = ["kddcup.data_10_percent.gz", "kddcup_corrected_test.gz"]
    if not all((data_dir / name).exists() for name in names):
        pytest.skip("the raw files are not there")
    parts = []
    for name in names:
        with gzip.open(data_dir / name, "rt") as stream:
            lines = [line.strip().split(",") for line in islice(stream, 3000)]
        parts.append(write(tmp_path / name, lines))
    X, y, _ = read_kdd99(parts)
    X, y = dask.compute(X, y)
    assert X.shape == (6000, 123)
    assert set(np.unique(y).tolist()) <= {0, 1}
    assert 0 < y.mean() < 1
    assert len(LABELS) == 40
