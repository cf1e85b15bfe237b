"""Tables of letters from archives, arrays and text."""

import dask
import numpy as np
import pytest
import sparse

from dask_s3vm.features import UnknownCategoryWarning
from dask_s3vm.io import TableError, read_data, read_letters


def indicators(T, size):
    return (T[:, :, np.newaxis] == np.arange(size)).reshape(len(T), -1).astype(float)


@pytest.fixture
def letters():
    rng = np.random.default_rng(1)
    return rng.integers(0, 7, size=(500, 4), dtype=np.uint8), rng.integers(0, 2, size=500)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives(tmp_path, letters, save, order):
    T, y = letters
    T = np.asarray(T, order=order)
    save(tmp_path / "a.npz", T=T[:300], y=y[:300])
    save(tmp_path / "b.npz", T=T[300:])
    X, labels, encoder = read_letters([tmp_path / "a.npz", tmp_path / "b.npz"], block_rows=17)
    assert X.shape == (500, 28)
    assert X.numblocks[0] == 18 + 12
    assert isinstance(X.blocks[3].compute(), sparse.GCXS)
    X, labels = dask.compute(X, labels)
    np.testing.assert_array_equal(X.todense(), indicators(T, 7))
    np.testing.assert_array_equal(labels, [*y[:300], *[-1] * 200])
    np.testing.assert_array_equal(encoder.transform(T).toarray(), indicators(T, 7))


def test_arrays_and_text(tmp_path, letters):
    T, y = letters
    np.save(tmp_path / "t.npy", T.astype(np.int16))
    X, labels, _ = read_letters(tmp_path / "t.npy")
    assert labels is None
    np.testing.assert_array_equal(X.compute().todense(), indicators(T, 7))
    words = ["".join(chr(ord("A") + k) for k in row) for row in T]
    (tmp_path / "t.txt").write_text("\n".join(words[:9] + [w.lower() for w in words[9:]]))
    X, labels, _ = read_letters(tmp_path / "t.txt", block_rows=20)
    assert X.numblocks[0] > 3
    np.testing.assert_array_equal(X.compute().todense(), indicators(T, 7))
    lines = [f"{word} {label}" for word, label in zip(words, y, strict=True)]
    (tmp_path / "l.txt").write_text("\n".join(lines) + "\n")
    X, labels = read_data(str(tmp_path / "l.txt"), format="letters", n_letters=26, block="scipy")
    assert X.shape == (500, 4 * 26)
    np.testing.assert_array_equal(X.compute().toarray(), indicators(T, 26))
    np.testing.assert_array_equal(labels.compute(), y)


def test_an_encoder_keeps_the_alphabet(tmp_path, letters):
    T, _ = letters
    np.savez(tmp_path / "a.npz", T=T)
    np.savez(tmp_path / "b.npz", T=np.minimum(T, 3))
    _, _, encoder = read_letters(tmp_path / "a.npz")
    X, _, _ = read_letters(tmp_path / "b.npz", encoder=encoder)
    np.testing.assert_array_equal(X.compute().todense(), indicators(np.minimum(T, 3), 7))
    _, _, small = read_letters(tmp_path / "b.npz")
    with pytest.warns(UnknownCategoryWarning, match=f"{np.sum(T > 3)} values"):
        X, _, _ = read_letters(tmp_path / "a.npz", encoder=small)
    np.testing.assert_array_equal(X.compute().todense(), indicators(T, 4))


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"X": np.zeros((3, 2))}, r"has the arrays \['X'\], wanted 'T'"),
        ({"T": np.zeros((3, 2))}, "type float64"),
        ({"T": np.zeros(3, np.uint8)}, r"shape \(3,\)"),
        ({"T": np.array([[1, 2], [3, -1]])}, "row 1 has a negative"),
        ({"T": np.zeros((3, 2), np.uint8), "y": np.zeros(2, int)}, "'y' has 2 labels for 3 rows"),
        ({"T": np.zeros((0, 2), np.uint8)}, "has no data rows"),
    ],
)
def test_archives_that_are_something_else(tmp_path, arrays, reason):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    with pytest.raises(TableError, match=reason) as caught:
        read_letters(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("ABC\nABCD\n", 2, "has 4 letters, wanted 3"),
        ("ABC\n\nA1C\n", 3, "character other than A-Z"),
        ("ABC 1\nABC\n", 2, "1 fields, wanted 2"),
        ("ABC 1\nABD x\n", 2, "column 'label': holds 'x', wanted a number"),
        ("ABC 1\nABD 1.5\n", 2, "column 'label': holds '1.5', wanted a whole number"),
        ("A B C\n", 1, "has 3 words"),
    ],
)
def test_text_that_is_something_else(tmp_path, text, line, reason):
    path = tmp_path / "t.txt"
    path.write_text(text)
    with pytest.raises(TableError, match=reason) as caught:
        read_letters(path)
    assert caught.value.line == line


def test_files_that_do_not_go_together_or_are_cut_short(tmp_path, letters):
    T, _ = letters
    np.savez_compressed(tmp_path / "a.npz", T=T)
    np.savez(tmp_path / "b.npz", T=T[:, :3])
    with pytest.raises(TableError, match="has 3 letters per row"):
        read_letters([tmp_path / "a.npz", tmp_path / "b.npz"])
    with pytest.raises(TableError, match="has a letter 6, but n_letters is 5"):
        read_letters(tmp_path / "a.npz", n_letters=5)
    np.save(tmp_path / "c.npy", T)
    raw = (tmp_path / "c.npy").read_bytes()
    (tmp_path / "c.npy").write_bytes(raw[:-10])
    with pytest.raises(TableError, match="cut short"):
        read_letters(tmp_path / "c.npy")
    raw = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(raw[:-100])
    with pytest.raises(TableError, match="cannot be read"):
        read_letters(tmp_path / "a.npz")


def test_the_real_table(data_dir):
    path = data_dir / "ssl8_secstr.npz"
    if not path.exists():
        pytest.skip("the file is not there")
    X, y, _ = read_letters(path, block="scipy")
    assert X.shape == (83_679, 315)
    block, y = dask.compute(X.blocks[0], y)
    assert block.nnz == 15 * block.shape[0]
    assert np.bincount(y).tolist() == [47_856, 35_823]
