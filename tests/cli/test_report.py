"""`train --report DIR`, and `report DIR`: the page of a run."""

import base64
import csv
import json
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from running import run

from dask_s3vm import load_model
from dask_s3vm.cli.report import pictures_of
from dask_s3vm.reports.page import MOST_ROWS, PICTURES, make_page
from dask_s3vm.reports.record import RunRecord, plain, read_record, to_csv

HOSTILE = "<script>alert(1)</script>&\"'<img src=http://example.com/x onerror=alert(2)>"


@pytest.fixture(scope="module")
def directory(g2c_file, tmp_path_factory):
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("run")
    done = run(
        "train", g2c_file, "--method", "da", "--positive-ratio", 0.5, "--lam", 0.01, "--nworkers",
        0, "--model", folder / "m.npz", "--report", folder / "report",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "dask-performance" not in done.output
    return folder / "report"


def test_the_folder_holds_history_facts_and_pictures(directory, g2c):
    X, _, few = g2c
    model = load_model(directory.parent / "m.npz")
    history = json.loads((directory / "history.json").read_text())
    assert history == plain(model.history_)
    with (directory / "history.csv").open(newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [float(row["objective"]) for row in table] == [r["objective"] for r in model.history_]
    facts = json.loads((directory / "run.json").read_text())
    assert facts["estimator"] == "DAS3VM"
    assert facts["parameters"]["lam"] == 0.01
    assert facts["exit"] == {"code": 0, "reason": "done"}
    assert facts["data"]["rows"] == 300
    assert facts["data"]["unlabeled_rows"] == 288
    counts = {str(label): int((few == label).sum()) for label in (0, 1)}
    assert facts["data"]["labeled_rows"] == counts
    assert facts["result"]["objective"] == model.objective_
    assert facts["environment"]["packages"]["numpy"] == np.__version__
    assert facts["cluster"]["kind"] == "threads of this process"
    outputs, edges = model.decision_function(X[few == -1]), facts["outputs"]["edges"]
    assert facts["outputs"]["unlabeled"] == np.histogram(outputs, edges)[0].tolist()
    assert sum(facts["outputs"]["unlabeled"]) == 288
    drawn = {path.name for path in (directory / "plots").iterdir()}
    names = ("objective", "annealing", "switches", "outputs")
    assert drawn == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}


def test_shares_and_weights_are_on_record_and_on_the_page(directory, g2c, tmp_path):
    X, _, few = g2c
    model = load_model(directory.parent / "m.npz")
    facts, _, _ = read_record(directory)
    predicted = np.mean(model.predict(X[few == -1]) == 1)
    (zero, one) = facts["shares"]
    assert (one["class"], one["expected"]) == (1, 0.5)
    assert one["predicted"] == pytest.approx(predicted)
    assert zero["predicted"] == pytest.approx(1 - predicted)
    strongest = facts["model"]["weights"][0]
    place = int(np.argmax(np.abs(model.coef_[0])))
    assert strongest["feature"] == f"column {place}"
    assert strongest["weight"] == model.coef_[0, place]
    assert run("report", directory, "-o", tmp_path / "page.html").exit_code == 0
    page = (tmp_path / "page.html").read_text()
    assert "Shares of the classes" in page
    assert "Strongest weights" in page
    assert f"column {place}" in page
    assert "np." not in page


def test_every_picture_has_a_sentence(directory, tmp_path):
    assert run("report", directory, "-o", tmp_path / "page.html").exit_code == 0
    page = (tmp_path / "page.html").read_text()
    for name in ("objective", "annealing", "switches", "outputs"):
        title, about = PICTURES[name]
        assert f"<figcaption>{title}</figcaption>" in page
        assert f"<p>{about}</p>" in page
        assert about.endswith(".")


def test_reports_predictions_and_configs_have_urls(g2c_file):
    import fsspec

    store = fsspec.filesystem("memory")
    config = f'data = "{g2c_file}"\nlam = 0.01\npositive-ratio = 0.5\n'
    store.pipe("/job/run.toml", config.encode())
    done = run("train", "--config", "memory://job/run.toml", "--report", "memory://job/out",
               "--model", "memory://job/m.npz", "--predict-unlabeled", "memory://job/f.csv",
               "--quiet")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert store.cat("/job/f.csv").startswith(b"row,label,decision")
    done = run("predict", "memory://job/m.npz", g2c_file, "--output", "memory://job/labels.txt")
    assert done.exit_code == 0, done.output
    assert len(store.cat("/job/labels.txt").split()) == 300
    assert run("report", "memory://job/out").exit_code == 0
    assert b"Objective over time" in store.cat("/job/out/report.html")
    done = run("train", g2c_file, "--model", "nowhere://m.npz")
    assert done.exit_code == 2
    assert "nowhere://m.npz" in done.output


def test_the_config_in_the_folder_repeats_the_run(directory, tmp_path):
    done = run("train", "--config", directory / "config.toml", "--model", tmp_path / "again.npz",
               "--report", tmp_path / "again")  # fmt: skip
    assert done.exit_code == 0, done.output
    a, b = load_model(directory.parent / "m.npz"), load_model(tmp_path / "again.npz")
    assert np.array_equal(a.coef_, b.coef_)


def test_a_failure_is_on_record(g2c_file, tmp_path):
    done = run("train", g2c_file, "--method", "tsvm", "--labels", "absent", "--nworkers", 0,
               "--report", tmp_path / "r")  # fmt: skip
    assert done.exit_code == 65
    facts, history, config = read_record(tmp_path / "r")
    assert facts["exit"]["code"] == 65
    assert "absent" in facts["exit"]["reason"]
    assert history == []
    assert "absent" in config


def test_a_run_that_breaks_down_keeps_its_partial_history(tmp_path):
    record = RunRecord(str(tmp_path), "", lambda text: None)

    def work():
        assert json.loads((tmp_path / "run.json").read_text())["exit"] is None
        record.history.append({"objective": 1.0, "n": np.int64(3), "bad": float("nan")})
        raise MemoryError("too much")

    with pytest.raises(MemoryError), record:
        work()
    facts, history, _ = read_record(tmp_path)
    assert facts["exit"] == {"code": 1, "reason": "too much"}
    assert history == [{"objective": 1.0, "n": 3, "bad": None}]


@pytest.mark.cluster
def test_a_cluster_leaves_its_performance_report(g2c_file, tmp_path):
    pytest.importorskip("bokeh")
    report = ["--report", tmp_path / "r", "--model", tmp_path / "m.npz"]
    done = run("train", g2c_file, "--nworkers", 1, *report)
    assert done.exit_code == 0, done.output
    assert "Bokeh" in (tmp_path / "r" / "dask-performance.html").read_text()
    facts, _, _ = read_record(tmp_path / "r")
    assert facts["cluster"]["workers"] == 1


def test_columns_of_all_rows_are_in_the_csv():
    text = to_csv([{"a": 1}, {"b": "x,y", "a": None}])
    assert text.splitlines() == ["a,b", "1,", ',"x,y"']


class Reader(HTMLParser):
    """Collects tags with their attributes, and the text outside of style."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self._open = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.text.append(data)


def assert_self_contained(page):
    read = Reader(page)
    assert not read._open
    for tag, attrs in read.tags:
        assert tag not in ("script", "link", "iframe", "object", "embed", "base")
        for name, value in attrs.items():
            assert not name.startswith("on")
            assert name not in ("href", "srcset", "action", "data")
            if name == "src":
                assert value.startswith(("data:image/svg+xml;base64,", "data:image/png;base64,"))
    style = page.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    return read


def test_the_page_needs_nothing_else(directory, tmp_path):
    done = run("report", directory, "-o", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert done.output.strip() == str(tmp_path / "page.html")
    read = assert_self_contained((tmp_path / "page.html").read_text())
    text = " ".join(read.text)
    for word in ("DAS3VM", "positive ratio", "temperature", "numpy", "rows.npz", "[method]"):
        assert word in text
    images = [attrs for tag, attrs in read.tags if tag == "img"]
    assert [image["alt"] for image in images] == [
        "Objective over time", "Annealing path", "Switches per level", "Outputs of the rows",
    ]  # fmt: skip
    for image in images:
        svg = base64.b64decode(image["src"].split(",")[1])
        assert b"<svg" in svg
        assert b"<script" not in svg
        assert b"<image" not in svg


def test_texts_from_outside_are_escaped():
    facts = {
        "estimator": HOSTILE, "started": HOSTILE, "exit": {"code": 1, "reason": HOSTILE},
        "parameters": {HOSTILE: HOSTILE}, "data": {"files": [HOSTILE], "n": {HOSTILE: 3}},
        "result": {"termination": HOSTILE}, "environment": {"system": HOSTILE}, "notes": [HOSTILE],
    }  # fmt: skip
    page = make_page(facts, [{HOSTILE: HOSTILE}], HOSTILE, {HOSTILE: ("image/png", b"x")})
    read = assert_self_contained(page)
    assert " ".join(read.text).count(HOSTILE) >= 10
    assert {tag for tag, _ in read.tags} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "span", "div", "b",
        "section", "figure", "figcaption", "img", "table", "thead", "tbody", "tr", "th", "td", "ul",
        "li", "pre",
    }  # fmt: skip


def test_facts_of_the_wrong_kind_do_not_break_the_page():
    for odd in (None, 3, "x", [], [1], {"a": {"b": [None]}}):
        facts = dict.fromkeys(
            ("estimator", "exit", "parameters", "data", "result", "environment", "notes"), odd
        )
        assert_self_contained(make_page(facts, [], "", {}))


def test_a_long_history_is_cut_in_the_middle():
    rows = [{"step": f"s{number}"} for number in range(MOST_ROWS + 50)]
    page = make_page({}, rows, "", {})
    assert page.count("<tr>") == MOST_ROWS + 1
    assert "50 rows in the middle" in page
    assert "s0<" in page
    assert f"s{MOST_ROWS + 49}<" in page


def test_a_run_without_pictures_is_drawn_later(directory, tmp_path):
    shutil.copytree(directory, tmp_path / "r", ignore=shutil.ignore_patterns("plots"))
    facts, history, _ = read_record(tmp_path / "r")
    drawn = pictures_of(tmp_path / "r", facts, history)
    assert set(drawn) == {"objective", "annealing", "switches", "outputs"}
    assert drawn["objective"][1] == (directory / "plots" / "objective.svg").read_bytes()


@pytest.mark.parametrize(
    ("name", "text"),
    [("run.json", "{"), ("run.json", "[]"), ("run.json", '{"format": "other"}'),
     ("run.json", '{"format": "dask-s3vm-run", "version": 9}'), ("history.json", '{"a": 1}')],
)  # fmt: skip
def test_a_folder_of_something_else_is_refused(name, text, tmp_path):
    if name == "history.json":
        (tmp_path / "run.json").write_text('{"format": "dask-s3vm-run", "version": 1}')
    (tmp_path / name).write_text(text)
    done = run("report", tmp_path)
    assert done.exit_code == 65, done.output
    assert name in done.output
    assert not (tmp_path / "report.html").exists()


def test_an_empty_folder_is_refused(tmp_path):
    done = run("report", tmp_path)
    assert done.exit_code == 65
    assert "holds no run" in done.output


BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or ""


@pytest.mark.skipif(not BROWSER, reason="no browser")
def test_a_browser_shows_the_page(directory, tmp_path):
    page = tmp_path / "page.html"
    assert run("report", directory, "-o", page).exit_code == 0
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'p'}",
        # nothing is reachable: what is not on the page cannot come
        "--proxy-server=127.0.0.1:1", "--window-size=1100,1500", "--virtual-time-budget=2000",
    ]  # fmt: skip
    shot = tmp_path / "page.png"
    done = subprocess.run(
        [*command, f"--screenshot={shot}", page.as_uri()],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shot.exists(), done.stderr
    from matplotlib.image import imread

    pixels = imread(shot)[:, :, :3]
    assert pixels.shape[0] == 1500
    # the pictures are there: their blue is on the page, left and right
    blue = np.abs(pixels - np.array([0x00, 0x72, 0xB2]) / 255).max(axis=2) < 0.1
    assert blue[:, :550].sum() > 100
    assert blue[:, 550:].sum() > 100


def test_did_it_work(g2c, tmp_path):
    X, y, _ = g2c
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    done = run(
        "train", tmp_path / "rows.npz", "--method", "tsvm", "--hide-all-but", 12, "--nworkers", 0,
        "--lam", 0.01, "--model", tmp_path / "m.npz", "--report", tmp_path / "report",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    facts, _, _ = read_record(tmp_path / "report")
    model = load_model(tmp_path / "m.npz")
    hidden = facts["supervised"]["hidden_rows"]
    assert hidden == 288
    assert facts["result"]["hidden_error_%"] == pytest.approx(
        100 * np.sum(model.predict(X) != y) / hidden, abs=100 * 12 / hidden
    )
    assert run("report", tmp_path / "report").exit_code == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Did it work?" in page
    assert "On 288 labels that were held out, the error is" in page
    assert "that of the supervised SVM on the same labels is" in page
    assert "inside the margin" in page
    done = run("report", tmp_path / "report", "--card")
    assert done.output.strip().endswith("model-card.md")
    card = (tmp_path / "report" / "model-card.md").read_text()
    assert card.startswith("# TSVM\n")
    for title in ("Did it work?", "Data and labels", "Share of the classes", "Metrics", "Limits"):
        assert f"\n## {title}\n" in card
    assert "np." not in card
