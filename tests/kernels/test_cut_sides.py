"""Bits of chosen cuts, from kept values and from the columns themselves."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.cut_sides import BLOCK, Chosen, write_cut_bits
from fedforest.kernels.pairs import Pairs
from fedforest.kernels.partition import place_bits
from tests.level_cases import AskedLevel, RawLevel, asked_levels
from tests.reference.forest import pack_set
from tests.reference.random_cuts import Cut
from tests.strategies import IS_PLAIN_PYTHON, DrawnNodes

N_EXAMPLES = 25 if IS_PLAIN_PYTHON else 120
NO_PAIRS = Pairs(np.zeros(1, np.int64), np.zeros(0, np.int32))


def choose(asked: AskedLevel, data: st.DataObject) -> list[tuple[int, int, Cut]]:
    """One asked pair of some of the nodes."""
    chosen: list[tuple[int, int, Cut]] = []
    for k in range(len(asked.level.nodes)):
        of_node = [pair for pair in asked.asked if pair[0] == k]
        is_split = data.draw(st.booleans())
        if of_node and is_split:
            chosen.append(data.draw(st.sampled_from(of_node)))
    return chosen


def tabulate(chosen: list[tuple[int, int, Cut]]) -> Chosen:
    with_sets = any(cut.left_set is not None for _, _, cut in chosen)
    sets = [pack_set(cut.left_set or frozenset()) for _, _, cut in chosen] if with_sets else []
    return Chosen(
        np.array([node for node, _, _ in chosen], np.int64),
        np.array([column for _, column, _ in chosen], np.int32),
        np.array([cut.threshold for _, _, cut in chosen], np.float32),
        np.array([cut.missing_left for _, _, cut in chosen], np.uint8),
        np.array(sets, np.uint64).reshape(len(sets), 4),
    )


def check_bits(
    level: RawLevel, pairs: Pairs, chosen: list[tuple[int, int, Cut]], middle: int
) -> NDArray[np.uint8]:
    order = level.order()
    _, kept = level.kept(order)
    table = tabulate(chosen)
    offsets = place_bits(order.start, order.stop, table.node)
    bits = np.full(int(offsets[-1]), 255, np.uint8)
    left_rows = np.zeros(len(level.nodes), np.int64)
    for part in ((middle, len(chosen)), (0, middle)):
        write_cut_bits(level.columns(), order, pairs, kept, table, offsets, bits, left_rows, *part)
    expected_rows = np.zeros(len(level.nodes), np.int64)
    parts = [np.zeros(0, np.uint8)]
    for node, column, cut in chosen:
        goes_left = [cut.goes_left(value) for value in level.seen(node, column)]
        expected_rows[node] = sum(goes_left)
        parts.append(np.packbits(np.array(goes_left, np.bool_), bitorder="little"))
    assert np.array_equal(bits, np.concatenate(parts))
    assert left_rows.tolist() == expected_rows.tolist()
    return bits


@given(asked_levels(), st.integers(0, 4), st.booleans(), st.data())
@settings(max_examples=N_EXAMPLES)
def test_a_bit_is_set_where_the_cut_sends_the_row_left_kept_or_not(
    asked: AskedLevel, middle: int, is_kept: bool, data: st.DataObject
) -> None:
    chosen = choose(asked, data)
    pairs = asked.level.kept(asked.level.order())[0] if is_kept else NO_PAIRS
    check_bits(asked.level, pairs, chosen, min(middle, len(chosen)))


def test_a_column_that_was_no_candidate_is_read_itself() -> None:
    rng = np.random.default_rng(1)
    values = rng.random((2, 50)).astype(np.float32)
    nodes = DrawnNodes([np.arange(50)], [np.ones(50, np.int64)])
    level = RawLevel(values, np.zeros(2, np.bool_), nodes, np.array([[1]], np.uint8))
    pairs, _ = level.kept(level.order())
    check_bits(level, pairs, [(0, 1, Cut(np.float32(0.5), missing_left=False))], 0)


def test_nodes_of_several_blocks_are_marked_to_the_last_row() -> None:
    rng = np.random.default_rng(2)
    n_rows = 2 * int(BLOCK) + 9
    values = rng.random((1, n_rows)).astype(np.float32)
    values[0, rng.random(n_rows) < 0.2] = np.nan
    sizes = (int(BLOCK) - 1, int(BLOCK), int(BLOCK) + 1, n_rows)
    rows = [np.sort(rng.choice(n_rows, size, replace=False)) for size in sizes]
    nodes = DrawnNodes(rows, [np.ones(size, np.int64) for size in sizes])
    level = RawLevel(values, np.zeros(1, np.bool_), nodes, np.ones((4, 1), np.uint8))
    pairs, _ = level.kept(level.order())
    chosen = [(node, 0, Cut(np.float32(0.4), bool(node & 1))) for node in range(4)]
    kept, unkept = (check_bits(level, p, chosen, 2) for p in (pairs, NO_PAIRS))
    assert np.array_equal(kept, unkept)
