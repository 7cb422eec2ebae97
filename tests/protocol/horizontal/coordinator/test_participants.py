"""Who takes part in which tree or step."""

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import TooFewParties
from fedforest.protocol.horizontal.coordinator.participants import Participants
from fedforest.protocol.horizontal.order import Participation, Scope

SCOPES: tuple[Scope, ...] = ("tree", "run")
TEN = tuple(f"party {number}" for number in range(10))


def test_everybody_takes_part_by_default() -> None:
    drawn = Participants(TEN, Participation(), seed=1)
    assert drawn.of_trees(range(3)) == [TEN, TEN, TEN]
    [group] = drawn.of_step(1, [TEN, TEN, TEN])
    assert group.participants == TEN
    assert group.trees == range(3)


def test_a_tree_keeps_its_participants_and_trees_differ_in_them() -> None:
    drawn = Participants(TEN, Participation(0.4, "tree", 2), seed=1)
    by_tree = drawn.of_trees(range(20))
    assert len(set(by_tree)) > 10
    for step in range(5):
        for group in drawn.of_step(step, by_tree):
            assert {by_tree[tree] for tree in group.trees} == {group.participants}


def test_a_batch_draws_what_the_whole_run_would_draw() -> None:
    drawn = Participants(TEN, Participation(0.4, "tree", 2), seed=1)
    in_batches = [*drawn.of_trees(range(3)), *drawn.of_trees(range(3, 20))]
    assert sorted(in_batches) == sorted(drawn.of_trees(range(20)))


def test_trees_with_the_same_participants_follow_each_other() -> None:
    drawn = Participants(TEN, Participation(0.5, "tree", 4), seed=1)
    by_tree = drawn.of_trees(range(30))
    assert len(list(groupby(by_tree))) == len(set(by_tree)) < 30


def test_a_run_can_keep_its_participants() -> None:
    drawn = Participants(TEN, Participation(0.5, "run", 1), seed=4)
    [participants] = set(drawn.of_trees(range(9)))
    assert 0 < len(participants) < 10


def test_steps_draw_anew_where_the_paper_is_followed() -> None:
    drawn = Participants(TEN, Participation(0.4, "step", 2), seed=1)
    by_tree = drawn.of_trees(range(4))
    assert by_tree == [TEN] * 4  # everybody holds rows, so that everybody can be drawn
    sets = [drawn.of_step(step, by_tree)[0].participants for step in range(20)]
    assert len(set(sets)) > 10


@given(st.floats(0.01, 1.0), st.integers(1, 6), st.integers(0, 2**32))
def test_there_are_never_too_few(share: float, least: int, seed: int) -> None:
    drawn = Participants(TEN, Participation(share, "tree", least), seed)
    for participants in drawn.of_trees(range(5)):
        assert len(participants) >= least
        assert [party for party in TEN if party in participants] == list(participants)


def test_each_party_is_drawn_about_as_often_as_asked_for() -> None:
    drawn = Participants(TEN, Participation(0.4, "tree", 1), seed=7)
    by_tree = drawn.of_trees(range(2000))
    for party in TEN:
        share = sum(party in participants for participants in by_tree) / 2000
        assert 0.35 < share < 0.45  # more than four standard deviations either way


@given(st.integers(2, 9), st.integers(2, 4), st.floats(0.05, 0.95), st.integers(0, 2**32))
def test_no_sums_over_trees_tell_two_parties_of_a_block_apart(
    n_parties: int, least: int, share: float, seed: int
) -> None:
    parties = TEN[: max(n_parties, least)]
    for scope in SCOPES:
        drawn = Participants(parties, Participation(share, scope, least), seed)
        sets = drawn.of_trees(range(12))
        takes_part = np.array([[party in members for members in sets] for party in parties])
        alike = (takes_part[:, None] == takes_part[None]).all(axis=2)
        assert (alike.sum(axis=1) >= least).all()


@given(st.sets(st.integers(0, 9), max_size=8), st.integers(0, 2**32))
def test_parties_without_rows_hide_nobody(empty: set[int], seed: int) -> None:
    without_rows = frozenset(TEN[number] for number in empty)
    for scope in SCOPES:
        drawn = Participants(TEN, Participation(0.3, scope, 2), seed, without_rows)
        for members in drawn.of_trees(range(6)):
            assert len(set(members) - without_rows) >= 2
    drawn = Participants(TEN, Participation(0.3, "step", 2), seed, without_rows)
    [group] = drawn.of_step(3, [TEN])
    assert len(set(group.participants) - without_rows) >= 2


def test_too_few_parties_with_rows_are_named() -> None:
    with pytest.raises(TooFewParties, match="1 of the parties that are there have rows"):
        Participants(TEN[:3], Participation(1.0, "tree", 2), 0, frozenset(TEN[1:3]))


def test_too_few_parties_are_named_before_anything_is_drawn() -> None:
    with pytest.raises(TooFewParties, match="at least 3"):
        Participants(("a", "b"), Participation(1.0, "tree", 3), seed=0)
