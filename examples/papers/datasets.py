"""The data sets of the papers by name: generated, read from the data folder, or not at hand.

``load(name, folder)`` returns rows and labels 0, 1, ...; it raises `NotAtHand` if the file is
missing, and for sets that are not available. Pairs of objects and digits have their names in the
tables: ``COIL (3, 6)``, ``USPS (2, 5)``, ``MNIST (1, 7)``; the first one is class 1.
"""

import gzip
import re
from array import array
from functools import lru_cache

import dask
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import OneHotEncoder, normalize

from dask_s3vm import UnitScaler
from dask_s3vm.datasets import make_g2c, make_g4c, make_intrusion, make_moons, make_text

#: Sets of the papers that are no longer public, or too large to store.
ELSEWHERE = {
    "real-sim": "UseNet articles of SRAA",
    "aut-avn": "UseNet articles of SRAA",
    "gcat": "RCV1's 23,149 training documents",
    "ccat": "RCV1's 23,149 training documents",
    "full-gcat": "RCV1 in full, 804,414 documents",
    "full-ccat": "RCV1 in full, 804,414 documents",
    "kdd99": "KDD Cup 1999 in full, 4,898,431 rows",
    "KDD-99": "the 10^6 rows of KDD Cup 1999 that the paper drew",
    "news20.binary": "LIBSVM's file of it",
    "w6a": "LIBSVM's file of it",
}

#: Sets of STAR-SVM: name in the paper -> file.
IMBALANCED = {
    "Ecoli": "ecoli",
    "Crime": "crime",
    "Libras": "libras",
    "Oil": "oil",
    "Optical Digits": "optdigits",
    "Wine": "winequality",
    "Satellite Image": "satimage",
    "Vowel": "vowel0",
    "ShuttleOvs4": "shuttle0vs4",
    "Page Block": "pageblocks0",
    "Glass4": "glass4",
    "ClevelandOvs4": "cleveland0vs4",
    "Contraceptive": "contraceptive",
    "Euthyroid": "euthyroid",
    "Spectrometer": "spectrometer",
}


class NotAtHand(LookupError):
    """A data set is missing; the message is the line to print."""


@lru_cache(maxsize=4)
def load(name, folder):
    """Return the rows and labels 0, 1, ... of a set."""
    why = missing(name, folder)
    if why:
        raise NotAtHand(why)
    pair = re.fullmatch(r"(COIL|USPS|MNIST) \((\d+), (\d+)\)", name)
    if pair:
        return _pair(pair[1], (int(pair[2]), int(pair[3])), folder)
    if name in IMBALANCED:
        X, y = _stored(folder / _file(name))
        # the first columns of Vowel are no features: part of the set, speaker, sex
        return (X[:, 3:] if name == "Vowel" else X), y
    if name in _GENERATED:
        return _GENERATED[name]()
    return _READERS[name](folder)


def missing(name, folder):
    """Return the line to print for a missing set, or None; reads nothing."""
    if name in ELSEWHERE:
        return f"not at hand: {name} ({ELSEWHERE[name]})"
    file = _file(name)
    if file is None or (folder / file).exists():
        return None
    return f"not at hand: {name} (no {folder / file})"


def _file(name):
    """Return the (first) file of a set, or None if it is generated."""
    if name in _GENERATED:
        return None
    if name in IMBALANCED:
        return f"star15/{IMBALANCED[name]}.npz"
    return _PAIRS.get(name.split(" (")[0]) or _OTHER_FILES.get(name) or f"{FILES[name]}.npz"


def _stored(path):
    with np.load(path) as held:
        X, y = held["X"].astype(np.float64), held["y"]
    return X.reshape(len(X), -1), np.unique(y, return_inverse=True)[1]


def _pair(kind, pair, folder):
    """Read images of two objects or digits, with pixels in [0, 1]."""
    with np.load(folder / _PAIRS[kind]) as held:
        X, y = held["X20" if kind == "COIL" else "X"], held["y"]
    chosen = np.flatnonzero(np.isin(y, pair))
    X = X[chosen].reshape(len(chosen), -1).astype(np.float64)
    X = (X - X.min()) / (X.max() - X.min())
    return X, (y[chosen] == pair[0]).astype(int)


def _csr(path, key="y"):
    with np.load(path) as held:
        values = held["data"] if "data" in held.files else np.ones(len(held["indices"]))
        parts = (values.astype(np.float64), held["indices"], held["indptr"])
        return sp.csr_matrix(parts, shape=tuple(held["shape"])), held[key]


def _svmlight(path, n_features):
    X, y = load_svmlight_file(str(path), n_features=n_features)
    return X, np.unique(y, return_inverse=True)[1]


def _rcv1(topic):
    def read(folder):
        X, y = _csr(folder / "rcv1_2316_topics.npz", topic)
        return X, (y > 0).astype(int)

    return read


def _newsgroups(positive, negative=("",)):
    """Make a reader of 20 newsgroups: groups by the first words of their names, as two classes."""

    def read(folder):
        X, y = _csr(folder / "20news_counts.npz")
        with np.load(folder / "20news_counts.npz") as held:
            groups = held["groups"]
        up = np.array([name.startswith(positive) for name in groups])
        down = np.array([name.startswith(negative) for name in groups]) & ~up
        keep = np.flatnonzero((up | down)[y])
        return TfidfTransformer(sublinear_tf=True).fit_transform(X[keep]), up[y[keep]].astype(int)

    return read


def _imdb(folder):
    """Read 100,000 reviews, the last 50,000 without a label (-1)."""
    X, y = _csr(folder / "imdb_counts.npz")
    rows = TfidfTransformer(sublinear_tf=True).fit_transform(X)
    return rows, np.where(y == 0, -1, y > 0).astype(int)


