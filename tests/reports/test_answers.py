"""Did it work? The sentences of a page and of a model card follow from the facts."""

import pytest

from dask_s3vm.reports.answers import answers
from dask_s3vm.reports.card import make_card
from dask_s3vm.reports.page import make_page

DONE = {"code": 0, "reason": "done"}


def told(**facts):
    return [(one.good, one.text) for one in answers({"exit": DONE, **facts})]


def errors(own, alone, count=400):
    result = {"hidden_rows": count, "hidden_error_%": own}
    more = {} if alone is None else {"supervised": {"hidden_error_%": alone}}
    return told(result=result, **more)[0]


@pytest.mark.parametrize(
    ("own", "alone", "good", "words"),
    [
        (5.0, 12.0, True, "The unlabeled rows helped"),
        (12.0, 5.0, False, "harmed"),
        (5.0, 6.0, None, "may be chance"),
        (5.0, None, None, "the error is 5.00 %."),
    ],
)
def test_the_supervised_model_is_beside(own, alone, good, words):
    found, text = errors(own, alone)
    assert found is good
    assert words in text
    assert text.startswith("On 400 labels that were held out")


def test_few_labels_prove_little():
    assert errors(5.0, 12.0, count=20)[0] is None


def test_without_labels_held_out_the_way_is_named():
    ((good, text),) = told()
    assert good is None
    assert "--hold-out" in text


@pytest.mark.parametrize(("predicted", "good"), [(0.33, True), (0.6, False), (0.01, False)])
def test_shares_are_compared_with_the_interval(predicted, good):
    facts = {
        "shares": [{"class": "no"}, {"class": "yes", "predicted": predicted}],
        "model": {"fitted": {"positive_ratio_interval": [0.25, 0.4]}},
    }
    _, (found, text) = told(**facts)
    assert found is good
    assert "class yes, where 25.0 % to 40.0 % are expected" in text
    assert ("collapsed" in text) is not good


@pytest.mark.parametrize(("counts", "good"), [([40, 1, 1, 40], True), ([10, 30, 30, 10], None)])
def test_rows_inside_the_margin_are_counted(counts, good):
    outputs = {"edges": [-2.0, -1.0, 0.0, 1.0, 2.0], "unlabeled": counts}
    _, (found, text) = told(outputs=outputs, shares=[{}, {}])
    assert found is good
    share = 100 * sum(counts[1:3]) / sum(counts)
    assert text.startswith(f"{share:.0f} % of the unlabeled rows")


def test_the_decision_and_the_ending_are_told():
    fitted = {"decision": "tsvm", "decision_reason": "Kept: why.", "termination": "max_iter"}
    _, decision, ending = told(model={"fitted": fitted})
    assert decision == (None, "The guard decided for the model 'tsvm'. Kept: why.")
    assert ending[0] is False
    assert "max_iter" in ending[1]


def test_a_failure_has_no_answer():
    assert answers({"exit": {"code": 1, "reason": "disk full"}}) == []
    assert answers({}) == []


WRONG = [None, 3, "x", [], {}, [None], [[1]], {"fitted": 3}, {"edges": [1], "unlabeled": ["x"]}]


@pytest.mark.parametrize("name", ["exit", "model", "result", "shares", "outputs", "supervised"])
@pytest.mark.parametrize("value", WRONG)
def test_facts_of_the_wrong_kind_are_left_out(name, value):
    facts = {"exit": DONE, name: value}
    answers(facts)
    make_card(facts)
    make_page(facts, [], "", {})


def test_texts_from_outside_stay_text_in_a_card():
    hostile = "<script>x</script>\n# title\n[a](javascript:b) `c`"
    card = make_card({"estimator": hostile, "data": {hostile: hostile}, "exit": DONE})
    assert "<script>" not in card
    assert "\n# title" not in card
    assert "](javascript" not in card
