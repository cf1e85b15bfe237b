"""Readers that strangers' files come to, each with files that it reads and what it may refuse."""

import gzip
import io
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import dask
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from click.testing import CliRunner
from pyarrow import feather, parquet
from unsummed import archive_without_checksum, arrow_without_checksums

import dask_s3vm as s3
from dask_s3vm import io as s3io
from dask_s3vm.checkpoints.state_file import read_state, write_state
from dask_s3vm.cli import main
from dask_s3vm.cli.cluster import refusal, security_of
from dask_s3vm.exceptions import CheckpointError
from dask_s3vm.io.tables import read_table
from dask_s3vm.methods.run import Saved, Snapshot
from dask_s3vm.model_selection._results import Score
from dask_s3vm.model_selection._run import Piece
from dask_s3vm.model_selection._store import Store


def example_rows() -> tuple[sp.csr_array, np.ndarray]:
    """40 sparse rows and their labels."""
    rng = np.random.default_rng(4)
    X = sp.random_array((40, 9), density=0.4, rng=rng, format="csr")
    return X, np.where(np.arange(40) < 30, np.arange(40) % 2, -1)


def check_rows(X: Any, y: Any, n_features: int | None = None) -> None:
    """Whatever was read must be rows that one can train on."""
    X = X.compute() if hasattr(X, "compute") else X
    y = y.compute() if hasattr(y, "compute") else y
    if hasattr(X, "to_scipy_sparse"):
        X = X.to_scipy_sparse()
    if sp.issparse(X):
        X = X.tocsr()
        X.check_format(full_check=True)
        values = X.data
    else:
        values = np.asarray(X)
    assert X.ndim == 2, "rows are two-dimensional"
    assert np.isfinite(values).all(), "a number that is none was read"
    assert y is None or len(y) == X.shape[0], "as many labels as rows"
    assert n_features is None or X.shape[1] == n_features