def _news20(folder):
    X, y = _csr(folder / "news20_unibigram.npz")
    return normalize(X), (y > 0).astype(int)


def _balanced(file, n_features):
    """Make a reader of equally many rows of both classes, as in the paper: all of the rarer one."""

    def read(folder):
        X, y = _svmlight(folder / file, n_features)
        up, down = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
        down = np.random.default_rng(0).choice(down, len(up), replace=False)
        keep = np.sort(np.append(up, down))
        return X[keep], y[keep]

    return read


def _svmguide1(folder):
    with np.load(folder / "svmguide1.npz") as held:
        n = int(held["n_train"])
        return held["X"][:n].astype(np.float64), (held["y"][:n] > 0).astype(int)


def _kdd99(folder):
    """Read columns scaled to [0, 1] and words as indicators; class 1 is an attack."""
    numbers, words, attack = array("d"), [], []
    for name in ("kddcup.data_10_percent.gz", "kddcup_corrected_test.gz"):
        with gzip.open(folder / name, "rt") as stream:
            for line in stream:
                first, *middle, mark = line.rstrip().split(",")
                numbers.append(float(first))
                numbers.extend(map(float, middle[3:]))
                words.append(middle[:3])
                attack.append(mark != "normal.")
    values = np.frombuffer(numbers).reshape(len(words), -1)
    values = UnitScaler().fit_transform(values)
    marks = OneHotEncoder().fit_transform(words)
    return sp.hstack([sp.csr_matrix(values), marks], format="csr"), np.array(attack, dtype=int)


def _secstr(folder):
    """Read windows of proteins as indicators: 15 places of 21 letters."""
    with np.load(folder / "ssl8_secstr.npz") as held:
        letters, y = held["T"].astype(np.int64), held["y"]
    places = 21 * np.arange(letters.shape[1])
    n, width = letters.shape
    parts = (np.ones(n * width), (letters + places).ravel(), width * np.arange(n + 1))
    return sp.csr_matrix(parts, shape=(n, 21 * width)), (y > 0).astype(int)


def published_splits(name, folder):
    """Return the published splits of a set: {number of labels: labeled rows of each split}."""
    file = f"{FILES[name]}_splits.npz" if name in ("pcmac", "ssl9 Text") else f"{FILES[name]}.npz"
    try:
        with np.load(folder / file) as held:
            keys = [key for key in held.files if key.startswith("lab")]
            return {int(key[3:]): held[key] for key in sorted(keys, key=lambda key: int(key[3:]))}
    except FileNotFoundError:
        raise NotAtHand(f"not at hand: {name} (no {folder / file})") from None


_PAIRS = {"COIL": "coil_6obj_128x128.npz", "USPS": "usps.npz", "MNIST": "mnist.npz"}

_OTHER_FILES = {
    "ssl9 Text": "ssl9_text.svm.gz",
    "pcmac": "pcmac.svm.gz",
    "ccat, 2,316 documents": "rcv1_2316_topics.npz",
    "gcat, 2,316 documents": "rcv1_2316_topics.npz",
    "20news rec-sci": "20news_counts.npz",
    "20news comp-rest": "20news_counts.npz",
    "20news words and pairs": "news20_unibigram.npz",
    "imdb": "imdb_counts.npz",
    "australian": "australian.npz",
    "svmguide1": "svmguide1.npz",
    "w8a, balanced": "w8a.svm.gz",
    "a9a": "a9a.svm.gz",
    "kdd99, 805,050 rows": "kddcup_corrected_test.gz",
}

#: Sets with published splits.
FILES = {
    "ssl1 Digit1": "ssl1_digit1",
    "ssl2 USPS": "ssl2_usps",
    "ssl3 COIL2": "ssl3_coil2",
    "ssl4 BCI": "ssl4_bci",
    "ssl5 g241c": "ssl5_g241c",
    "ssl6 COIL": "ssl6_coil",
    "ssl7 g241n": "ssl7_g241n",
    "ssl8 SecStr": "ssl8_secstr",
    "ssl9 Text": "ssl9_text",
    "g50c": "g50c",
    "uspst": "uspst",
    "pcmac": "pcmac",
}


def _made(make, *sizes, **more):
    def generate():
        X, y = dask.compute(*make(*sizes, **more))
        return X, np.asarray(y).astype(int)

    return generate


_GENERATED = {
    "G2C": _made(make_g2c, 500, 500),
    "G4C": _made(make_g4c, 500, 500),
    "Moons": _made(make_moons, 200),
    "generated text": _made(make_text, 80_441, block="scipy"),
    "generated intrusion": _made(make_intrusion, 20_000),
}

_READERS = {
    name: (lambda folder, file=file: _stored(folder / f"{file}.npz"))
    for name, file in FILES.items()
    if name not in ("ssl8 SecStr", "ssl9 Text", "pcmac")
} | {
    "ssl8 SecStr": _secstr,
    "ssl9 Text": lambda folder: _svmlight(folder / "ssl9_text.svm.gz", 11_960),
    "pcmac": lambda folder: _svmlight(folder / "pcmac.svm.gz", 7_511),
    "ccat, 2,316 documents": _rcv1("y"),
    "gcat, 2,316 documents": _rcv1("y_gcat"),
    "20news rec-sci": _newsgroups(("rec.",), ("sci.",)),
    "20news comp-rest": _newsgroups(("comp.",)),
    "imdb": _imdb,
    "australian": lambda folder: _stored(folder / "australian.npz"),
    "w8a, balanced": _balanced("w8a.svm.gz", 300),
    "svmguide1": _svmguide1,
    "a9a": _balanced("a9a.svm.gz", 123),
    "20news words and pairs": _news20,
    "kdd99, 805,050 rows": _kdd99,
}
