"""What a party reads of a step, against the kernels that read one thing at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.growth.children import count_open
from fedforest.kernels.growth.fate_bits import PADDED_WITH_ONES, RIGHT_WITHOUT_SPLIT, write_fates
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.kernels.growth.step_reading import (
    OWN_ASKED_AGAIN,
    OWN_NOT_SPLIT,
    list_flagged,
    read_step,
)
from fedforest.kernels.layout import NO_SPLIT

SPLIT = [(True, fate) for fate in (0, OPEN_LEFT, OPEN_RIGHT, OPEN_LEFT | OPEN_RIGHT)]
NODE = st.tuples(st.sampled_from([*SPLIT, (False, 0), (False, STAYS)]), st.integers(2, 70))
NOBODY = np.zeros(0, np.int64)


class Reading:
    """Fates as they arrive, and room for what is read of them."""

    def __init__(self, packed: NDArray[np.uint8], sizes: list[int]) -> None:
        n_nodes = len(sizes)
        self.packed, self.sizes = packed, np.array(sizes, np.int64)
        self.is_split, self.fate = np.ones(n_nodes, np.bool_), np.full(n_nodes, 9, np.uint8)
        self.offsets, self.left_rows = np.full(n_nodes, -1), np.full(n_nodes, -1)
        self.scores = np.full(n_nodes, NO_SPLIT)

    def read(
        self, own: NDArray[np.int64] = NOBODY, own_left: NDArray[np.int64] = NOBODY
    ) -> tuple[int, list[int]]:
        told = (self.is_split, self.fate, self.offsets, self.left_rows)
        own_too = (self.scores, own, own_left)
        outcome, moving = read_step(self.packed, self.sizes, *own_too, *told)
        return int(outcome), moving.tolist()


@given(st.lists(NODE, max_size=40), st.data())
def test_fates_own_places_and_moving_nodes_are_read_in_one_pass(
    nodes: list[tuple[tuple[bool, int], int]], data: st.DataObject
) -> None:
    is_split = np.array([split for (split, _), _ in nodes], np.bool_)
    fate = np.array([opened for (_, opened), _ in nodes], np.uint8)
    reading = Reading(write_fates(is_split, fate), [size for _, size in nodes])
    own = [k for k in np.flatnonzero(is_split).tolist() if data.draw(st.booleans())]
    left = [data.draw(st.integers(1, nodes[k][1] - 1)) for k in own]
    outcome, moving = reading.read(np.array(own, np.int64), np.array(left, np.int64))
    assert outcome == count_open(fate)
    assert moving == [k for k in np.flatnonzero(is_split & (fate > 0)).tolist() if k not in own]
    assert reading.is_split.tolist() == is_split.tolist()
    assert reading.fate.tolist() == fate.tolist()
    lengths = [(nodes[k][1] + 7) // 8 for k in own]
    offset_of = {k: sum(lengths[:i]) for i, k in enumerate(own)}
    left_of = dict(zip(own, left, strict=True))
    assert reading.offsets.tolist() == [offset_of.get(k, 0) for k in range(len(nodes))]
    assert reading.left_rows.tolist() == [left_of.get(k, 0) for k in range(len(nodes))]


@pytest.mark.parametrize(
    ("packed", "wrong"),
    [
        ([0b10000000, 0b0], None),  # the third node stays open
        ([0b0, 0b1], RIGHT_WITHOUT_SPLIT),  # a right child of the third
        ([0b0, 0b10000], PADDED_WITH_ONES),
        ([0b10001, 0b10000], PADDED_WITH_ONES),
    ],
)
def test_fates_that_no_step_has_are_noticed(packed: list[int], wrong: int | None) -> None:
    outcome, _ = Reading(np.array(packed, np.uint8), [5, 5, 5, 5]).read()
    assert outcome == (1 if wrong is None else wrong)


def test_a_node_split_here_that_is_told_unsplit_is_noticed() -> None:
    own, left = np.array([1, 2]), np.array([1, 1])
    packed = write_fates(np.array([True, True, False]), np.zeros(3, np.uint8))
    assert Reading(packed, [5, 5, 5]).read(own, left)[0] == OWN_NOT_SPLIT
    assert Reading(packed, [5, 5, 5]).read(own[:1], left[:1])[0] == 0


def test_a_node_with_a_split_here_that_stays_open_is_noticed() -> None:
    packed = write_fates(np.array([True, False, False]), np.array([0, STAYS, 0], np.uint8))
    reading = Reading(packed, [5, 5, 5])
    reading.scores[[0, 2]] = 0.25
    assert reading.read()[0] == 1
    reading.scores[1] = 0.25
    assert reading.read()[0] == OWN_ASKED_AGAIN


@given(st.lists(st.booleans(), max_size=40))
def test_flagged_nodes_are_listed(flags: list[bool]) -> None:
    packed = np.packbits(np.array(flags, np.bool_), bitorder="little")
    nodes, is_padded = list_flagged(packed, len(flags))
    assert nodes.tolist() == [k for k, flag in enumerate(flags) if flag]
    assert is_padded
    if len(flags) % 8:
        packed[-1] |= 128
        assert not list_flagged(packed, len(flags))[1]
