"""RCV1 from small files in the published formats, and through a fake fetcher."""

import gzip

import dask
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.datasets
import sparse
from sklearn.utils import Bunch

from dask_s3vm.datasets import fetch_rcv1, read_rcv1
from dask_s3vm.io import SvmlightError, TableError, read_data

VECTORS = {
    "lyrl2004_vectors_train.dat": "2286  864:0.049767 1523:0.044664 47236:0.02\n2287  1:0.5\n",
    "lyrl2004_vectors_test_pt0.dat": "26151  3:0.25 864:1\n26152  2:0.125\n26153  47236:1\n",
}
TOPICS = (
    "E11 2286 1\nECAT 2286 1\nCCAT 2287 1\nGCAT 26151 1\n"
    "CCAT 26152 1\nGCAT 26152 1\nCCATX 26153 1\n"
)


@pytest.fixture(params=["", ".gz"])
def files(request, tmp_path):
    def put(name, text):
        path = tmp_path / (name + request.param)
        raw = text.encode()
        path.write_bytes(gzip.compress(raw) if request.param else raw)
        return path

    vectors = [put(name, text) for name, text in VECTORS.items()]
    return vectors, put("rcv1-v2.topics.qrels", TOPICS), put


def test_vectors_and_a_topic(files):
    vectors, topics, _ = files
    X, y = read_rcv1(vectors, topics=topics, topic="ccat", blocksize=40)
    assert X.shape == (5, 47_236)
    X, y = dask.compute(X, y)
    assert isinstance(X, sparse.GCXS)
    wanted = np.zeros((5, 47_236))
    wanted[0, [863, 1522, 47_235]] = 0.049767, 0.044664, 0.02
    wanted[1, 0], wanted[2, 2], wanted[2, 863] = 0.5, 0.25, 1
    wanted[3, 1], wanted[4, 47_235] = 0.125, 1
    np.testing.assert_array_equal(X.todense(), wanted)
    assert y.tolist() == [0, 1, 0, 1, 0]
    for topic, members in (("GCAT", [0, 0, 1, 1, 0]), ("E11", [1, 0, 0, 0, 0])):
        assert read_rcv1(vectors, topics=topics, topic=topic)[1].compute().tolist() == members


def test_the_registry_and_files_without_topics(files):
    vectors, topics, _ = files
    X, y = read_data(vectors, format="rcv1", topics=str(topics), topic="GCAT", block="scipy")
    assert sp.issparse(X.compute())
    assert y.compute().sum() == 2
    assert read_rcv1(vectors)[1] is None


def test_what_is_wrong_is_told(files):
    vectors, topics, put = files
    with pytest.raises(TableError, match=r"topic 'XCAT' does not occur; there are \['CCAT'"):
        read_rcv1(vectors, topics=topics, topic="XCAT")
    bad = put("bad.qrels", TOPICS + "CCAT 26153\n")
    with pytest.raises(TableError, match="2 fields, wanted 3") as caught:
        read_rcv1(vectors, topics=bad)
    assert caught.value.line == 8
    assert str(bad) in str(caught.value)
    bad = put("words.qrels", "CCAT 1 1\nCCAT two 1\n")
    with pytest.raises(TableError, match="not the number of a document") as caught:
        read_rcv1(vectors, topics=bad)
    assert caught.value.line == 2
    few = put("few.qrels", "CCAT 2286 1\nCCAT 2287 1\nGCAT 26151 1\n")
    _, y = read_rcv1(vectors, topics=few)
    with pytest.raises(TableError, match=r"document 26152 \(row 2\) has no topic in .*few") as e:
        y.compute()
    assert "test_pt0" in str(e.value)
    bad = put("lyrl2004_bad.dat", "1 3:0.5\n2 3:x\n")
    with pytest.raises(SvmlightError) as caught:
        read_rcv1(bad)
    assert caught.value.line == 2
    wide = put("lyrl2004_wide.dat", "1 47237:0.5\n")
    with pytest.raises(SvmlightError, match="47237"):
        read_rcv1(wide)


def test_the_fetcher(monkeypatch):
    rng = np.random.default_rng(0)
    data = sp.random_array((60, 30), density=0.3, rng=rng, format="csr")
    target = sp.csr_array((rng.random((60, 3)) > 0.5).astype(np.uint8))
    asked = {}

    def fetch(subset="all", **options):
        asked.update(options, subset=subset)
        return Bunch(data=data, target=target, target_names=np.array(["CCAT", "ECAT", "GCAT"]))

    monkeypatch.setattr(sklearn.datasets, "fetch_rcv1", fetch)
    X, y = fetch_rcv1("gcat", subset="train", data_home="somewhere", blocksize=2000)
    assert asked == {"subset": "train", "data_home": "somewhere"}
    assert X.numblocks[0] > 2
    assert X.chunks[0] == y.chunks[0]
    np.testing.assert_array_equal(X.compute().todense(), data.toarray())
    np.testing.assert_array_equal(y.compute(), target.toarray()[:, 2])
    with pytest.raises(ValueError, match="topic is 'MCAT', wanted one of"):
        fetch_rcv1("MCAT")
