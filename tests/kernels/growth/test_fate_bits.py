"""Fates in three bits each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedforest.kernels.growth.fate_bits import find_flags, read_fates, write_fates
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS

SPLIT = [(True, fate) for fate in (0, OPEN_LEFT, OPEN_RIGHT, OPEN_LEFT | OPEN_RIGHT)]
FATES = st.sampled_from([*SPLIT, (False, 0), (False, STAYS)])


@given(st.lists(FATES, max_size=40))
def test_fates_take_three_bits_each_and_are_read_back(fates: list[tuple[bool, int]]) -> None:
    is_split = np.array([split for split, _ in fates], np.bool_)
    fate = np.array([opened for _, opened in fates], np.uint8)
    packed = write_fates(is_split, fate)
    first = (fate & (OPEN_LEFT | STAYS)) > 0
    bits = np.stack([is_split, first, (fate & OPEN_RIGHT) > 0], axis=1)
    assert packed.tolist() == np.packbits(bits, bitorder="little").tolist()
    told, read = np.zeros(len(fates), np.bool_), np.zeros(len(fates), np.uint8)
    assert read_fates(packed, told, read) == 0
    assert told.tolist() == is_split.tolist()
    assert read.tolist() == fate.tolist()


def test_a_right_child_of_a_node_that_was_not_split_is_noticed() -> None:
    room = np.zeros(4, np.bool_), np.zeros(4, np.uint8)
    assert read_fates(np.array([0b01000000, 0], np.uint8), *room) != -1  # the third node's first
    assert read_fates(np.array([0, 0b1], np.uint8), *room) == -1  # its second


@given(st.lists(st.booleans(), max_size=40))
def test_flags_that_are_set_are_found(flags: list[bool]) -> None:
    packed = np.packbits(np.array(flags, np.bool_), bitorder="little")
    places, are_flags = find_flags(packed, len(flags))
    assert places.tolist() == [place for place, flag in enumerate(flags) if flag]
    assert are_flags


@given(st.integers(1, 40), st.data())
def test_ones_behind_the_last_flag_are_noticed(n_flags: int, data: st.DataObject) -> None:
    bits = np.zeros((n_flags + 8) // 8 * 8, np.bool_)
    bits[data.draw(st.integers(n_flags, len(bits) - 1))] = True
    _, are_flags = find_flags(np.packbits(bits, bitorder="little"), n_flags)
    assert not are_flags
