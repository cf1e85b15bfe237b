"""Tables on the command line: from a csv file to a model, and from that to predictions."""

import csv
import gzip
import json

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import feather, parquet

from dask_s3vm import load_model
from dask_s3vm.cli import main
from dask_s3vm.cli.first_look import first_look
from dask_s3vm.cli.stopping import BadData


def run(*args):
    """Run the command in this process."""
    more = ["--nworkers", "0"]
    return CliRunner().invoke(main, [str(arg) for arg in (*args, *more)])


def told(done):
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of flowers, whose kind follows from color and length."""
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(400):
        color = str(rng.choice(["red", "blue", "white"]))
        length = rng.normal(3.0 if color == "red" else 1.0, 0.4)
        rows.append([f"{length:.3f}", color, "rose" if length > 2 else "violet"])
    path = tmp_path_factory.mktemp("flowers") / "flowers.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([["length", "color", "kind"], *rows])
    return path, rows


def test_train_predict_evaluate(table, tmp_path):
    path, rows = table
    model, found = tmp_path / "m.npz", tmp_path / "found.txt"
    row = told(run("train", path, "--method", "l2svm", "--label", "kind", "--lam", 1e-4, "--model",
                   model, "--quiet", "--json"))  # fmt: skip
    assert (row["rows"], row["features"]) == (400, 4)
    assert load_model(model).encoder_.categories_ == [None, ("blue", "red", "white")]
    new = tmp_path / "new.csv"
    new.write_text("color,length\n" + "".join(f"{c},{x}\n" for x, c, _ in rows[:50]))
    assert run("predict", model, new, "--output", found).exit_code == 0
    assert np.mean(np.loadtxt(found, dtype=str) == [kind for _, _, kind in rows[:50]]) > 0.95
    scores = told(run("evaluate", model, path, "--json"))
    assert [score["class"] for score in scores["classes"]] == ["rose", "violet"]
    assert scores["error_%"] < 5


@pytest.mark.parametrize("positive", [None, "violet"])
def test_hidden_labels_tell_the_error(table, tmp_path, positive):
    path, _ = table
    model = tmp_path / "m.npz"
    options = ["--positive", positive] if positive else []
    runs = [
        told(run("train", path, "--label", -1, "--hide-all-but", 40, "--seed", seed,
                 "--method", "tsvm", "--lam", 1e-3, "--model", model, "--quiet", "--json",
                 *options))
        for seed in (0, 0, 1)
    ]  # fmt: skip
    assert runs[0]["hidden_rows"] == 360
    assert runs[0]["hidden_error_%"] < 10
    assert runs[0]["hidden_error_%"] == runs[1]["hidden_error_%"]
    assert runs[0]["objective"] != runs[2]["objective"]
    classes = load_model(model).classes_.tolist()
    assert classes == ([0, 1] if positive else ["rose", "violet"])
    if positive:  # the model knows which label is which
        assert told(run("evaluate", model, path, "--json"))["error_%"] < 10


def test_positive_labels_and_hidden_ones_of_other_formats(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=300)
    X = rng.normal(size=(300, 5)) + 4 * np.eye(5)[y]
    np.savez(tmp_path / "t.npz", X=X, y=y)
    model = tmp_path / "m.npz"
    row = told(run("train", tmp_path / "t.npz", "--method", "l2svm", "--positive", 0, "--positive",
                   2, "--hide-all-but", 60, "--model", model, "--quiet", "--json"))  # fmt: skip
    assert row["hidden_rows"] == 240
    assert row["hidden_error_%"] < 10
    assert load_model(model).classes_.tolist() == [0, 1]
    assert not hasattr(load_model(model), "encoder_")


def test_one_command_from_raw_kdd99(tmp_path):
    from dask_s3vm.datasets._kdd99 import COLUMNS

    rng = np.random.default_rng(0)
    for name, labels in (("a.gz", ["normal.", "smurf."]), ("b.gz", ["normal.", "saint."])):
        lines = []
        for number in range(150):
            attack = number % 2
            fields = [str(rng.integers(0, 9) * (1 + 5 * attack)) for _ in COLUMNS[:-1]]
            fields[1:4] = "icmp" if attack else "tcp", "http", "SF"
            lines.append(",".join([*fields, labels[attack]]) + "\n")
        (tmp_path / name).write_bytes(gzip.compress("".join(lines).encode()))
    for method in ("tsvm", "da"):
        row = told(run("train", tmp_path / "a.gz", tmp_path / "b.gz", "--format", "kdd99",
                       "--hide-all-but", 30, "--positive-ratio", 0.5, "--method", method,
                       "--model", tmp_path / "m.npz", "--quiet", "--json"))  # fmt: skip
        assert (row["rows"], row["features"], row["hidden_rows"]) == (300, 123, 270)
        assert row["hidden_error_%"] < 5
    score = told(run("evaluate", tmp_path / "m.npz", tmp_path / "b.gz", "--json"))
    assert (score["rows"], score["error_%"] < 5) == (150, True)


@pytest.mark.parametrize(
    ("change", "options", "code", "reason"),
    [
        (lambda lines: [*lines[:20], "1,red", *lines[20:]], [], 65, "line 21: has 2 fields"),
        (
            lambda lines: [*lines, ",red,rose"],
            [],
            65,
            "line 402: column 'length': the value is missing",
        ),
        (lambda lines: lines, ["--label", "sort"], 65, "no label column 'sort'"),
        (lambda lines: lines, ["--positive", "tulip"], 65, "positive names ['tulip']"),
        (lambda lines: lines, ["--label-seed", "1"], 2, "called --seed now"),
        (lambda lines: lines, ["--label-rows", "1"], 2, "called --hide-all-but now"),
        (lambda lines: lines, ["--label-column", "kind"], 2, "called --label now"),
        (lambda lines: lines, ["--hide-all-but", "9", "--hold-out", "0.5"], 2, "exclude each"),
        (lambda lines: lines, ["--n-features", "4"], 2, "--n-features has no effect"),
        (lambda lines: lines, ["--hide-all-but", "9999"], 65, "9999"),
    ],
)
def test_mistakes_end_with_a_code_and_leave_nothing(table, tmp_path, change, options, code, reason):
    lines = table[0].read_text().splitlines()
    path = tmp_path / "t.csv"
    path.write_text("\n".join(change(lines)) + "\n")
    label = [] if "--label" in options else ["--label", "kind"]
    done = run("train", path, *label, "--model", tmp_path / "m.npz", "--quiet", *options)
    assert done.exit_code == code, done.output
    assert reason in done.output
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.csv"]


def test_a_compressed_file_that_is_cut_short(table, tmp_path):
    raw = gzip.compress(table[0].read_bytes())
    path = tmp_path / "t.csv.gz"
    path.write_bytes(raw[:-20])
    done = run("train", path, "--label", "kind", "--model", tmp_path / "m.npz", "--quiet")
    assert done.exit_code == 65
    assert str(path) in done.output
    assert "cut short" in done.output
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.csv.gz"]


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
def test_a_typed_table_that_is_cut_short(tmp_path, name):
    columns = pa.table({"x": np.arange(50.0), "kind": ["a", "b"] * 25})
    path = tmp_path / name
    write = parquet.write_table if name == "t.parquet" else feather.write_feather
    write(columns, str(path))
    path.write_bytes(path.read_bytes()[:300])
    done = run("train", path, "--label", "kind", "--model", tmp_path / "m.npz", "--quiet")
    assert done.exit_code == 65
    assert f"{path}: cannot be read as" in done.output
    assert sorted(file.name for file in tmp_path.iterdir()) == [name]


def test_the_first_look_finds_the_table(table, tmp_path):
    """Not the README beside it, and decompressed."""
    folder = tmp_path / "tables" / "part=1"
    folder.mkdir(parents=True)
    text = table[0].read_bytes()
    (folder / "t.csv.zst").write_bytes(pa.compress(text, "zstd", asbytes=True))
    (tmp_path / "tables" / "README.md").write_text("About, the, table\n")
    done = run("train", tmp_path / "tables")
    assert done.exit_code == 2
    assert "its first line is 'length,color,kind'" in done.output
    chosen = dict.fromkeys(["format", "labels", "positive"]) | {"label": "kind"}
    first_look((str(tmp_path / "tables"),), chosen, "auto")
    (folder / "t.csv.zst").write_bytes(pa.compress(text + b"1,red\n", "zstd", asbytes=True))
    with pytest.raises(BadData, match=r"t\.csv\.zst, line 402: has 2 fields, wanted 3"):
        first_look((str(tmp_path / "tables"),), chosen, "auto")


def test_a_label_that_the_model_does_not_know(table, tmp_path):
    model = tmp_path / "m.npz"
    told(run("train", table[0], "--method", "l2svm", "--label", "kind", "--model", model, "--json"))
    path = tmp_path / "t.csv"
    path.write_text("length,color,kind\n1,red,rose\n2,blue,tulip\n")
    done = run("evaluate", model, path)
    assert done.exit_code == 65
    assert (
        f"{path}, line 3: column 'kind': the label is 'tulip', which is not one of rose, violet"
        in done.output
    )
    assert run("predict", model, path).exit_code == 0


def test_columns_that_the_model_does_not_know_are_left_alone(table, tmp_path):
    model = tmp_path / "m.npz"
    told(run("train", table[0], "--method", "l2svm", "--label", "kind", "--model", model, "--json"))
    plain, wide = tmp_path / "plain.csv", tmp_path / "wide.csv"
    plain.write_text("length,color\n1,red\n9,blue\n")
    wide.write_text("when,color,length,note\n2020,red,1,\n2021,blue,9,x\n")
    done = run("predict", model, wide, "--decision")
    assert done.exit_code == 0
    assert done.stdout == run("predict", model, plain, "--decision").stdout
    wide.write_text("when,color,note\n2020,red,1\n")
    done = run("predict", model, wide)
    assert done.exit_code == 65
    assert "has no column ['length']" in done.stderr


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    """A model of the flowers."""
    path = tmp_path_factory.mktemp("model") / "m.npz"
    done = run(
        "train", table[0], "--method", "l2svm", "--label", "kind", "--model", path, "--quiet"
    )
    assert done.exit_code == 0, done.output
    return path


def flowers(folder, ending, rows):
    """Write flowers with ids, in a format."""
    path = folder / f"new{ending}"
    columns = pa.table(
        {
            "id": [f"no {i}, {color}" for i, (_, color, _) in enumerate(rows)],
            "color": [color for _, color, _ in rows],
            "length": [float(length) for length, _, _ in rows],
            "place": [None if i == 3 else i for i in range(len(rows))],
        }
    )
    if ending == ".csv":
        columns.to_pandas().astype({"place": "Int64"}).to_csv(path, index=False)
    else:
        {".parquet": parquet.write_table, ".feather": feather.write_feather}[ending](columns, path)
    return path


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather"])
def test_predictions_keep_columns(ending, table, model, tmp_path):
    rows = table[1]
    new, plain, out = flowers(tmp_path, ending, rows), tmp_path / "plain.txt", tmp_path / "out.csv"
    assert run("predict", model, new, "--output", plain).exit_code == 0
    more = ["--keep", "id", "--keep", "place", "--output", out]
    assert run("predict", model, new, *more).exit_code == 0
    with out.open(newline="") as stream:
        head, *found = csv.reader(stream)
    assert head == ["id", "place", "prediction"]
    assert [row[0] for row in found] == [f"no {i}, {row[1]}" for i, row in enumerate(rows)]
    assert [row[1] for row in found[:5]] == ["0", "1", "2", "", "4"]
    assert [row[2] for row in found] == plain.read_text().split()
    assert run("predict", model, new, "--decision", *more).exit_code == 0
    assert out.read_text().startswith("id,place,decision\n")


def test_columns_of_several_blocks_stay_beside_their_rows(table, model, tmp_path):
    new, out = flowers(tmp_path, ".csv", table[1]), tmp_path / "out.csv"
    more = ["--keep", "id", "--decision", "--output", out]
    assert run("predict", model, new, *more).exit_code == 0
    whole = out.read_bytes()
    assert run("predict", model, new, *more, "--blocksize", "1000").exit_code == 0
    assert out.read_bytes() == whole


def test_a_column_to_keep_that_is_not_there_is_refused(table, model, tmp_path):
    new = flowers(tmp_path, ".csv", table[1])
    done = run("predict", model, new, "--keep", "nope", "--output", tmp_path / "out.csv")
    assert done.exit_code == 65
    assert "has no column ['nope']; it has ['id', 'color', 'length', 'place']" in done.stderr
    assert not (tmp_path / "out.csv").exists()


def test_evaluate_by_a_label_column_of_another_name(table, model, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(table[0].read_text().replace("length,color,kind", "length,color,truth"))
    wanted = told(run("evaluate", model, table[0], "--json"))
    assert told(run("evaluate", model, other, "--label", "truth", "--json")) == wanted


def test_a_table_with_decimal_commas_from_train_to_predict(table, tmp_path):
    path, rows = table
    text = path.read_text().replace(",", ";").replace(".", ",")
    (tmp_path / "t.csv").write_text(text)
    model, out = tmp_path / "m.npz", tmp_path / "out.txt"
    row = told(run("train", tmp_path / "t.csv", "--delimiter", ";", "--method", "l2svm", "--label",
                   "kind", "--lam", 1e-4, "--model", model, "--quiet", "--json"))  # fmt: skip
    assert (row["rows"], row["features"]) == (400, 4)
    # the delimiter and the comma are those of the model
    assert run("predict", model, tmp_path / "t.csv", "--output", out).exit_code == 0
    assert np.mean(np.loadtxt(out, dtype=str) == [kind for *_, kind in rows]) > 0.95


def test_labels_cannot_be_in_a_column_of_features(table, model):
    done = run("evaluate", model, table[0], "--label", "color")
    assert done.exit_code == 65
    assert "column 'color' cannot have the labels: the encoder was fitted on it" in done.stderr


@pytest.mark.parametrize("name", ["nothing", "nothing/", "no/where"])
def test_a_name_without_ending_that_is_not_there(name, tmp_path):
    done = run("train", tmp_path / name, "--model", tmp_path / "m.npz")
    assert done.exit_code == 65
    assert "there is no file" in done.stderr
