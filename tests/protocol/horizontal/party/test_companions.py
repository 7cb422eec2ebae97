"""Whom a party lets its numbers be added up with, and how often it lets trees begin."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ProtocolError
from fedforest.protocol.horizontal.coordinator.participants import Participants
from fedforest.protocol.horizontal.messages import SharedDraw
from fedforest.protocol.horizontal.order import Participation, Scope
from fedforest.protocol.horizontal.party.companions import Companions
from tests.protocol.horizontal.asking_one import AskedParty, describe, start_trees

PAIRS = ("ab", "cd", "ef")
SEED = 2026


def agree(
    *blocks: str,
    party: str = "a",
    scope: Scope = "tree",
    least: int = 2,
    without_rows: str = "",
    has_rows: bool = True,
    share: float | None = None,
) -> Companions:
    told = describe(2, 2, blocks=tuple(map(tuple, blocks)), without_rows=tuple(without_rows))
    if share is not None:
        draw = SharedDraw(memoryview(SEED.to_bytes(8, "little")), share, least)
        told = msgspec.structs.replace(told, draw=draw)
    return Companions(party, scope, least).agree(told, has_rows=has_rows)


def begin_as_drawn(
    companions: Companions, coordinator: Participants, trees: range
) -> tuple[Companions, list[tuple[str, ...]]]:
    """Begin trees as the coordinator tells a party, and return who takes part in each tree."""
    by_tree = coordinator.of_trees(trees)
    groups = list(dict.fromkeys(by_tree))
    own = [groups.index(members) for members in by_tree if companions.party in members]
    return companions.begin_trees(coordinator.left, trees, own), by_tree


@given(
    st.integers(4, 9),
    st.floats(0.1, 1.0),
    st.sampled_from(["tree", "run", "step"]),
    st.integers(0, 2**64 - 1),
    st.booleans(),
)
def test_parties_draw_what_the_coordinator_draws(
    n_parties: int, share: float, scope: Scope, seed: int, has_loss: bool
) -> None:
    names = tuple("abcdefghi"[:n_parties])
    drawn = Participants(names, Participation(share, scope, 2), seed)
    told = SharedDraw(memoryview(seed.to_bytes(8, "little")), share, 2)
    agreed = describe(2, 2, blocks=tuple(drawn.blocks()), draw=told)
    party = next(name for name in names if name not in drawn.blocks()[0])
    companions = Companions(party, drawn.participation.kept_for, 2).agree(agreed, has_rows=True)
    companions, by_tree = begin_as_drawn(companions, drawn, range(7))
    if has_loss and n_parties > 5:
        drawn = drawn.without(drawn.blocks()[0][:1])
        companions, by_tree = begin_as_drawn(companions, drawn, range(7))
    for step in range(3):
        for group in drawn.of_step(step, by_tree):
            if party in group.participants:
                companions.join(group.number, group.participants, step + 1)


def test_a_coordinator_cannot_choose_who_takes_part() -> None:
    companions = agree(*PAIRS, share=0.5)
    own = companions._own_segments(range(8), frozenset())[1]
    companions = companions.begin_trees(frozenset(), range(8), own)
    assert len(companions.drawn) > 2
    for segment, drawn in enumerate(companions.drawn):
        together = {name for number in drawn for name in PAIRS[number]}
        for others in ("ab", "abcd", "abef", "abcdef"):
            if together == {*others}:
                companions.join(segment, others)
            else:
                with pytest.raises(ProtocolError, match="the seed of the run draws"):
                    companions.join(segment, others)
    with pytest.raises(ProtocolError, match="trees that were not begun"):
        companions.join(len(companions.drawn), "ab")


def test_a_coordinator_cannot_pass_over_trees_or_begin_them_twice() -> None:
    companions = agree(*PAIRS, share=0.5)
    own = companions._own_segments(range(8), frozenset())[1]
    begun = companions.begin_trees(frozenset(), range(8), own)
    with pytest.raises(ProtocolError, match="begun twice"):
        begun.begin_trees(frozenset(), range(7, 9), own)
    with pytest.raises(ProtocolError, match="left out"):
        begun.begin_trees(frozenset(), range(30, 38), own)
    with pytest.raises(ProtocolError, match="not told which trees"):
        begun.begin_trees(frozenset(), range(8, 8), own)
    for wrong in (own[:-1], [*own, 0], [number + 1 for number in own]):
        with pytest.raises(ProtocolError, match="other participants than the seed"):
            companions.begin_trees(frozenset(), range(8), wrong)


def leave(companions: Companions, *left: int) -> Companions:
    return companions.begin_batch(frozenset(left))


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        (("ab", "c"), "fewer than 2 parties with rows"),
        (("a", "bc"), "fewer than 2 parties with rows"),
        (("ab", "bc"), "in two blocks"),
        (("aab",), "in two blocks"),
        (("bc", "de"), "in no block"),
        ((), "in no block"),
    ],
)
def test_blocks_that_hide_too_few_are_refused(blocks: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        agree(*blocks)


def test_parties_without_rows_hide_nobody_and_every_party_checks_what_is_said_of_it() -> None:
    with pytest.raises(ProtocolError, match="fewer than 2 parties with rows"):
        agree("abc", "def", without_rows="bc")
    with pytest.raises(ProtocolError, match="not as it declared"):
        agree("ab", "cd", has_rows=False)
    with pytest.raises(ProtocolError, match="not as it declared"):
        agree("abc", "de", without_rows="a")
    agree("abc", "de", without_rows="c")
    agree("abc", "de", without_rows="a", has_rows=False)


def test_single_parties_are_blocks_only_where_the_run_declared_it() -> None:
    companions = agree(*"abcd", scope="step")
    assert companions.join(0, "abc").join(0, "acd") == companions
    with pytest.raises(ProtocolError, match="fewer than 2 parties"):
        agree(*"abcd", scope="run")


def test_sums_are_over_whole_blocks() -> None:
    companions = agree(*PAIRS)
    for together in ("abcdef", "ab", "fabe"):
        companions.join(0, together)
        companions.join(None, together)
    for together in ("abc", "a", "abce", "bcd"):
        with pytest.raises(ProtocolError, match="over a part of a block"):
            companions.join(0, together)
        with pytest.raises(ProtocolError, match="over a part of a block"):
            companions.join(None, together)
    with pytest.raises(ProtocolError, match="in no block"):
        companions.join(0, "abx")


def test_a_tree_keeps_its_participants() -> None:
    companions = agree(*PAIRS).join(0, "abcd").join(1, "ab").join(0, "abcd")
    with pytest.raises(ProtocolError, match="a tree is counted by other participants than before"):
        companions.join(0, "ab")
    leave(companions).join(0, "ab")


def test_a_run_keeps_its_participants_over_trees_batches_and_losses() -> None:
    companions = agree(*PAIRS, scope="run").join(None, "abcdef").join(0, "abcd").join(1, "abcd")
    for later in (companions, leave(companions)):
        with pytest.raises(ProtocolError, match="a run is counted by other participants"):
            later.join(2, "ab")
    leave(companions, 1).join(0, "ab")
    with pytest.raises(ProtocolError, match="a run is counted by other participants"):
        leave(companions, 2).join(0, "ab")


def test_parties_that_left_do_not_come_back() -> None:
    companions = leave(agree(*PAIRS), 1)
    companions.join(0, "abef")
    with pytest.raises(ProtocolError, match="a party that left the run takes part"):
        companions.join(0, "abcd")
    for left in ((), (2,)):
        with pytest.raises(ProtocolError, match="take part again"):
            leave(companions, *left)
    with pytest.raises(ProtocolError, match="this party's block left"):
        leave(companions, 0, 1)
    with pytest.raises(ProtocolError, match="no such block"):
        leave(companions, 1, 3)


def test_plain_sums_are_not_watched() -> None:
    assert Companions().agree(describe(2, 2), has_rows=True) == Companions()
    assert leave(Companions(), 5).left == {5}


def make_party(**agreed: Any) -> AskedParty:
    rng = np.random.default_rng(0)
    return AskedParty(rng.normal(size=(40, 2)), rng.integers(0, 2, 40), **agreed)


def begin(asked: AskedParty, n_trees: int, *left: int) -> None:
    asked.propose([[0, 1]] * n_trees, start=start_trees(n_trees, 40, left=left))


def test_no_more_trees_are_begun_than_agreed_on_although_nothing_is_noisy() -> None:
    asked = make_party(n_trees=5)
    begin(asked, 3)
    with pytest.raises(ProtocolError, match="more trees"):
        begin(asked, 3)
    begin(asked, 2)
    with pytest.raises(ProtocolError, match="more trees"):
        begin(asked, 1)


def test_after_a_loss_as_many_trees_may_be_begun_again() -> None:
    asked = make_party(n_trees=5)
    begin(asked, 5)
    begin(asked, 5, 1)
    with pytest.raises(ProtocolError, match="more trees"):
        begin(asked, 1, 1)


def test_trees_are_not_begun_anew_more_often_than_agreed_on() -> None:
    asked = make_party(most_losses=1)
    begin(asked, 1, 1)
    with pytest.raises(ProtocolError, match="begun anew more often"):
        begin(asked, 1, 1, 2)
