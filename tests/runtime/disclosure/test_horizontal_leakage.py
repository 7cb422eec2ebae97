"""The leakage report of a horizontal training says what is true of the run."""

from typing import Any

import numpy as np
import pytest

from fedforest import GlobalDP, HorizontalExtraTreesClassifier, LocalDP, Masked, Ring, Shamir
from fedforest.privacy.composition import spend_global, spend_local, spend_nothing_private
from fedforest.privacy.queries import Queries
from fedforest.protocol.horizontal.coordinator.participants import Participants
from fedforest.protocol.horizontal.order import Participation
from fedforest.runtime.disclosure.horizontal_leakage import HorizontalRun, report_horizontal_forest
from fedforest.runtime.disclosure.leakage import (
    CAVEATS,
    COORDINATOR,
    EVERY_PARTY,
    EVERY_PREDICTION,
    NOBODY,
)
from tests.estimators.horizontal_samples import classifier, owners, regressor
from tests.estimators.vertical_samples import amounts, frame_labels, labels, mixed_frame, numbers

QUERIES = Queries(candidates=2, levels=3, trees=100)
LOCAL = spend_local(LocalDP(keep=0.9).resolve(3), QUERIES)
GLOBAL = spend_global(0.01, QUERIES)
BLOCKS = {"aggregation": Masked(), "n_parties": 10, "least_participants": 2}


def facts(**changes: Any) -> HorizontalRun:
    usual: dict[str, Any] = {
        "n_parties": 3,
        "n_trees": 100,
        "n_columns": 10,
        "candidates": 2,
        "is_regression": False,
        "aggregation": None,
        "spending": spend_nothing_private(QUERIES),
        "participation": 1.0,
        "scope": "tree",
        "least_participants": 1,
        "is_weighted": False,
        "is_balanced": False,
        "has_categories": False,
        "draws_rows": False,
        "min_rows_leaf": 1,
        "min_rows_split": 2,
        "is_seeded": False,
    }
    return HorizontalRun(**{**usual, **changes})


def said(who: str, **changes: Any) -> str:
    return "\n".join(report_horizontal_forest(facts(**changes)).about(who))


def test_plain_sums_are_those_of_every_party_by_itself() -> None:
    text = said(COORDINATOR)
    assert "the exact class counts of every party by itself" in text
    assert "collude" not in said(NOBODY)


@pytest.mark.parametrize("protection", [Masked(), Masked(k=2), Ring(), Shamir(threshold=3)])
def test_protected_sums_are_those_of_participants_together(protection: Any) -> None:
    text = said(COORDINATOR, aggregation=protection)
    assert "the exact class counts of the parties together" in text
    assert "class counts of every party by itself" not in text
    assert "party's own class counts" in said(NOBODY, aggregation=protection)


@pytest.mark.parametrize("protection", [Masked(), Ring(), Shamir(threshold=3)])
def test_where_a_protected_sum_is_one_party_s_own_is_said(protection: Any) -> None:
    """tests/protocol/horizontal/test_attacks.py reads both in transcripts, without a colluder."""
    changes = {"aggregation": protection}
    text = said(COORDINATOR, **changes)
    assert "a party's own class counts in nodes of two rows where it alone names a point" in text
    assert "of a class that one party alone has, that party's own counts in every node" in text
    kept = said(NOBODY, **changes)
    assert "except" in kept
    assert "names points, and of classes that it alone has" in kept
    assert "own noisy class counts in nodes of two" in said(COORDINATOR, **changes, spending=LOCAL)
    for_numbers = {**changes, "is_regression": True}
    assert "a party's own sums of targets in nodes of two rows" in said(COORDINATOR, **for_numbers)
    assert "one party alone has" not in said(COORDINATOR, **for_numbers)
    assert "classes" not in said(NOBODY, **for_numbers)
    assert "where it alone names" not in said(COORDINATOR)
    assert "one party alone has" not in said(COORDINATOR)


