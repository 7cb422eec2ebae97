"""The leakage report says what is true of the run, for everybody who took part."""

from typing import Any

import numpy as np
import pytest

from fedforest import RandomizedResponse
from fedforest.runtime.disclosure.encrypted_leakage import report_encrypted_forest
from fedforest.runtime.disclosure.leakage import (
    CAVEATS,
    COORDINATOR,
    EVERY_PARTY,
    EVERY_PREDICTION,
    GRADES,
    LABEL_PARTY,
    NOBODY,
    USER,
    LeakageReport,
    Learned,
    VerticalRun,
    describe_spending,
    report_vertical_forest,
)
from tests.estimators.vertical_samples import (
    amounts,
    by_party,
    classifier,
    few_trees,
    labels,
    numbers,
    regressor,
)


def facts(**changes: Any) -> VerticalRun:
    usual: dict[str, Any] = {
        "parties": ("bank", "shop"),
        "label_party": "bank",
        "is_regression": False,
        "label_epsilon": float("inf"),
        "is_weighted": False,
        "has_class_weights": False,
        "out_of_bag": False,
        "votes_released": False,
        "draws_rows": True,
        "min_rows_leaf": 1,
    }
    return VerticalRun(**{**usual, **changes})


def said(who: str, **changes: Any) -> str:
    return "\n".join(report_vertical_forest(facts(**changes)).about(who))


def test_encoded_classes_are_known_to_the_coordinator_by_number_and_to_parties_by_code() -> None:
    assert "class number of every row" in said(COORDINATOR)
    assert "which rows share a class" in said(EVERY_PARTY)
    assert "class number" not in said(EVERY_PARTY)
    assert "the names of classes" in said(NOBODY)


def test_noisy_labels_are_reported_with_their_epsilon_and_nothing_exact_is_claimed() -> None:
    for who in (COORDINATOR, EVERY_PARTY):
        text = said(who, label_epsilon=2.0)
        assert "noisy label of every row" in text
        assert "epsilon = 2 " in text
        assert "the number of classes is exact" in text
        assert "share a class" not in text
        assert "class number of every row" not in text
    assert "the unnoised labels" in said(NOBODY, label_epsilon=2.0)
    assert "epsilons of fits add up" in said(CAVEATS, label_epsilon=2.0)
    assert "epsilons" not in said(CAVEATS)


def test_targets_are_known_to_the_coordinator_and_to_parties_up_to_unit_and_origin() -> None:
    assert "the target of every row: it passes" in said(COORDINATOR, is_regression=True)
    assert "up to an unknown unit and origin" in said(EVERY_PARTY, is_regression=True)
    counted = said(EVERY_PARTY, is_regression=True, from_zero=True)
    assert "up to an unknown unit: which are zero, and the ratio" in counted
    assert "class" not in said(NOBODY, is_regression=True)


def test_weights_are_reported_where_there_are_any_for_all_who_see_them() -> None:
    for who in (COORDINATOR, EVERY_PARTY):
        assert "the sample weight of every row" in said(who, is_weighted=True)
        assert "class weight" not in said(who, is_weighted=True)
        assert "weight of every row" not in said(who)


def test_class_weights_are_those_of_the_labels_that_left() -> None:
    """tests/protocol/vertical/test_labels.py: they follow the noisy label."""
    for who in (COORDINATOR, EVERY_PARTY):
        text = said(who, has_class_weights=True)
        assert "the class weight of every row, up to" in text
        assert "sample weight" not in text
        noisy = said(who, has_class_weights=True, label_epsilon=2.0)
        assert "class weight of every row's noisy label" in noisy
        assert "without noise" not in noisy
        assert "class weight" not in said(who)


def test_out_of_bag_scores_votes_and_leaves_are_reported_where_they_travel() -> None:
    assert said(LABEL_PARTY) == ""
    assert "out-of-bag score after" not in said(COORDINATOR)
    stopping = {"out_of_bag": True}
    assert "out-of-bag score after" in said(COORDINATOR, **stopping)
    assert "by the trees that left it out" not in said(COORDINATOR, **stopping)
    assert "what every leaf says" in said(LABEL_PARTY, **stopping)
    assert "by the trees that left it out" in said(
        COORDINATOR, out_of_bag=True, votes_released=True
    )


def test_drawn_rows_are_reported_where_rows_are_drawn() -> None:
    assert "which rows each tree drew" in said(EVERY_PARTY)
    assert "which rows each tree drew" not in said(EVERY_PARTY, draws_rows=False)


@pytest.mark.parametrize(("rows", "is_small"), [(1, True), (4, True), (5, False), (50, False)])
def test_small_leaves_are_pointed_out(rows: int, is_small: bool) -> None:
    assert ("groups as small as" in said(EVERY_PARTY, min_rows_leaf=rows)) == is_small


