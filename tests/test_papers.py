"""The papers' tables: every row is there, and a quick run of every script fills them."""

import csv
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC

PAPERS = Path(__file__).resolve().parents[1] / "examples" / "papers"

#: Table -> rows and columns of numbers in the paper, and cells that it leaves empty.
SHAPES = {
    "000_table_2": (53, 5, 20),
    "001_table_2": (32, 4, 0),
    "001_table_3": (32, 4, 0),
    "002_table_1.2": (8, 2, 0),
    "002_table_1.3": (1, 2, 0),
    "002_table_1.4": (8, 3, 0),
    "002_table_1.5": (1, 3, 0),
    "002_table_1.6": (8, 2, 0),
    "002_table_1.7": (1, 2, 0),
    "003_table_II": (7, 6, 10),
    "003_table_III": (7, 5, 11),
    "004_table_III": (17, 6, 0),
    "004_table_IV": (17, 6, 0),
    "004_table_V": (17, 6, 0),
}
FIGURES = [
    *(f"000_figure_{k}" for k in (4, 5, 6, 7)),
    *(f"001_figure_{k}" for k in (6, 7, 8, 9, 10)),
    *(f"002_figure_1.{k}" for k in (3, 4, 5, 6)),
]


def script(name):
    """Import a module of the folder, which is not a package."""
    spec = importlib.util.spec_from_file_location(f"papers_{name}", PAPERS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def lines(path):
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def printed(name):
    """Keys, and the cells of the methods, of a table as the paper has it."""
    found = lines(PAPERS / "numbers" / f"{name}.csv")
    keys = [k for k in found[0] if k in ("set", "l", "u", "t")]
    cells = [{k: v for k, v in line.items() if k not in keys} for line in found]
    return [tuple(line[k] for k in keys) for line in found], cells


@pytest.mark.parametrize("name", SHAPES)
def test_every_cell_of_the_paper_is_transcribed(name):
    keys, cells = printed(name)
    n_rows, n_methods, n_empty = SHAPES[name]
    assert len(set(keys)) == len(keys) == n_rows
    assert {len(line) for line in cells} == {n_methods}
    values = [cell for line in cells for cell in line.values()]
    assert values.count("") == n_empty
    number = r"\d+(\.\d+)?"
    spread = r" ± " + number
    for value in filter(None, values):
        assert re.fullmatch(f"{number}({spread})?", value)


@pytest.mark.parametrize("name", ["004_table_III", "004_table_IV", "004_table_V"])
def test_average_of_the_transcription_is_the_printed_one(name):
    keys, cells = printed(name)
    for method in cells[0]:
        column = {key[0]: cell[method] for key, cell in zip(keys, cells, strict=True)}
        average = float(column.pop("Average"))
        del column["Avg. Rank"]
        means = [float(cell.partition(" ")[0]) for cell in column.values()]
        assert sum(means) / len(means) == pytest.approx(average, abs=0.006)


def test_what_both_papers_of_one_group_print_is_the_same():
    # the realistic scenario of one is the table of the other: same SVM, same splits
    first = dict(zip(*printed("000_table_2"), strict=True))
    second = dict(zip(*printed("001_table_3"), strict=True))
    shared = {
        key: second[f"{word} {pair}", *key[1:]]["LIBSVM"]
        for key in first
        for short, word in (("C", "COIL"), ("U", "USPS"))
        if key[0].startswith(f"{short}(")
        for pair in [key[0][1:].replace(",", ", ")]
    }
    assert len(shared) == 16
    differ = [key for key, cell in shared.items() if cell != first[key]["LIBSVM"]]
    assert differ == [("C(18,19)", "28", "87", "29")]  # 1.4 ± 4.1 in one, 1.4 ± 4.2 in the other


@pytest.mark.parametrize(
    ("printed", "values", "higher", "verdict"),
    [
        ("5.6 ± 2.4", [3.2, 3.2], False, "yes"),  # 2.4 apart
        ("5.6 ± 2.4", [8.04, 8.06], False, "yes"),  # 2.45: half a digit more
        ("5.6 ± 2.4", [8.06, 8.06], False, "no, worse"),
        ("5.6 ± 2.4", [8.06, 8.06], True, "no, better"),
        ("5.6 ± 2.4", [3.1, 3.1], False, "no, better"),
        ("0.0 ± 0.0", [0.0, 0.0], False, "yes"),
        ("70", [60.0, 80.0], True, "yes"),  # within one of ours
        ("70", [59.0, 60.0], True, "no, worse"),
        ("70", [69.0], True, "one split"),
        ("", [1.0], True, ""),
        ("70", [], True, ""),
    ],
)
def test_means_agree_within_one_standard_deviation(printed, values, higher, verdict):
    tables = script("tables")
    cell = tables.Cell(tables.Printed.of(printed), values)
    assert cell.agrees(higher) == verdict


def test_splits_that_are_done_are_not_run_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    over_splits, kept, made = script("common").over_splits, tmp_path / "splits" / "row.json", []

    def one(seed, shift):
        made.append(seed)
        if len(made) == 3:
            raise KeyboardInterrupt
        return {"SVM": (seed + shift, 0.5)}

    with pytest.raises(KeyboardInterrupt):
        over_splits(one, range(4), 1, 10, kept=kept)
    found = over_splits(one, range(4), 1, 10, kept=kept)
    assert made == [0, 1, 2, 2, 3]
    assert [split["SVM"][0] for split in found] == [10, 11, 12, 13]


def test_kept_splits_are_tabulated_without_a_run(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    over_splits, kept = script("common").over_splits, tmp_path / "row.json"
    over_splits(lambda seed: seed + 1, range(2), 1, kept=kept)
    assert over_splits(pytest.fail, range(5), 0, kept=kept) == [1, 2]
    assert over_splits(pytest.fail, range(5), 0, kept=tmp_path / "none.json") == []


def test_rows_of_other_sets_stay_as_they_are(tmp_path):
    tables = script("tables")

    def table():
        made = tables.Table("001_table_2", "Table 2", tmp_path)
        made.expected = 2
        return made

    first, second, *_ = table().paper
    before = table()
    before.add(first, {"RLSC": [9.0, 12.0, 10.5]}, {"RLSC": [0.25]})
    before.add(second, {"RLSC": [1.0, 2.0]})
    again = table()
    again.miss(first, tables.LEFT_OUT)
    again.add(second, {"RLSC": [5.0, 5.0]})
    left, new = (
        {line["method"]: line for line in lines(tmp_path / "001_table_2.csv")[k : k + 4]}["RLSC"]
        for k in (0, 4)
    )
    assert [left[k] for k in ("ours_mean", "splits", "seconds", "agree")] == [
        "10.5000", "3", "0.250", "yes",
    ]  # fmt: skip
    assert float(left["ours_sd"]) == pytest.approx(np.std([9.0, 12.0, 10.5]), abs=1e-4)
    assert (new["ours_mean"], new["splits"]) == ("5.0000", "2")
    page = (tmp_path / "001_table_2.md").read_text(encoding="utf-8")
    assert "10.5 ± 1.2 (3) <sub>0.25 s</sub>" in page
    assert "5.0 ± 0.0 **yes**" in page
    sets = tables.Table("001_table_2", "Table 2", tmp_path)
    sets.miss((first[0],), tables.LEFT_OUT)  # all rows of the set
    assert len(sets.rows) == 2


def test_a_run_that_is_stopped_loses_no_row_of_an_earlier_one(tmp_path):
    tables = script("tables")

    def table():
        return tables.Table("001_table_2", "Table 2", tmp_path)

    first, second, *_ = table().paper
    before = table()
    before.add(first, {"RLSC": [11.4, 11.6]}, {"RLSC": [0.25, 0.75]})
    before.add(second, {"RLSC": [1.0, 2.0]})
    stopped = table()
    stopped.whole = True
    stopped.add(first, {"RLSC": [5.0]})
    new, left = (
        {line["method"]: line for line in lines(tmp_path / "001_table_2.csv")[k : k + 4]}["RLSC"]
        for k in (0, 4)
    )
    assert (new["ours_mean"], new["splits"], new["note"]) == ("5.0000", "1", tables.WHOLE)
    assert (left["row"], left["ours_mean"], left["splits"]) == (tables.label(second), "1.5000", "2")
    assert (left["paper_mean"], left["agree"], left["note"]) == ("4.9", "no, better", "")
    page = (tmp_path / "001_table_2.md").read_text(encoding="utf-8")
    assert f"| {tables.label(first)} † |" in page
    assert f"| {tables.label(second)} |" in page
    # a table that learns row by row what the paper prints
    (tmp_path / "late.csv").write_bytes((tmp_path / "001_table_2.csv").read_bytes())
    late = tables.Table("late", "Late", tmp_path, extra=("RLSC",))
    late.add(("new",), {"RLSC": [1.0]})
    assert "| 4.9 ± 1.9 / 1.5 ± 0.5 **no, better** |" in late.markdown()


def test_rows_without_kept_splits_stay_as_they_are(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    row = "G2C l=25 u=225 t=250,LIBSVM,13.2,2.8,14.0,1.0,2,yes,0.5,,abc1234"
    out = tmp_path / "000_table_2.csv"
    out.write_text(f"{','.join(script('tables').FIELDS)}\n{row}\n", encoding="utf-8")
    words = ["--jobs", "0", "--sets", "G2C", "--whole-grid", "--out", str(tmp_path)]
    qn = script("qn_s3vm")
    qn.table_2(script("common").options("", qn.PARTS, words))
    found = lines(out)[0]
    assert [found[k] for k in ("ours_mean", "splits", "note", "code")] == [
        "14.0000", "2", "", "abc1234",
    ]  # fmt: skip


def test_the_page_counts_cells_and_winners_and_gives_reasons(tmp_path, monkeypatch):
    tables, readme = script("tables"), script("readme")
    table = tables.Table("001_table_2", "Table 2", tmp_path)
    table.add(next(iter(table.paper)), {"RLSC": [10.6], "LIBSVM": [50.0], "UniverSVM": [0.1],
                                        "S2RLSC": [60.0]})  # fmt: skip
    assert "| S2RLSC, Table 2 (error) | 1 | 1 | 2 | 50 % | 1 |" in readme.summary(tmp_path)
    known = [{"tables": ["001_table_2"], "rows": ["Gaussian2C l=25"], "methods": ["S2RLSC"],
              "why": "The\n draw."}]  # fmt: skip
    monkeypatch.setattr(readme, "reasons", lambda: known)
    assert readme.worse(tmp_path, ["001_table_2"]).split("\n") == [
        "- **Gaussian2C with 25 labels**: LIBSVM 50.0 instead of 13.0 ± 2.9. Not explained.",
        "- **Gaussian2C with 25 labels**: S2RLSC 60.0 instead of 0.8 ± 0.5. The draw.",
    ]
    best = tables.Table("best", "Best", tmp_path, extra=("one", "two"), best=True)
    best.add(("a",), {"one": [1.0, 3.0], "two": [5.0]})
    best.add(("b",), {"one": [1.0], "two": [1.0]})
    best.add(("c",), {"one": [4.0, 4.0], "two": [1.0]})  # of one split: not compared
    assert readme.best(tmp_path, "best") == "**Best of 3 rows:** one 3, two 1."
    assert "| c | **4.0 ± 0.0** | 1.0 |" in best.markdown()
    assert "| a | **2.0 ± 1.0** | 5.0 |" in best.markdown()


def test_rows_know_the_code_that_computed_them(tmp_path):
    tables = script("tables")
    kept = tmp_path / "row.json"
    kept.write_text('{"0": 1.0, "code": "abc1234"}')
    first, second, *_ = tables.Table("001_table_2", "Table 2", tmp_path).paper
    table = tables.Table("001_table_2", "Table 2", tmp_path)
    table.add(first, {"RLSC": [10.0]}, kept=kept)
    table.add(second, {"RLSC": [5.0]})
    again = tables.Table("001_table_2", "Table 2", tmp_path)
    again.miss(first, tables.LEFT_OUT)
    again.add(second, {"LIBSVM": [5.0]}, kept=kept)
    assert again.rows[second]["RLSC"].mean == 5.0  # as it was
    again.add(second, {"RLSC": [5.0], "LIBSVM": [5.0]}, kept=kept)
    assert again.codes() == "Computed by commit abc1234."
    assert lines(tmp_path / "001_table_2.csv")[0]["code"] == "abc1234"
    assert f"{tables.code()} (1)" in table.codes()


def test_every_worse_cell_has_a_reason():
    readme = script("readme")
    page = (PAPERS / "README.md").read_text(encoding="utf-8")
    assert "Not explained." not in page
    known = readme.reasons()
    for one in known:
        cells = [(table, cell) for table in one["tables"]
                 for cell in lines(PAPERS / "results" / f"{table}.csv")]  # fmt: skip
        worse = [pair for pair in cells if pair[1]["agree"] == "no, worse"]
        fits = [cell for table, cell in worse if readme.reason_of(cell, table, [one])]
        assert fits, one["rows"]


def test_balanced_draws_have_half_of_the_labels_of_each_class():
    three_way, y = script("splits").three_way, (np.arange(500) % 5 == 0).astype(int)
    labeled, unlabeled, test = three_way(y, (25, 225, 250), 3, balanced=True)
    assert np.bincount(y[labeled]).tolist() == [13, 12]
    assert [len(part) for part in (labeled, unlabeled, test)] == [25, 225, 250]
    assert len(np.unique(np.concatenate([labeled, unlabeled, test]))) == 500


def test_rivals_do_what_their_programs_do(monkeypatch, rng):
    monkeypatch.syspath_prepend(str(PAPERS))
    star = script("star_svm")
    # GFHF: a chain of rows has the harmonic values 3/4, 1/2, 1/4
    chain = sp.csr_array(np.eye(5, k=1) + np.eye(5, k=-1))
    labels, ranking = star.harmonic(np.array([1, -1, -1, -1, 0]), chain)
    assert ranking == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0], abs=1e-6)
    assert labels[[1, 3]].tolist() == [1, 0]
    # LapSVM without a graph: an SVM, whose offset is trained and left out
    X, few = rng.normal(size=(40, 3)), np.full(40, -1)
    few[:12] = X[:12, 0] > 0.8
    labels, ranking = star.laplacian_svm(few, *star.smooth_kernel(X, 0.0))
    svm = SVC(C=0.5, gamma=star.GAMMA).fit(X[:12], few[:12])
    assert abs(svm.intercept_[0]) > 0.05
    assert ranking == pytest.approx(svm.decision_function(X) - svm.intercept_[0], abs=1e-3)
    assert labels.tolist() == (ranking > 0).astype(int).tolist()


@pytest.fixture(scope="module")
def quick(tmp_path_factory, data_dir):
    """Folder and text of one quick run of all scripts."""
    out = tmp_path_factory.mktemp("papers")
    done = subprocess.run(
        [sys.executable, str(PAPERS), "--quick", "--out", str(out), "--data", str(data_dir)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out, done.stdout


@pytest.mark.parametrize("name", SHAPES)
def test_quick_run_has_every_row_of_the_paper(quick, name):
    found = {line["row"] for line in lines(quick[0] / f"{name}.csv")}
    keys, _ = printed(name)
    wanted = {
        " ".join([key[0], *(f"{k}={v}" for k, v in zip("lut", key[1:], strict=False))])
        for key in keys
    }
    assert wanted <= found


def test_generated_rows_are_run_and_judged(quick):
    cells = {(line["row"], line["method"]): line for line in lines(quick[0] / "000_table_2.csv")}
    row = "G2C l=25 u=225 t=250"
    assert {line["splits"] for (name, _), line in cells.items() if name == row} == {"1"}
    for method in ("LIBSVM", "UniverSVM", "TSVMlin", "DA", "QN-S3VM", "RLSC", "label spreading"):
        assert 0.0 <= float(cells[row, method]["ours_mean"]) <= 60.0
    for method in ("LIBSVM", "UniverSVM", "TSVMlin", "DA", "QN-S3VM"):
        own = cells[row, method]
        far = abs(float(own["ours_mean"]) - float(own["paper_mean"]))
        assert (own["agree"] == "yes") == (far <= float(own["paper_sd"]) + 0.05)


def test_sets_that_are_not_at_hand_are_named(quick):
    for name in ("real-sim", "aut-avn", "full-ccat", "kdd99", "news20.binary", "w6a"):
        assert f"not at hand: {name} (" in quick[1]


@pytest.mark.parametrize("name", FIGURES)
def test_quick_run_has_every_figure(quick, data_dir, name):
    points = lines(quick[0] / f"{name}.csv") if (quick[0] / f"{name}.csv").exists() else []
    if name.startswith("002") and not (data_dir / "rcv1_2316_topics.npz").exists():
        pytest.skip("no text set at hand")
    assert points
    pytest.importorskip("matplotlib")
    assert (quick[0] / f"{name}.png").stat().st_size > 1000


def test_without_data_every_set_is_named_and_nothing_fails(tmp_path):
    done = subprocess.run(
        [sys.executable, str(PAPERS / "star_svm.py"), "--out", str(tmp_path), "--data",
         str(tmp_path / "none")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("not at hand: ") == 45


def test_results_that_are_kept_have_every_row():
    for name in SHAPES:
        kept = PAPERS / "results" / f"{name}.csv"
        if not kept.exists():
            pytest.skip("no results are kept")
        assert {key[0] for key in printed(name)[0]} <= {
            re.split(r" l=\d", line["row"])[0] for line in lines(kept)
        }


def test_page_holds_the_results_that_are_kept():
    page = (PAPERS / "README.md").read_text(encoding="utf-8")
    assert page == script("readme").filled(page, PAPERS / "results")
    shown = page.count("<summary>") - page.count("<b>Figures.</b>")
    assert shown == len(list((PAPERS / "results").glob("*.md")))