@pytest.mark.parametrize(
    ("limits", "has_two_rows"),
    [({}, True), ({"min_rows_leaf": 2}, False), ({"min_rows_split": 3}, False)],
)
def test_nodes_of_two_rows_are_told_of_where_they_are_asked_about(
    limits: dict[str, int], has_two_rows: bool
) -> None:
    text = said(COORDINATOR, aggregation=Masked(), **limits)
    assert ("nodes of two rows" in text) == has_two_rows
    assert "in larger nodes where it alone names points" in text


@pytest.mark.parametrize(
    ("protection", "who"),
    [
        (Masked(), "the coordinator and all other participants together"),
        (Masked(k=2), "the coordinator and 2 of its peers"),
        (Ring(), "the coordinator and the next party in the ring"),
        (Shamir(threshold=3), "3 holders of shares together"),
    ],
)
def test_who_can_break_a_protection_is_said(protection: Any, who: str) -> None:
    text = said(CAVEATS, aggregation=protection)
    assert who in text
    assert "fingerprints" in text
    assert who not in said(CAVEATS)
    assert "either of them know the other's" in said(CAVEATS, aggregation=protection, n_parties=2)


def test_points_tell_ranges_the_closer_the_more_trees() -> None:
    # 100 trees × 2 of 10 columns: 20 points of a column at the roots
    assert "20 points of a column" in said(COORDINATOR)
    assert "1/21 of the party's range" in said(COORDINATOR)
    assert "10 points of a column" in said(COORDINATOR, participation=0.5, n_parties=10**6)
    assert "200 points of a column" in said(COORDINATOR, n_trees=1000)
    for protection in (Masked(), Ring(), Shamir(threshold=2)):
        text = said(COORDINATOR, aggregation=protection, spending=LOCAL)
        assert "of every party by itself, for every node and candidate column" in text
        assert "which party abstains where" in text


def test_noise_is_reported_with_its_epsilon_and_what_it_does_not_cover() -> None:
    for spending, how in ((LOCAL, "local differential privacy"), (GLOBAL, "Laplace noise")):
        text = said(COORDINATOR, spending=spending)
        assert how in text
        assert f"epsilon = {spending.epsilon:.3g} " in text
        assert "the exact number of rows" in text
        assert "the exact class counts" not in text
        assert "are that row's label" not in text
        assert "noise covers labels only" in said(CAVEATS, spending=spending)
    assert "noise covers" not in said(CAVEATS)


def test_only_the_party_is_trusted_with_laplace_and_nobody_with_local_noise() -> None:
    assert "must fully trust it" in said(CAVEATS, spending=GLOBAL)
    assert "epsilons of fits add up" in said(CAVEATS, spending=GLOBAL)
    assert "must fully trust it" not in said(CAVEATS, spending=LOCAL)
    assert "sees labels without noise" in said(NOBODY, spending=LOCAL)
    assert "sees labels without noise" not in said(NOBODY, spending=GLOBAL)
    assert "under a new key" in said(CAVEATS, spending=LOCAL)
    assert "by its id, or by the content" in said(CAVEATS, spending=LOCAL, in_federation=True)


@pytest.mark.parametrize(("scope", "least"), [("tree", 1), ("tree", 2), ("tree", 3), ("run", 2)])
@pytest.mark.parametrize("n_parties", [2, 3, 7])
def test_points_are_of_the_trees_that_a_party_takes_part_in(
    scope: Any, least: int, n_parties: int
) -> None:
    names = tuple("abcdefg"[:n_parties])
    run = facts(n_parties=n_parties, participation=0.4, scope=scope, least_participants=least)
    shares = [
        np.mean([name in members for members in drawn.of_trees(range(20)) for name in names])
        for seed in range(150)
        if least <= n_parties
        for drawn in [Participants(names, Participation(0.4, scope, least), seed)]
    ]
    assert not shares or np.mean(shares) == pytest.approx(run.share_of_trees, abs=0.05)


