"""Pictures: what is drawn is what was measured."""

import builtins
import re

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from dask_s3vm import DAS3VM, QNS3VM, RLSC, S2RLSC, TSVM  # noqa: E402
from dask_s3vm.plotting import (  # noqa: E402
    plot_annealing,
    plot_decision_boundary,
    plot_error_over_labels,
    plot_objective,
    plot_output_counts,
    plot_outputs,
    plot_reliability,
    plot_search,
    plot_switches,
)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(4)
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 2)) + 2.0 * np.array([[-1, 0], [1, 0]])[y]
    return X, np.where(np.arange(200) < 20, y, -1)


def fit(kind, data, **params):
    return kind(positive_ratio=0.5, **params).fit(*data)


def labeled(ax):
    return bool(ax.get_xlabel()) and bool(ax.get_ylabel())


def test_objective_over_time(plane):
    model = fit(TSVM, plane)
    ax = plot_objective(model)
    (line,) = ax.lines
    rows = model.history_
    assert np.array_equal(line.get_ydata(), [row["objective"] for row in rows])
    np.testing.assert_allclose(line.get_xdata(), np.cumsum([row["seconds"] for row in rows]))
    assert ax.get_xlabel() == "time [s]"
    assert ax.get_ylabel() == "objective"


def test_objective_of_several_classes_goes_on_in_time():
    rows = [{"class": k, "objective": 1.0 / (1 + i), "seconds": 0.5}
            for k in (0, 1, 2) for i in range(3)]  # fmt: skip
    ax = plot_objective(rows, method="tsvm")
    assert [line.get_xdata().tolist() for line in ax.lines] == [
        [0.5, 1.0, 1.5], [2.0, 2.5, 3.0], [3.5, 4.0, 4.5],
    ]  # fmt: skip
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "class 0", "class 1", "class 2",
    ]  # fmt: skip


def test_objective_without_times_is_over_steps():
    rows = [{"class": 1, "objective": 1.0 / k} for k in (1, 2, 3)]
    ax = plot_objective(rows, method="tsvm")
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3]
    assert ax.get_xlabel() == "step"


def test_restarts_are_points_and_the_best_so_far_a_line(plane):
    model = fit(S2RLSC, plane, n_restarts=8)
    points, best = plot_objective(model).lines
    values = [row["objective"] for row in model.history_]
    assert points.get_ydata().tolist() == values
    assert best.get_ydata().tolist() == np.minimum.accumulate(values).tolist()


def test_annealing_path_of_da(plane):
    model = fit(DAS3VM, plane)
    ax = plot_annealing(model)
    rests = [row for row in model.history_ if row["event"] == "anneal"]
    assert ax.lines[0].get_xdata().tolist() == [row["temperature"] for row in rests]
    assert ax.lines[0].get_ydata().tolist() == [row["objective"] for row in rests]
    (right,) = [other for other in ax.figure.axes if other is not ax]
    assert right.lines[0].get_ydata().tolist() == [row["entropy"] for row in rests]
    assert ax.get_xscale() == "log"
    assert ax.xaxis_inverted()
    assert labeled(ax)
    assert right.get_ylabel()


def test_annealing_path_of_stages_and_levels(plane):
    qn = fit(QNS3VM, plane)
    line = plot_annealing(qn).lines[0]
    assert line.get_xdata().tolist() == [1e-6, 1e-4, 0.01, 0.1, 0.5, 1.0]
    last = [row for row in qn.history_ if row["lam_unlabeled"] == 0.1][-1]
    assert line.get_ydata()[3] == last["objective"]
    tsvm = fit(TSVM, plane)
    ax = plot_annealing(tsvm)
    assert ax.lines[0].get_xdata()[-1] == 1.0
    assert not ax.xaxis_inverted()


def test_switches_per_level():
    rows = [{"class": 1, "event": "switch", "level": level, "switches": pairs, "objective": 1.0}
            for level, pairs in [(0.0, 9), (0.1, 3), (0.1, 4), (0.2, 0), (1.0, 5)]]  # fmt: skip
    rows.append({"class": 1, "event": "release", "level": 1.0, "switches": 100, "objective": 1.0})
    ax = plot_switches(rows, method="tsvm")
    assert [patch.get_height() for patch in ax.patches] == [7, 0, 5]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0.1", "0.2", "1"]
    assert labeled(ax)


def test_the_last_level_is_always_named():
    rows = [{"event": "switch", "level": 1.3**k, "switches": 1} for k in range(45)]
    names = [text.get_text() for text in plot_switches(rows, method="tsvm").get_xticklabels()]
    assert names[-1] == f"{1.3**44:.2g}"
    assert 4 <= len(names) <= 8