@dataclass
class Svmlight:
    """svmlight text, compared with scikit-learn's reader."""

    ending: str = ".svm"
    refusals: tuple[type[BaseException], ...] = (ValueError,)

    def originals(self, folder: Path) -> list[bytes]:
        X, y = example_rows()
        lines = []
        for i, label in enumerate(y):
            row = X[[i]]
            pairs = zip(row.indices, row.data, strict=True)
            lines.append(f"{label} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in sorted(pairs)))
        text = "\n".join(lines).encode()
        return [
            text + b"\n",
            b"# a comment\n" + text + b" # another\n",
            b"+1 qid:3 1:2\n-1 2:1e-3\n",
        ]

    def read(self, path: Path) -> None:
        X, y = s3io.read_svmlight(path, zero_based=False, n_features=50)
        X, y = X.compute(scheduler="sync"), y.compute(scheduler="sync")
        check_rows(X, y, 50)
        self.agrees(path, X.to_scipy_sparse(), y)

    def agrees(self, path: Path, X: Any, y: np.ndarray) -> None:
        """What we take for rows, scikit-learn's reader does too, and for the same ones."""
        from sklearn.datasets import load_svmlight_file

        try:
            theirs, labels = load_svmlight_file(str(path), zero_based=False, n_features=50)
        except (ValueError, OverflowError, UnicodeDecodeError):
            return  # they refuse some labels and qids that are read here
        if theirs.shape[0] == X.shape[0]:
            np.testing.assert_allclose(X.toarray(), theirs.toarray(), rtol=1e-12)
            np.testing.assert_allclose(y.astype(float), labels, rtol=1e-12)


@dataclass
class CompressedSvmlight(Svmlight):
    """The same, through gzip."""

    ending: str = ".svm.gz"
    refusals: tuple[type[BaseException], ...] = (ValueError,)

    def originals(self, folder: Path) -> list[bytes]:
        return [gzip.compress(raw) for raw in super().originals(folder)]

    def agrees(self, path: Path, X: Any, y: np.ndarray) -> None:
        """Nothing to compare with: what is damaged within is refused by its checksum."""


@dataclass
class Npz:
    """Arrays of rows and labels."""

    ending: str = ".npz"
    refusals: tuple[type[BaseException], ...] = (ValueError,)

    def originals(self, folder: Path) -> list[bytes]:
        X, y = example_rows()
        files = []
        for held in (
            {"X": X.toarray(), "y": y},
            {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape, "y": y},
        ):
            stream = io.BytesIO()
            np.savez(stream, **held)
            files.append(stream.getvalue())
        return files

    def read(self, path: Path) -> None:
        check_rows(*s3io.read_npz(path))


@dataclass
class Npy:
    """One array of rows."""

    ending: str = ".npy"
    refusals: tuple[type[BaseException], ...] = (ValueError,)

    def originals(self, folder: Path) -> list[bytes]:
        X = example_rows()[0].toarray()
        files = []
        for rows in (X, np.asfortranarray(X.astype(np.float32)), (8.0 * X).astype(">i2")):
            stream = io.BytesIO()
            np.save(stream, rows)
            files.append(stream.getvalue())
        return files

    def read(self, path: Path) -> None:
        with dask.config.set(scheduler="sync"):
            check_rows(*s3io.read_data(path))


@dataclass
class Models:
    """Model files, linear and with a kernel."""

    ending: str = ".npz"
    refusals: tuple[type[BaseException], ...] = (s3io.ModelFileError,)

    def originals(self, folder: Path) -> list[bytes]:
        X, y = example_rows()
        files = []
        for made in (
            s3.L2SVM(unlabeled=-1),
            s3.TSVM(kernel="rbf", n_components=5, random_state=0, positive_ratio=0.5, unlabeled=-1),
        ):
            s3.save_model(made.fit(X, y), folder / "model.npz")
            files.append((folder / "model.npz").read_bytes())
        return files + [archive_without_checksum(raw) for raw in files]

    def read(self, path: Path) -> None:
        model = s3.load_model(path)
        outputs = model.decision_function(example_rows()[0])
        assert outputs.shape == (40,), "a model of other rows was accepted"


@dataclass
class States:
    """States of fits."""

    ending: str = ".npz"
    refusals: tuple[type[BaseException], ...] = (CheckpointError,)

    def originals(self, folder: Path) -> list[bytes]:
        state = {"w": np.arange(20.0), "bits": [np.arange(9, dtype=np.uint8)], "gap": None}
        saved = Saved(state, False, 2, 0)
        whole = Snapshot({"class 1, model 0/fit": saved}, [{"level": 0.1}], 5)
        write_state(folder / "state", {"estimator": "TSVM"}, whole)
        raw = (folder / "state" / "fit.npz").read_bytes()
        return [raw, archive_without_checksum(raw)]

    def read(self, path: Path) -> None:
        folder = path.parent / "read"
        folder.mkdir(exist_ok=True)
        path.replace(folder / "fit.npz")
        state = read_state(folder, {"estimator": "TSVM"})
        assert state is not None
        saved = state.states["class 1, model 0/fit"]
        np.testing.assert_array_equal(saved.value["w"], np.arange(20.0))


@dataclass
class Written:
    """A format that the package writes itself."""

    name: str
    ending: str
    refusals: tuple[type[BaseException], ...] = (ValueError,)

    def originals(self, folder: Path) -> list[bytes]:
        X, y = example_rows()
        files = []
        for rows, labels in ((X, y), (X, None), (X.astype(np.float32), y.astype(str))):
            path = folder / f"whole{len(files)}{self.ending}"
            s3io.write_data(rows, labels, path)
            files.append(path.read_bytes())
        if self.ending == ".arrow":
            files += [arrow_without_checksums(raw) for raw in files]
        return files

    def read(self, path: Path) -> None:
        with dask.config.set(scheduler="sync"):
            check_rows(*s3io.read_data(path))


@dataclass
class Tables:
    """csv with words and numbers."""

    ending: str = ".csv"
    refusals: tuple[type[BaseException], ...] = (ValueError,)

    def originals(self, folder: Path) -> list[bytes]:
        kinds, rng = ["tcp", "udp", '"a ""b"", c"'], np.random.default_rng(3)
        lines = [
            f"{i % 7},{rng.normal():.4g},{kinds[i % 3]},{'no' if i % 4 else 'yes'}"
            for i in range(60)
        ]
        text = "n,x,kind,label\n" + "\n".join(lines) + "\n"
        return [text.encode(), text.replace("\n", "\r\n").encode()]

    def read(self, path: Path) -> None:
        with dask.config.set(scheduler="sync"):
            X, y, _ = read_table(path, label="label")
            check_rows(X, y)


@dataclass
class CompressedTables(Tables):
    """The same, through gzip."""

    ending: str = ".csv.gz"

    def originals(self, folder: Path) -> list[bytes]:
        return [gzip.compress(raw) for raw in super().originals(folder)]


@dataclass
class TypedTables(Tables):
    """Parquet and Feather with plain columns."""

    def originals(self, folder: Path) -> list[bytes]:
        rng, kinds = np.random.default_rng(3), np.array(["tcp", "udp", "é"])
        columns = {
            "n": np.arange(60) % 7,
            "x": rng.normal(size=60),
            "kind": pa.array(kinds[np.arange(60) % 3]).dictionary_encode(),
            "word": pa.array(kinds[np.arange(60) % 2]),
            "label": np.arange(60) % 2 == 0,
        }
        write = parquet.write_table if self.ending == ".parquet" else feather.write_feather
        write(pa.table(columns), str(folder / "table"))
        return [(folder / "table").read_bytes()]


@dataclass
class Configs:
    """Configurations of runs."""

    ending: str = ".toml"
    refusals: tuple[type[BaseException], ...] = (ValueError,)

    def originals(self, folder: Path) -> list[bytes]:
        return [
            b'data = ["rows.svm"]\nmethod = "tsvm"\nlam = 1e-3\npositive-ratio = 0.5\n',
            b'data = ["rows.svm"]\nmethod = "l2svm"\n[cluster]\nnworkers = 0\nnthreads = 1\n',
        ]

    def read(self, path: Path) -> None:
        ended = CliRunner().invoke(main, ["train", "--config", str(path), "--print-config"])
        if ended.exit_code in (2, 65):
            raise ValueError(ended.output)
        if ended.exception is not None:
            raise ended.exception
        assert ended.exit_code == 0
        assert tomllib.loads(ended.stdout)


@dataclass
class Certificates:
    """TLS files: authority, certificate, key; one of the three is damaged."""

    ending: str = ".pem"
    refusals: tuple[type[BaseException], ...] = (click.UsageError,)

    def originals(self, folder: Path) -> list[bytes]:
        script = Path(__file__).parents[2] / "cluster" / "tls" / "make_certificates.py"
        made = [sys.executable, str(script), str(folder / "tls"), "--host", "localhost"]
        subprocess.run(made, check=True, capture_output=True)
        names = ("ca.pem", "client.pem", "client-key.pem")
        self.files = [str(folder / "tls" / name) for name in names]
        return [Path(name).read_bytes() for name in self.files]

    def read(self, path: Path) -> None:
        """Accept it, or say what is wrong, in the place that it was damaged for."""
        raw = path.read_bytes()
        heads = [Path(name).read_bytes()[200:260] for name in self.files]
        place = next((place for place, head in enumerate(heads) if head in raw), 0)
        files = [*self.files[:place], str(path), *self.files[place + 1 :]]
        security = security_of(*files)
        reason = refusal(security)
        assert reason is None or reason


@dataclass
class Searches:
    """Scores of an interrupted search."""

    ending: str = ".json"
    refusals: tuple[type[BaseException], ...] = (ValueError,)

    def originals(self, folder: Path) -> list[bytes]:
        kept = Store(folder / "search", lambda: {"rows": "1"})
        scores = [Score(number, 0, {"score": 0.25 * number}, {}, 0.5, 1.5) for number in range(3)]
        kept.save(Piece(0, (0, 1, 2)), scores, None)
        kept.close()
        (name,) = (folder / "search").glob("piece-*.json")
        self.name = name.name
        return [name.read_bytes(), (folder / "search" / "search.json").read_bytes()]

    def read(self, path: Path) -> None:
        """What is read at all is what was written."""
        folder, raw = path.parent / "again", path.read_bytes()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(path.parent / "search", folder)
        shutil.copy(path, folder / (self.name if b"candidate" in raw else "search.json"))
        found = Store(folder, lambda: {"rows": "1"})
        try:
            assert [score.test for score in found.scores()] == [
                {"score": 0.25 * number} for number in range(3)
            ]
        finally:
            found.close()


TARGETS: dict[str, Any] = {
    "svmlight": Svmlight,
    "svmlight-gz": CompressedSvmlight,
    "npz": Npz,
    "npy": Npy,
    "arrow": lambda: Written("arrow", ".arrow"),
    "parquet": lambda: Written("parquet", ".parquet"),
    "csv": Tables,
    "csv-gz": CompressedTables,
    "parquet-tables": lambda: TypedTables(".parquet"),
    "feather-tables": lambda: TypedTables(".feather"),
    "models": Models,
    "states": States,
    "configs": Configs,
    "certificates": Certificates,
    "searches": Searches,
}
