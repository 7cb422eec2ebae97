"""The leakage report says what the run was, and names nothing that did not happen."""

from dataclasses import replace

from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.runtime.leakage import EVERY_PARTY, VerticalRun, report_vertical_training

PLAIN = VerticalRun(
    n_parties=3,
    label_party="bank",
    is_regression=False,
    response=None,
    is_weighted=False,
    out_of_bag=False,
    min_rows_leaf=5,
)


def told(run: VerticalRun) -> str:
    return str(report_vertical_training(run))


def test_every_role_has_one_heading_and_at_least_one_entry() -> None:
    lines = told(PLAIN).splitlines()
    headings = [line for line in lines if not line.startswith("  - ")]
    assert headings == ["The coordinator:", "Every party:", "Nobody but its owner:"]
    assert len(lines) > 2 * len(headings)


def test_encoded_classes_are_said_to_be_known_up_to_their_names() -> None:
    assert "which rows share a class" in told(PLAIN)
    assert "noisy" not in told(PLAIN)


def test_noisy_labels_are_reported_with_their_epsilon_and_nothing_more_is_claimed() -> None:
    text = told(replace(PLAIN, response=RandomizedResponse(1.5)))
    assert "epsilon = 1.5" in text
    assert "which rows share a class" not in text


def test_regression_targets_are_said_to_be_known_to_the_coordinator() -> None:
    text = told(replace(PLAIN, is_regression=True))
    assert "so the targets themselves" in text


def test_small_leaves_two_parties_weights_and_out_of_bag_votes_are_pointed_out() -> None:
    changes = {
        "groups as small as 2": replace(PLAIN, min_rows_leaf=2),
        "with two parties": replace(PLAIN, n_parties=2),
        "the weight of every row": replace(PLAIN, is_weighted=True),
        "out-of-bag score": replace(PLAIN, out_of_bag=True),
    }
    for words, run in changes.items():
        assert words in told(run)
        assert words not in told(PLAIN)


def test_node_membership_is_admitted_whatever_protects_labels() -> None:
    for response in (None, RandomizedResponse(0.1)):
        report = report_vertical_training(replace(PLAIN, response=response))
        assert any(e.who == EVERY_PARTY and "which rows pass which node" in e.what for e in report)