def test_switches_of_da_are_those_of_its_descent(plane):
    model = fit(DAS3VM, plane)
    ax = plot_switches(model)
    wanted = [row["switches"] for row in model.history_ if row["event"] == "switch"]
    assert [patch.get_height() for patch in ax.patches] == wanted


def test_nothing_switched_is_said():
    ax = plot_switches([{"event": "switch", "level": 1.0, "switches": 0}], method="tsvm")
    assert [text.get_text() for text in ax.texts] == ["nothing switched"]


@pytest.mark.parametrize(
    ("draw", "rows"),
    [(plot_objective, [{"seconds": 1.0}]), (plot_annealing, [{"objective": 1.0}]),
     (plot_switches, []), (plot_objective, [])],
)  # fmt: skip
def test_a_history_that_cannot_be_drawn_is_refused(draw, rows):
    with pytest.raises(ValueError, match="history"):
        draw(rows, method="tsvm")
    assert plt.get_fignums() == []


@pytest.mark.parametrize("draw", [plot_annealing, plot_switches])
def test_a_method_without_such_a_picture_is_named(draw, plane):
    with pytest.raises(ValueError, match="rlsc"):
        draw(RLSC().fit(*plane))


def test_a_history_alone_needs_its_method(plane):
    model = fit(TSVM, plane)
    with pytest.raises(TypeError, match="give the fitted estimator, or method=, one of cccp, da"):
        plot_objective(model.history_)
    with pytest.raises(ValueError, match=r"method must be one of .*got 'svm'"):
        plot_objective(model.history_, method="svm")


def test_something_else_than_a_history_is_refused():
    with pytest.raises(TypeError, match="int"):
        plot_objective(3)


def test_error_over_labels():
    results = {"a": {50: [0.2, 0.4], 10: [0.5, 0.5]}, "b": {10: 0.25}}
    ax = plot_error_over_labels(results)
    first, second = ax.lines
    assert first.get_xdata().tolist() == [10, 50]
    np.testing.assert_allclose(first.get_ydata(), [50.0, 30.0])
    assert second.get_ydata().tolist() == [25.0]
    band = ax.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose([band[:, 1].min(), band[:, 1].max()], [20.0, 50.0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    with pytest.raises(ValueError, match="empty"):
        plot_error_over_labels({})


@pytest.mark.parametrize("kind", [TSVM, DAS3VM])
def test_the_boundary_is_where_the_output_is_zero(kind, plane):
    X, few = plane
    model = fit(kind, plane, lam=0.1)
    ax = plot_decision_boundary(model, X, few)
    lines = [c for c in ax.collections if len(np.atleast_1d(c.get_linewidths())) and c.get_paths()]
    contours = [c for c in lines if type(c).__name__ == "QuadContourSet" and not c.filled]
    levels = sorted(level for contour in contours for level in contour.levels)
    assert levels == [-1, 0, 1]
    for contour in contours:
        for level, path in zip(contour.levels, contour.get_paths(), strict=True):
            np.testing.assert_allclose(model.decision_function(path.vertices), level, atol=1e-6)
    drawn = sum(
        len(c.get_offsets()) for c in ax.collections if type(c).__name__ == "PathCollection"
    )
    assert drawn == len(X)
    assert labeled(ax)


def test_the_boundaries_of_three_classes_are_ties():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 2)) + 3 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    model = TSVM(lam=0.01).fit(X, np.where(np.arange(90) < 45, y, -1))
    ax = plot_decision_boundary(model, X, y)
    contours = [c for c in ax.collections if type(c).__name__ == "QuadContourSet" and not c.filled]
    assert len(contours) == 3
    for contour in contours:
        outputs = np.sort(model.decision_function(contour.get_paths()[0].vertices), axis=1)
        np.testing.assert_allclose(outputs[:, -1], outputs[:, -2], atol=0.05)


def test_a_boundary_wants_two_columns(plane):
    with pytest.raises(ValueError, match=r"\(n, 2\)"):
        plot_decision_boundary(fit(TSVM, plane), np.zeros((3, 5)))


@pytest.mark.parametrize("layout", ["constrained", None])
def test_the_legend_of_a_boundary_covers_no_row(plane, layout):
    X, few = plane
    figure, ax = plt.subplots(layout=layout)
    plot_decision_boundary(fit(TSVM, plane), X, few, ax=ax)
    figure.canvas.draw()
    legend, picture = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert (legend.x0 >= picture.x1) == (layout is not None)
    assert legend.x1 <= figure.bbox.x1


