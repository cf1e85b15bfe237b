"""`dask-s3vm info MODEL`: what is in a model file."""

import json
import re

import numpy as np
import pytest
from running import run

from dask_s3vm import load_model


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(0)
    age, color = rng.integers(1, 90, 200), rng.choice(["red", "blue"], 200)
    kind = np.where(age > 40, "old", "young")
    given = np.where(np.arange(200) < 50, kind, "")
    lines = [f"{a},{c},{k}" for a, c, k in zip(age, color, given, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["age,color,kind", *lines]) + "\n")
    done = run("train", tmp_path / "t.csv", "--label", "kind", "--model", "m.npz", "--quiet")
    assert done.exit_code == 0, done.output
    return load_model("m.npz")


def test_a_model_is_described(model):
    done = run("info", "m.npz", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["estimator"], told["method"]) == ("S3VM", "s3vm")
    assert told["classes"] == ["old", "young"]
    assert told["columns"] == ["age", "color"]
    assert (told["kinds"], told["label"]) == (["number", "category"], "kind")
    assert told["parameters"]["lam"] == model.lam
    assert told["fitted"]["positive_ratio"] == pytest.approx(float(model.positive_ratio_))
    names = [one["feature"] for one in told["weights"]]
    assert sorted(names) == ["age", "color=blue", "color=red"]
    assert names[0] == "age"
    assert told["weights"][0]["weight"] == np.abs(model.coef_).max() * np.sign(model.coef_[0, 0])
    assert {one["class"] for one in told["weights"]} == {"young"}


def test_people_read_lines(model):
    text = run("info", "m.npz").stdout
    assert re.search(r"classes +old, young", text)
    assert re.search(r"label +kind\n", text)
    assert re.search(r"columns +age \(number\), color \(category\)\n", text)
    assert "np." not in text
    assert "strongest weights" in text


def test_a_kernel_has_no_weights_of_columns(g2c_file):
    assert run("train", g2c_file, "--kernel", "rbf", "--quiet", "--model", "k.npz").exit_code == 0
    assert json.loads(run("info", "k.npz", "--json").stdout)["weights"] == []


def test_more_than_two_classes(tmp_path):
    y = np.arange(90) % 3
    np.savez(tmp_path / "t.npz", X=np.eye(3)[y] + 0.1, y=y)
    done = run("train", tmp_path / "t.npz", "--method", "l2svm", "--quiet", "--model", "m.npz")
    assert done.exit_code == 0, done.output
    told = json.loads(run("info", "m.npz", "--json").stdout)
    assert {one["class"] for one in told["weights"]} == {0, 1, 2}
    assert told["weights"][0]["feature"].startswith("column ")


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["absent.npz"], 65, "absent.npz"),
        ([], 2, "MODEL"),
        (["m.npz", "--nworkers", 1], 2, "has no effect on a model file"),
    ],
)
def test_usage(args, code, words):
    done = run("info", *args)
    assert done.exit_code == code, done.output
    assert words in done.output