@pytest.mark.parametrize(
    ("scope", "expected", "unexpected"),
    [
        ("step", "is the sum of one party alone", "at roots tell"),
        ("tree", "differences of the sums at roots tell each block's class counts", "one party al"),
        ("run", "leaves the run as a whole", "at roots tell"),
    ],
)
def test_what_changing_participants_tell_is_said(
    scope: str, expected: str, unexpected: str
) -> None:
    changes = {**BLOCKS, "participation": 0.5, "scope": scope}
    text = said(CAVEATS, **changes)
    assert expected in text
    assert unexpected not in text
    everybody = said(CAVEATS, **{**changes, "participation": 1.0})
    assert "at roots tell" not in everybody
    assert "one party alone" not in everybody
    assert "at roots" not in said(CAVEATS, **{**changes, "aggregation": None})


def test_blocks_of_parties_are_told_as_closely_as_they_are_counted() -> None:
    """tests/protocol/horizontal/test_attacks.py computes them: exactly, and nobody's own."""
    changes = {**BLOCKS, "participation": 0.4}
    text = said(CAVEATS, **changes)
    assert "blocks of at least 2" in text
    assert "over all its rows, exactly, though nothing of a party apart from its block" in text
    assert "blocks of at least 5" in said(CAVEATS, **{**changes, "least_participants": 5})
    assert "averages out over many trees" in said(CAVEATS, **changes, draws_rows=True)
    noisy = said(CAVEATS, **changes, spending=GLOBAL)
    assert "each block's noisy class counts" in noisy
    assert "exactly" not in noisy


def test_parties_that_are_one_block_take_part_together_and_tell_nothing_by_differences() -> None:
    changes = {**BLOCKS, "participation": 0.4, "n_parties": 3}
    assert "blocks" not in said(CAVEATS, **changes)
    assert "20 points of a column" in said(COORDINATOR, **changes)  # of all 100 trees


def test_what_a_loss_tells_is_said_where_training_goes_on_after_it() -> None:
    text = said(CAVEATS, **BLOCKS)
    assert "its block of at least 2 parties leaves the run as a whole" in text
    assert "differ by that block's class counts, exactly" in text
    assert "is lost" not in said(CAVEATS, **BLOCKS, spending=GLOBAL)
    assert "is lost" not in said(CAVEATS, **{**BLOCKS, "n_parties": 3})


def test_that_runs_are_not_held_against_each_other_is_said() -> None:
    assert "those of different runs are not" in said(CAVEATS, aggregation=Masked())
    assert "own noisy class counts" in said(CAVEATS, aggregation=Masked(), spending=GLOBAL)
    assert "different runs" not in said(CAVEATS)


def test_participants_know_each_other_where_they_must() -> None:
    assert "who takes part in each sum" in said(EVERY_PARTY, aggregation=Masked())
    text = said(EVERY_PARTY, participation=0.5)
    assert "not who they are" in text
    assert "who takes part" not in text
    assert "participants" not in said(EVERY_PARTY)


@pytest.mark.parametrize(("rows", "is_small"), [(1, True), (4, True), (5, False), (50, False)])
def test_small_leaves_are_pointed_out(rows: int, is_small: bool) -> None:
    assert ("single rows' labels" in said(EVERY_PARTY, min_rows_leaf=rows)) == is_small


@pytest.mark.parametrize("rows", [1, 5, 50])
@pytest.mark.parametrize("protection", [None, Masked()])
def test_single_rows_are_counted_whatever_the_size_of_leaves(rows: int, protection: Any) -> None:
    """tests/protocol/horizontal/test_attacks.py reads them in transcripts."""
    changes = {"min_rows_leaf": rows, "aggregation": protection}
    text = said(COORDINATOR, **changes)
    assert "sides of candidate cuts may hold a single row" in text
    assert "the exact class counts of such a side are that row's label" in text
    assert ("single rows of a party in nodes and leaves" in text) == (protection is None)
    noisy = said(COORDINATOR, **changes, spending=LOCAL)
    assert "sides of candidate cuts may hold a single row" in noisy
    assert "under its noise" in noisy


def test_the_model_is_at_every_party_and_predictions_tell_nobody() -> None:
    assert "every split with its threshold, and what every leaf says" in said(EVERY_PARTY)
    assert "fractions of whole numbers of rows" in said(EVERY_PARTY)
    assert "means of leaves" in said(EVERY_PARTY, is_regression=True)
    assert "tells nobody anything" in said(EVERY_PREDICTION)


