"""Row bits on their way, against lists of bits."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.bits.ranges import copy_ranges, count_bits, list_foreign
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=20 if IS_PLAIN_PYTHON else 100)
NODES = st.lists(st.lists(st.booleans(), max_size=70), max_size=8)


def pack(nodes: list[list[bool]]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bits of all nodes, each starting a byte, and where they start."""
    parts = [np.packbits(np.array(bits, np.uint8), bitorder="little") for bits in nodes]
    lengths = np.array([len(part) for part in parts], np.int64)
    return np.concatenate([np.zeros(0, np.uint8), *parts]), np.cumsum(lengths) - lengths


@EXAMPLES
@given(NODES)
def test_bits_are_counted_node_by_node(nodes: list[list[bool]]) -> None:
    bits, start = pack(nodes)
    sizes = np.array([len(node) for node in nodes], np.int64)
    counts = np.full(len(nodes), -1, np.int64)
    assert count_bits(bits, start, sizes, counts)
    assert counts.tolist() == [sum(node) for node in nodes]


@EXAMPLES
@given(NODES, st.data())
def test_a_set_bit_behind_the_rows_of_a_node_is_noticed(
    nodes: list[list[bool]], data: st.DataObject
) -> None:
    unfilled = [k for k, node in enumerate(nodes) if len(node) % 8]
    if not unfilled:
        return
    node = data.draw(st.sampled_from(unfilled))
    bits, start = pack(nodes)
    sizes = np.array([len(node) for node in nodes], np.int64)
    place = data.draw(st.integers(len(nodes[node]) % 8, 7))
    bits[start[node] + len(nodes[node]) // 8] |= np.uint8(1 << place)
    counts = np.zeros(len(nodes), np.int64)
    assert not count_bits(bits, start, sizes, counts)
    assert counts.tolist() == [sum(node) for node in nodes]


def test_every_byte_is_counted_right() -> None:
    bits = np.arange(256, dtype=np.uint8)
    counts = np.zeros(256, np.int64)
    assert count_bits(bits, np.arange(256), np.full(256, 8), counts)
    assert counts.tolist() == [value.bit_count() for value in range(256)]


@EXAMPLES
@given(st.lists(st.integers(0, 9), max_size=12), st.randoms(use_true_random=False))
def test_ranges_are_copied_to_their_places(lengths: list[int], random: object) -> None:
    order = list(range(len(lengths)))
    random.shuffle(order)  # type: ignore[attr-defined]
    source = np.arange(1, sum(lengths) + 1, dtype=np.int64).astype(np.uint8)
    source_start = np.cumsum([0, *lengths])[:-1]
    target_start = np.zeros(len(lengths), np.int64)
    at = 0
    for place in order:
        target_start[place] = at
        at += lengths[place]
    target = np.zeros(at, np.uint8)
    copy_ranges(source, source_start, target, target_start, np.array(lengths, np.int64))
    expected = [source[source_start[place] + k] for place in order for k in range(lengths[place])]
    assert target.tolist() == expected


@EXAMPLES
@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 3)), max_size=30))
def test_foreign_nodes_are_those_that_somebody_else_split_and_that_are_wanted(
    nodes: list[tuple[int, int]],
) -> None:
    owner = np.array([number for number, _ in nodes], np.int16)
    is_wanted = np.array([wanted for _, wanted in nodes], np.uint8)
    expected = [k for k, (number, wanted) in enumerate(nodes) if number in (0, 2) and wanted]
    assert list_foreign(owner, 1, is_wanted).tolist() == expected
