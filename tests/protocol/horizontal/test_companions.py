"""Whom a party lets its numbers be added up with, and how often it lets trees begin."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ProtocolError
from fedforest.protocol.horizontal.companions import Companions, divide_blocks
from tests.protocol.horizontal.asking_one import AskedParty, start_trees

NAMES = "abcdefgh"
Sets = st.lists(st.frozensets(st.sampled_from(NAMES), min_size=1), min_size=1, max_size=5)


@given(Sets)
def test_parties_are_in_one_block_if_and_only_if_no_set_tells_them_apart(
    sets: list[frozenset[str]],
) -> None:
    blocks: tuple[frozenset[str], ...] = ()
    for together in sets:
        blocks = divide_blocks(blocks, together)
    seen = frozenset[str]().union(*sets)
    assert sorted(name for block in blocks for name in block) == sorted(seen)
    block_of = {name: block for block in blocks for name in block}
    for name in seen:
        for other in seen:
            never_apart = all((name in together) == (other in together) for together in sets)
            assert (block_of[name] == block_of[other]) == never_apart


def test_a_tree_keeps_its_participants() -> None:
    companions = Companions().join(0, "abcd").join(1, "ab").join(0, "dcba")
    with pytest.raises(ProtocolError, match="other participants than before"):
        companions.join(0, "ab")
    assert companions.begin_batch().join(0, "ab").blocks == companions.blocks


@pytest.mark.parametrize(
    "sets",
    [["abc", "ab"], ["ab", "abc"], ["abcd", "bcde"], ["abcd", "abce"], ["abcd", "abef", "ac"]],
)
def test_sets_that_tell_one_party_apart_are_refused(sets: list[str]) -> None:
    companions = Companions()
    for segment, together in enumerate(sets[:-1]):
        companions = companions.join(segment, together)
    with pytest.raises(ProtocolError, match="tell a single party apart"):
        companions.join(len(sets), sets[-1])
    with pytest.raises(ProtocolError, match="tell a single party apart"):
        companions.begin_batch().join(0, sets[-1])


def test_tables_counted_by_all_may_be_followed_by_trees_of_some_blocks() -> None:
    companions = Companions().join(None, "abcdef").join(0, "abcd").join(1, "cdef")
    assert {frozenset("ab"), frozenset("cd"), frozenset("ef")} == set(companions.blocks)


def test_sums_that_name_nobody_are_not_watched() -> None:
    assert Companions().join(0, ()) == Companions()


def make_party(**agreed: Any) -> AskedParty:
    rng = np.random.default_rng(0)
    return AskedParty(rng.normal(size=(40, 2)), rng.integers(0, 2, 40), **agreed)


def begin(asked: AskedParty, n_trees: int, left_out: int = 0) -> None:
    asked.propose([[0, 1]] * n_trees, start=start_trees(n_trees, 40, left_out=left_out))


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
    begin(asked, 5, left_out=1)
    with pytest.raises(ProtocolError, match="more trees"):
        begin(asked, 1, left_out=1)


def test_rows_that_were_left_out_once_stay_left_out() -> None:
    """Sums over all rows, and over those that are left, would differ by what nobody may know."""
    asked = make_party(n_trees=5)
    begin(asked, 1)
    begin(asked, 1, left_out=2)
    for left_out in (0, 1):
        with pytest.raises(ProtocolError, match="left out are to be counted again"):
            begin(asked, 1, left_out=left_out)
    begin(asked, 1, left_out=2)


def test_trees_are_not_begun_anew_more_often_than_agreed_on() -> None:
    """Each time other rows are left out: often enough, they would average out."""
    asked = make_party(most_losses=1)
    begin(asked, 1, left_out=1)
    with pytest.raises(ProtocolError, match="begun anew more often"):
        begin(asked, 1, left_out=2)