def test_what_parties_declare_is_reported() -> None:
    text = said(COORDINATOR)
    assert "how many rows it has" in text
    assert "which classes it has" in text
    assert "categories" not in text
    assert "the categories it has of each" in said(COORDINATOR, has_categories=True)
    assert "their categories" in said(EVERY_PARTY, has_categories=True)
    assert "its largest target" in said(COORDINATOR, is_regression=True)
    assert "declared bounds" in said(COORDINATOR, is_regression=True, spending=GLOBAL)
    assert "class" not in said(COORDINATOR, is_regression=True)
    assert "largest weight" in said(COORDINATOR, is_weighted=True)
    assert "weight" not in said(COORDINATOR)
    assert "number of rows of each class" in said(COORDINATOR, is_balanced=True)


def test_seeded_randomness_is_pointed_out() -> None:
    assert "random_state was given" in said(CAVEATS, is_seeded=True)
    assert "random_state" not in said(CAVEATS)


def test_a_single_party_learns_nothing_from_others() -> None:
    assert "other" not in said(EVERY_PARTY, n_parties=1)


def test_roles_appear_once_and_in_order() -> None:
    for changes in ({}, {"aggregation": Masked(), "spending": LOCAL}, {"is_regression": True}):
        text = str(report_horizontal_forest(facts(**changes))).split("\n\n")[1]
        titles = [line for line in text.splitlines() if not line.startswith("  ")]
        order = (COORDINATOR, EVERY_PARTY, EVERY_PREDICTION, NOBODY, CAVEATS)
        assert titles == [f"{who}:" for who in order]


def test_the_report_of_a_training_is_about_that_training() -> None:
    frame = mixed_frame()
    forest = classifier(
        n_estimators=4,
        aggregation=Masked(k=2),
        participation=0.7,
        participation_scope="run",
        min_samples_leaf=0.1,
        class_weight="balanced",
        max_depth=2,
    ).fit(frame, frame_labels(frame), party=owners())
    assert forest.leakage_ == report_horizontal_forest(
        facts(
            n_trees=4,
            n_columns=6,
            candidates=2,
            aggregation=Masked(k=2),
            participation=0.7,
            scope="run",
            least_participants=2,
            is_balanced=True,
            has_categories=True,
            min_rows_leaf=15,
            is_seeded=True,
        )
    )


def test_spending_of_a_training_is_in_its_privacy_and_in_its_report() -> None:
    X = numbers()
    noisy = GlobalDP(epsilon=6.0, target_bounds=(0.0, 200.0))
    forest = regressor(privacy=noisy, max_depth=3).fit(X, amounts(X), party=owners())
    assert forest.privacy_spent_["label_epsilon"] == pytest.approx(6.0)
    assert forest.privacy_spent_["mechanism"] == "global"
    assert "epsilon = 6 " in str(forest.leakage_)
    plain = classifier().fit(X, labels(X))
    assert plain.privacy_spent_["label_epsilon"] == float("inf")
    assert plain.privacy_spent_["protected"].startswith("nothing")


@pytest.mark.parametrize(
    ("changes", "grade"),
    [
        ({"aggregation": None}, "exposed"),
        ({"aggregation": Masked()}, "sums"),
        ({"aggregation": Masked(), "participation": 0.5, "scope": "step"}, "exposed"),
    ],
)
def test_labels_are_graded_by_what_protects_their_sums(changes: dict[str, Any], grade: str) -> None:
    report = report_horizontal_forest(facts(**changes))
    assert report.grades[0].subject == "labels"
    assert report.grades[0].grade == grade
    assert str(report).startswith(f"labels: {grade} (")


def test_noise_protects_labels_whatever_the_sums() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    forest = HorizontalExtraTreesClassifier(2, privacy=LocalDP(epsilon=3.0), max_depth=2)
    report = forest.fit(X, X[:, 0] > 0, party=np.arange(60) % 2).leakage_
    assert report.grades[0].grade == "protected"
    assert report.grades[0].why == "noise, epsilon 3"
