"""Sums of both sides of every cut, compared with asking every row."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.cuts.class_sums import add_weights
from fedforest.kernels.cuts.sides import BLOCK
from fedforest.kernels.cuts.sums import add_moments, count_classes, count_responses
from fedforest.kernels.cuts.tile_lanes import LANES
from fedforest.kernels.layout import MAX_MULTIPLICITY, Targets
from tests.level_cases import AskedLevel, RawLevel, asked_levels
from tests.reference.random_cuts import Cut, add_up
from tests.reference.splits import Sums
from tests.strategies import IS_PLAIN_PYTHON, SEEDS, DrawnNodes

N_EXAMPLES = 20 if IS_PLAIN_PYTHON else 100
NOTHING = np.zeros(0, np.int64)
RowSums = Callable[[int, int], Sums]  # of a row drawn so many times


def expected_sums(asked: AskedLevel, of_row: RowSums, width: int, *, both: bool) -> list[list[int]]:
    """One line per asked pair: the sums of the left side, then those of the right one."""
    lines = []
    for node, column, cut in asked.asked:
        drawn = zip(
            asked.level.nodes.rows[node].tolist(),
            asked.level.nodes.multiplicities[node].tolist(),
            asked.goes_left(node, column, cut),
            strict=True,
        )
        rows = [(of_row(row, times), is_left) for row, times, is_left in drawn]
        sides = (True, False) if both else (True,)
        of_sides = [add_up([sums for sums, left in rows if left == side], width) for side in sides]
        lines.append([integer for sums in of_sides for integer in sums])
    return lines


Kernel = Callable[[NDArray[np.int64], int, int], None]  # sums, first node, last


def check_sums(
    asked: AskedLevel, kernel: Kernel, of_row: RowSums, width: int, *, both: bool, middle: int
) -> None:
    """Both the sums and that they do not depend on how the nodes are divided."""
    sums = np.zeros((len(asked.asked), width * (1 + both)), np.int64)
    middle = min(middle, len(asked.level.nodes))
    for part in ((middle, len(asked.level.nodes)), (0, middle)):
        kernel(sums, *part)
    assert sums.tolist() == expected_sums(asked, of_row, width, both=both)


@given(asked_levels(), SEEDS, st.integers(2, 13), st.booleans(), st.booleans(), st.integers(0, 4))
@settings(max_examples=N_EXAMPLES)
def test_class_counts_are_those_of_the_rows_on_each_side(
    asked: AskedLevel, seed: int, n_classes: int, rows_apart: bool, both: bool, middle: int
) -> None:
    classes = np.random.default_rng(seed).integers(0, n_classes, asked.level.n_rows)
    order = asked.level.order(classes)
    pairs, kept = asked.level.kept(order)
    _, tiled = asked.level.kept(order, in_tiles=True)
    width = n_classes + rows_apart
    cuts = asked.as_asked(pairs)

    def of_row(row: int, times: int) -> Sums:
        return (*(times * (label == classes[row]) for label in range(n_classes)), 1)[:width]

    def as_words(sums: NDArray[np.int64], first: int, last: int) -> None:
        count_classes(order, n_classes, kept, cuts, width, sums, first, last)

    def in_tiles(sums: NDArray[np.int64], first: int, last: int) -> None:
        count_classes(order, n_classes, tiled, cuts, width, sums, first, last)

    def one_by_one(sums: NDArray[np.int64], first: int, last: int) -> None:
        add_weights(order, NOTHING, n_classes, kept, cuts, width, sums, first, last)

    check_sums(asked, as_words, of_row, width, both=both, middle=middle)
    check_sums(asked, in_tiles, of_row, width, both=both, middle=middle)
    check_sums(asked, one_by_one, of_row, width, both=both, middle=middle)


@given(asked_levels(), SEEDS, st.integers(2, 5), st.booleans(), st.integers(0, 4))
@settings(max_examples=N_EXAMPLES)
def test_class_weights_are_those_of_the_rows_on_each_side(
    asked: AskedLevel, seed: int, n_classes: int, both: bool, middle: int
) -> None:
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, n_classes, asked.level.n_rows)
    weights = rng.integers(1, 2**40, asked.level.n_rows)
    order = asked.level.order(classes, np.uint64)
    pairs, kept = asked.level.kept(order)
    cuts, width = asked.as_asked(pairs), n_classes + 1

    def of_row(row: int, times: int) -> Sums:
        weight = times * int(weights[row])
        return (*(weight * (label == classes[row]) for label in range(n_classes)), 1)

    def kernel(sums: NDArray[np.int64], first: int, last: int) -> None:
        add_weights(order, weights, n_classes, kept, cuts, width, sums, first, last)

    check_sums(asked, kernel, of_row, width, both=both, middle=middle)


@given(asked_levels(), SEEDS, *[st.booleans()] * 4, st.integers(0, 4))
@settings(max_examples=N_EXAMPLES)
def test_moments_are_those_of_the_rows_on_each_side(
    asked: AskedLevel,
    seed: int,
    weighted: bool,
    rows_apart: bool,
    both: bool,
    in_tiles: bool,
    middle: int,
) -> None:
    rng = np.random.default_rng(seed)
    n_rows = asked.level.n_rows
    weights = rng.integers(1, 2**20, n_rows) if weighted else np.ones(n_rows, np.int64)
    levels = rng.integers(-(2**30), 2**30, n_rows)
    targets = Targets(0, weights if weighted else NOTHING, levels * weights, levels)
    order = asked.level.order()
    pairs, kept = asked.level.kept(order, in_tiles=in_tiles)
    cuts, width = asked.as_asked(pairs), 2 + rows_apart

    def of_row(row: int, times: int) -> Sums:
        weight = times * int(weights[row])
        return (weight, weight * int(levels[row]), 1)[:width]

    def kernel(sums: NDArray[np.int64], first: int, last: int) -> None:
        add_moments(order, targets, kept, cuts, width, sums, first, last)

    check_sums(asked, kernel, of_row, width, both=both, middle=middle)


@given(
    asked_levels(),
    SEEDS,
    st.sampled_from([1, 2, 7, 8, 9, 15, 16, 17, 63, 64]),
    st.booleans(),
    st.integers(0, 4),
)
@settings(max_examples=N_EXAMPLES)
def test_bits_of_responses_are_counted_once_per_row(
    asked: AskedLevel, seed: int, n_bits: int, in_tiles: bool, middle: int
) -> None:
    rng = np.random.default_rng(seed)
    responses = rng.integers(0, 2**64, asked.level.n_rows, np.uint64) >> np.uint64(64 - n_bits)
    responses = responses.astype(np.uint8 if n_bits <= 8 else np.uint64)
    order = asked.level.order()
    pairs, kept = asked.level.kept(order, in_tiles=in_tiles)
    cuts = asked.as_asked(pairs)

    def of_row(row: int, _times: int) -> Sums:
        return (*(int(responses[row]) >> bit & 1 for bit in range(n_bits)), 1)

    def kernel(sums: NDArray[np.int64], first: int, last: int) -> None:
        count_responses(order, responses, n_bits, kept, cuts, sums, first, last)

    check_sums(asked, kernel, of_row, n_bits + 1, both=True, middle=middle)


@pytest.mark.parametrize("in_tiles", [False, True])
@pytest.mark.parametrize("both", [False, True])
def test_no_field_overflows_in_nodes_of_several_blocks(both: bool, in_tiles: bool) -> None:
    """All rows of one class, drawn as often as possible, all of them left, all bits set."""
    n_rows = 2 * int(BLOCK) + 3
    nodes = DrawnNodes([np.arange(n_rows)], [np.full(n_rows, MAX_MULTIPLICITY)])
    values = np.zeros((1, n_rows), np.float32)
    level = RawLevel(values, np.zeros(1, np.bool_), nodes, np.ones((1, 1), np.uint8))
    asked = AskedLevel(level, [Cut(np.float32(1), missing_left=False)])
    order = level.order(np.ones(n_rows, np.int64))
    pairs, kept = level.kept(order, in_tiles=in_tiles)
    cuts = asked.as_asked(pairs)
    sums = np.zeros((1, 6 if both else 3), np.int64)
    count_classes(order, 2, kept, cuts, 3, sums, 0, 1)
    assert sums[0, :3].tolist() == [0, MAX_MULTIPLICITY * n_rows, n_rows]
    assert not sums[0, 3:].any()
    bit_sums = np.full((1, 20), 7, np.int64)
    responses = np.full(n_rows, 2**9 - 1, np.uint64)
    count_responses(order, responses, 9, kept, cuts, bit_sums, 0, 1)
    assert bit_sums[0].tolist() == [n_rows] * 10 + [0] * 10


@given(asked_levels(), st.integers(0, 4))
@settings(max_examples=N_EXAMPLES)
def test_counting_in_tiles_marks_the_rows_on_the_left_of_each_cut(
    asked: AskedLevel, middle: int
) -> None:
    order = asked.level.order()
    pairs, kept = asked.level.kept(order, in_tiles=True)
    cuts, sums = asked.as_asked(pairs), np.zeros((len(asked.asked), 2), np.int64)
    middle = min(middle, len(asked.level.nodes))
    for part in ((middle, len(asked.level.nodes)), (0, middle)):
        count_classes(order, 2, kept, cuts, 2, sums, *part)
    for pair, ((node, column), cut) in enumerate(zip(asked.level.pairs, asked.cuts, strict=True)):
        if cut is not None:
            tile, lane = divmod(pair - int(pairs.node_start[node]), LANES)
            first = tile * int(kept.per_tile)
            marks = kept.marks[first + order.start[node] : first + order.stop[node]]
            is_left = (marks >> lane & 1).astype(bool).tolist()
            assert is_left == asked.goes_left(node, column, cut)
