"""Fates, flags and bits between the roles."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.errors import ProtocolError, RemoteProtocolError
from fedforest.protocol.fates import (
    pack_each,
    pack_fates,
    pack_flags,
    unpack_fates,
    unpack_flags,
)
from fedforest.protocol.payloads import RowBits
from fedforest.protocol.vertical.moves import AwaitedBits, NodeBits, follow_sizes
from fedforest.tree.growth.structure import Structure

# (split, fate): closed, stays open, and split with any of its children open
FATES = st.lists(
    st.sampled_from([(False, 0), (False, 4), (True, 0), (True, 1), (True, 2), (True, 3)]),
    max_size=30,
)


@given(FATES)
def test_fates_arrive_as_they_left(fates: list[tuple[bool, int]]) -> None:
    is_split = np.array([split for split, _ in fates], np.bool_)
    fate = np.array([fate for _, fate in fates], np.uint8)
    data = pack_fates(is_split, fate)
    assert len(data) == (3 * len(fates) + 7) // 8
    read_split, read_fate = unpack_fates(data, len(fates))
    assert read_split.tolist() == is_split.tolist()
    assert read_fate.tolist() == fate.tolist()


def test_a_right_child_of_a_node_that_was_not_split_is_refused() -> None:
    with pytest.raises(ProtocolError, match="right child"):
        unpack_fates(memoryview(bytes([0b100])), 1)


@pytest.mark.parametrize(("data", "n_nodes"), [(b"", 1), (b"\0\0", 1), (b"\0", 3), (b"\0", 0)])
def test_fates_of_another_number_of_nodes_are_refused(data: bytes, n_nodes: int) -> None:
    with pytest.raises(ProtocolError, match="fates"):
        unpack_fates(memoryview(data), n_nodes)


@given(st.lists(st.booleans(), max_size=40))
def test_flags_arrive_as_they_left(flags: list[bool]) -> None:
    data = pack_flags(np.array(flags, np.bool_))
    assert unpack_flags(data, len(flags)).tolist() == flags


@given(st.lists(st.lists(st.booleans(), max_size=20), min_size=1, max_size=5))
def test_flags_are_packed_part_by_part_as_each_part_alone(parts: list[list[bool]]) -> None:
    flags = np.array([flag for part in parts for flag in part], np.bool_)
    ends = [0, *accumulate(map(len, parts))]
    packed = [bytes(data) for data in pack_each(flags, ends)]
    assert packed == [bytes(pack_flags(np.array(part, np.bool_))) for part in parts]


def test_flags_and_fates_padded_with_ones_are_refused() -> None:
    with pytest.raises(ProtocolError, match="padded"):
        unpack_flags(memoryview(b"\x10"), 4)
    with pytest.raises(ProtocolError, match="padded"):
        unpack_fates(memoryview(b"\x40"), 2)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 150)), max_size=12), st.data())
def test_bits_of_several_owners_are_found_and_taken_node_by_node(
    nodes: list[tuple[bool, int]], data: st.DataObject
) -> None:
    sizes = np.array([size for _, size in nodes], np.int64)
    content = {k: pack_pattern(k, size) for k, (split, size) in enumerate(nodes) if split}
    owner_of = {node: data.draw(st.integers(0, 2)) for node in content}
    parts = []
    for owner in range(3):
        own = [node for node in content if owner_of[node] == owner]
        joined = b"".join(content[node] for node in own)
        parts.append((f"p{owner}", np.array(own, np.int64), RowBits(memoryview(joined))))
    bits = NodeBits(sizes, parts)
    for node, packed in content.items():
        start = bits.offsets[node]
        assert bits.bits[start : start + len(packed)].tobytes() == packed
        assert bits.left_rows[node] == sum(byte.bit_count() for byte in packed)
    wanted = data.draw(
        st.lists(st.sampled_from(list(content)), unique=True) if content else NOTHING
    )
    taken = bits.take(np.array(wanted, np.int64))
    assert taken.tobytes() == b"".join(content[node] for node in wanted)


NOTHING: st.SearchStrategy[list[int]] = st.just([])


def pack_pattern(node: int, size: int) -> bytes:
    """Bits that differ from node to node, as many as it has rows."""
    flags = [(row * (node + 3)) % 5 < 2 for row in range(size)]
    return np.packbits(np.array(flags, np.bool_), bitorder="little").tobytes()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [(b"\x01", "not as many"), (b"\x01\x00\x00", "not as many"), (b"\x01\xfe", "padded")],
)
def test_bits_that_do_not_fit_their_nodes_are_refused(data: bytes, complaint: str) -> None:
    part = ("spade", np.array([0]), RowBits(memoryview(data)))
    with pytest.raises(RemoteProtocolError, match=complaint) as caught:
        NodeBits(np.array([9]), [part])
    assert caught.value.party == "spade"


@pytest.mark.parametrize(
    ("n_left", "least", "is_right"), [(2, 2, True), (2, 3, False), (7, 3, False)]
)
def test_children_smaller_than_allowed_are_refused(n_left: int, least: int, is_right: bool) -> None:
    packed = np.packbits(np.arange(9) < n_left, bitorder="little")
    parts = [("spade", np.array([0]), RowBits.of(packed))]
    if is_right:
        assert NodeBits(np.array([9]), parts, least).left_rows.tolist() == [n_left]
    else:
        with pytest.raises(RemoteProtocolError, match="min_samples_leaf"):
            NodeBits(np.array([9]), parts, least)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_awaited_bits_may_come_in_any_order(order: tuple[int, int]) -> None:
    sizes, nodes = np.array([9, 3, 20]), [np.array([0, 2]), np.array([1])]
    content = [pack_pattern(0, 9) + pack_pattern(2, 20), pack_pattern(1, 3)]
    awaited = AwaitedBits(sizes, nodes)
    for number in order:
        awaited.put(number, ("spade", nodes[number], RowBits(memoryview(content[number]))))
    parts = [("spade", nodes[k], RowBits(memoryview(content[k]))) for k in (0, 1)]
    at_once = NodeBits(sizes, parts)
    assert awaited.bits.tolist() == at_once.bits.tolist()
    assert awaited.offsets.tolist() == at_once.offsets.tolist()
    assert awaited.left_rows.tolist() == at_once.left_rows.tolist()
    sides = np.minimum(at_once.left_rows, sizes - at_once.left_rows)
    assert awaited.smallest_side == sides.min()


@pytest.mark.parametrize("data", [b"\x01", b"\x01\x00\x00"])
def test_awaited_bits_of_another_length_leave_those_of_others_alone(data: bytes) -> None:
    nodes = [np.array([0]), np.array([1])]
    awaited = AwaitedBits(np.array([9, 9]), nodes)
    awaited.put(1, ("heart", nodes[1], RowBits(memoryview(b"\x03\x01"))))
    before = awaited.bits[2:].tolist()
    with pytest.raises(RemoteProtocolError, match="not as many") as caught:
        awaited.put(0, ("spade", nodes[0], RowBits(memoryview(data))))
    assert caught.value.party == "spade"
    assert awaited.bits[2:].tolist() == before


def test_sizes_follow_their_nodes() -> None:
    structure = Structure(4)
    is_split = np.array([True, False, True, False])
    fate = np.array([3, 4, 2, 0], np.uint8)
    step = structure.advance(is_split, fate)
    sizes = follow_sizes(np.array([10, 20, 30, 40]), np.array([4, 0, 25, 0]), step)
    assert sizes.tolist() == [4, 6, 20, 5]