def test_histogram_of_outputs_counts_every_row(plane):
    X, few = plane
    model = fit(TSVM, plane)
    ax = plot_outputs(model, X, few)
    steps = {patch.get_label(): patch for patch in ax.patches if "rows" in patch.get_label()}
    assert set(steps) == {"labeled rows", "unlabeled rows"}
    outputs = model.decision_function(X)
    for name, part in (("labeled rows", few != -1), ("unlabeled rows", few == -1)):
        data = steps[name].get_data()
        assert np.array_equal(data.values, np.histogram(outputs[part], data.edges)[0])
    shown = sum(patch.get_data().values.sum() for patch in steps.values())
    assert len(X) - 2 <= shown <= len(X)
    assert labeled(ax)


def test_histogram_of_outputs_alone():
    outputs = np.array([-2.5, -1.0, 0.5, 0.5, 1.4])
    ax = plot_outputs(outputs)
    (stairs,) = [patch for patch in ax.patches if patch.get_label() == "rows"]
    assert stairs.get_data().values.sum() == 5
    with pytest.raises(ValueError, match="shape"):
        plot_outputs(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="no outputs"):
        plot_outputs(np.empty(0))


def test_counted_outputs_are_joined_and_cut_but_not_lost():
    edges = np.linspace(-5, 5, 401)
    counts = np.histogram(np.linspace(-1.9, 2.2, 1000), edges)[0]
    ax = plot_output_counts(edges, None, counts)
    data = ax.patches[-1].get_data()
    assert data.values.sum() >= 990
    assert len(data.values) < 100
    assert -2.5 < data.edges[0] < -1.9
    assert np.isin(data.edges, edges).all()


def test_a_few_rows_far_away_are_left_out_and_told():
    outputs = np.concatenate([np.linspace(-2, 2, 2000), [300.0, -70.0]])
    edges = np.arange(-100, 401)
    counted = plot_output_counts(edges, None, np.histogram(outputs, edges)[0])
    for ax in (plot_outputs(outputs), counted):
        low, high = ax.get_xlim()
        assert -4 < low < -1
        assert 1 < high < 4
        assert re.search(r"; \d beyond\)", ax.get_xlabel())


def test_drawing_on_given_axes_makes_no_figure(plane):
    figure, ax = plt.subplots()
    assert plot_objective(fit(TSVM, plane), ax) is ax
    assert plt.get_fignums() == [figure.number]


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"dask-s3vm\[plot\]"):
        plot_objective([{"objective": 1.0, "seconds": 1.0}], method="tsvm")


def test_nothing_is_imported_before_something_is_drawn():
    import subprocess
    import sys

    code = "import sys, dask_s3vm.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_scores_of_a_search_are_drawn():
    results = {
        "params": [{"lam": lam, "offset": word} for word in ("a", "b") for lam in (1.0, 1e-2, 0.1)],
        "mean_test_score": np.array([0.5, 0.6, 0.7, 0.4, 0.8, 0.9]),
        "std_test_score": np.full(6, 0.1),
    }
    ax = plot_search(results)
    assert (ax.get_xlabel(), ax.get_xscale()) == ("lam", "log")
    lines = [box.lines[0] for box in ax.containers]
    assert [line.get_xdata().tolist() for line in lines] == 2 * [[0.01, 0.1, 1.0]]
    assert lines[1].get_ydata().tolist() == [0.8, 0.9, 0.4]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["offset = a", "offset = b"]
    words = {**results, "params": [{"offset": word} for word in "abcdef"]}
    assert plot_search(words).get_xlabel() == "candidate"
    with pytest.raises(TypeError, match="fitted search"):
        plot_search([1, 2])


def test_reliability_is_drawn_where_it_is():
    class Known:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            return np.column_stack([1 - X[:, 0], X[:, 0]])

    rng = np.random.default_rng(0)
    p = rng.random(5000)
    y = (rng.random(5000) < p).astype(int)
    y[::5] = -1
    ax = plot_reliability(Known(), p[:, None], y)
    (said, share) = ax.containers[0].lines[0].get_data()
    assert len(said) == 10
    assert np.abs(said - np.linspace(0.05, 0.95, 10)).max() < 0.02
    assert np.abs(said - share).max() < 0.08, "these come true as often as is said"
    (wrong, share) = plot_reliability(Known(), p[:, None] ** 3, y).containers[0].lines[0].get_data()
    assert np.max(share - wrong) > 0.25, "these do more often"
    with pytest.raises(ValueError, match="no labeled row"):
        plot_reliability(Known(), p[:, None], np.full(5000, -1))
    with pytest.raises(ValueError, match="n_bins"):
        plot_reliability(Known(), p[:, None], y, n_bins=0)
