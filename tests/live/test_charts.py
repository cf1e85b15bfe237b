"""What the page draws follows from the facts of a method."""

import dataclasses

import pytest

from dask_s3vm.live.charts import NOT_DRAWN, STAGES, as_message, charts_of, sums_of
from dask_s3vm.parameters.methods import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_column_of_a_method_is_drawn_once(name):
    facts = METHODS[name].facts
    charts = charts_of(facts)
    drawn = [column for chart in charts for column in chart.columns]
    assert len(drawn) == len(set(drawn))
    assert set(drawn) <= set(facts.columns)
    assert set(facts.columns) - set(drawn) <= {*NOT_DRAWN, *STAGES}
    assert charts[0].title == "Objective"


def test_the_axis_of_a_method_is_its_second_chart():
    assert charts_of(METHODS["da"].facts)[1].columns == ("temperature",)
    assert charts_of(METHODS["star"].facts)[1].columns == ("stage",)


def test_columns_of_a_method_that_nobody_knows_get_a_chart_each():
    facts = dataclasses.replace(
        METHODS["l2svm"].facts, columns=("objective", "surprise", "seconds")
    )
    assert [as_message(chart)["columns"] for chart in charts_of(facts)] == [
        [["objective", "objective"]], [["surprise", "surprise"]],
    ]  # fmt: skip


def test_amounts_are_added_up():
    assert set(sums_of(charts_of(METHODS["tsvm"].facts))) == {
        "switches",
        "newton_steps",
        "cg_steps",
    }