def test_two_parties_know_who_split_and_more_do_not() -> None:
    assert "the other did" in said(EVERY_PARTY)
    assert "not which one" in said(EVERY_PARTY, parties=("a", "b", "c"))


def test_a_single_party_learns_nothing_from_others() -> None:
    text = said(EVERY_PARTY, parties=("bank",))
    assert "other" not in text


def test_predictions_node_membership_and_collusion_are_in_every_report() -> None:
    assert "which leaf each row reaches" in said(EVERY_PREDICTION)
    assert "which way each row went" in said(EVERY_PREDICTION)
    assert "one process" in said(CAVEATS)
    assert "put together what they know" in said(CAVEATS)


def test_the_text_groups_entries_by_role() -> None:
    report = LeakageReport((Learned("A", "one"), Learned("A", "two"), Learned("B", "three")))
    assert str(report) == "A:\n  - one\n  - two\nB:\n  - three"
    shown = report._repr_html_()
    assert shown.startswith("<details><summary>A (2)</summary><ul><li>one</li><li>two</li></ul>")
    assert shown.count("<details>") == 2
    assert repr(report) == "<LeakageReport of 3 entries; print it to read them>"
    assert [entry.what for entry in report] == ["one", "two", "three"]


def test_a_report_begins_with_grades_that_follow_the_protection_of_labels() -> None:
    def grade(**changes: Any) -> str:
        report = report_vertical_forest(facts(**changes))
        labels = report.grades[0]
        assert str(report).startswith(f"labels: {labels.grade} ({labels.why})\n")
        assert f"<td>labels</td><td title='{GRADES[labels.grade]}'>" in report._repr_html_()
        return labels.grade

    assert grade() == "exposed"
    assert grade(label_epsilon=2.0) == "protected"


def test_roles_appear_once_and_in_order() -> None:
    text = str(report_vertical_forest(facts(out_of_bag=True))).split("\n\n")[1]
    titles = [line for line in text.splitlines() if not line.startswith("  ")]
    order = (COORDINATOR, EVERY_PARTY, LABEL_PARTY, EVERY_PREDICTION, NOBODY, CAVEATS)
    assert titles == [f"{who}:" for who in order]


def test_spending_says_what_is_protected_and_what_is_not() -> None:
    noisy = describe_spending(facts(label_epsilon=2.0))
    assert noisy["label_epsilon"] == 2.0
    assert "randomized response" in noisy["protected"]
    assert any("columns" in thing for thing in noisy["not_protected"])
    assert any("number of classes" in thing for thing in noisy["not_protected"])
    plain = describe_spending(facts())
    assert plain["label_epsilon"] == float("inf")
    assert plain["protected"].startswith("nothing")
    assert any("labels" in thing for thing in plain["not_protected"])
    weighted = describe_spending(facts(is_weighted=True))
    assert "the sample weights of rows" in weighted["not_protected"]
    assert "the weights of classes" not in weighted["not_protected"]
    by_class = describe_spending(facts(has_class_weights=True))
    assert "the weights of classes" in by_class["not_protected"]


@few_trees
def test_the_report_of_a_training_is_about_that_training() -> None:
    X = numbers()
    forest = classifier(
        oob_score=True, labels=RandomizedResponse(2.0), min_samples_leaf=0.1, label_party="shop"
    ).fit(by_party(X), labels(X), sample_weight=np.arange(1.0, len(X) + 1))
    expected = facts(
        label_party="shop",
        label_epsilon=2.0,
        is_weighted=True,
        out_of_bag=True,
        votes_released=True,
        min_rows_leaf=15,
    )
    assert forest.leakage_ == report_vertical_forest(expected)
    assert forest.privacy_spent_ == describe_spending(expected)
    balanced = classifier(class_weight="balanced").fit(by_party(X), labels(X))
    assert balanced.leakage_ == report_vertical_forest(facts(has_class_weights=True))
    numbers_forest = regressor(bootstrap=False).fit(by_party(X), amounts(X))
    assert numbers_forest.leakage_ == report_vertical_forest(
        facts(is_regression=True, draws_rows=False)
    )


def test_federations_name_rows_that_are_served_and_trees_on_pages() -> None:
    served = ("standing_serving", "named by ids")
    here = str(report_vertical_forest(facts()))
    assert not any(text in here for text in (*served, "ShowTree")), "nobody else is there"
    report = report_vertical_forest(facts(in_federation=True))
    assert all(text in " ".join(report.about(EVERY_PREDICTION)) for text in served)
    assert "what its leaves say (`ShowTree`" in " ".join(report.about(USER))
    sealed = report_encrypted_forest(facts(in_federation=True, encrypts_labels=True))
    assert all(text in " ".join(sealed.about(EVERY_PREDICTION)) for text in served)
    trees = next(text for text in sealed.about(USER) if "ShowTree" in text)
    assert "leaves" not in trees
