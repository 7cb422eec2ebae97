"""Whom a party lets its numbers be added up with, and how often it lets trees begin."""

from typing import Any

import numpy as np
import pytest

from fedforest.errors import ProtocolError
from fedforest.protocol.horizontal.order import Scope
from fedforest.protocol.horizontal.party.companions import Companions
from tests.protocol.horizontal.asking_one import AskedParty, describe, start_trees

PAIRS = ("ab", "cd", "ef")


def agree(
    *blocks: str,
    party: str = "a",
    scope: Scope = "tree",
    least: int = 2,
    without_rows: str = "",
    has_rows: bool = True,
) -> Companions:
    told = describe(2, 2, blocks=tuple(map(tuple, blocks)), without_rows=tuple(without_rows))
    return Companions(party, scope, least).agree(told, has_rows=has_rows)


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
