"""Rows on both sides of chosen cuts, by kept values and by the columns themselves."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.kernels.cuts.kept_values import Kept
from fedforest.kernels.cuts.moves import Chosen, Marked, move_by_cuts, place_children
from fedforest.kernels.cuts.pairs import Pairs
from fedforest.kernels.cuts.sums import count_classes
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.kernels.layout import RowOrder
from tests.level_cases import AskedLevel, RawLevel, asked_levels
from tests.reference.forest import pack_set
from tests.reference.random_cuts import Cut
from tests.strategies import IS_PLAIN_PYTHON, DrawnNodes

N_EXAMPLES = 25 if IS_PLAIN_PYTHON else 120
NO_PAIRS = Pairs(np.zeros(1, np.int64), np.zeros(0, np.int32))
UNMARKED = Marked(np.zeros(0, np.float32), np.zeros(0, np.uint8))


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


def mark(asked: AskedLevel, order: RowOrder, pairs: Pairs, kept: Kept) -> Marked:
    """Count in tiles, which leaves marks."""
    sums, cuts = np.zeros((len(asked.asked), 2), np.int64), asked.as_cuts()
    count_classes(order, 2, kept, asked.as_asked(pairs), 2, sums, 0, len(asked.level.nodes))
    return Marked(cuts.threshold, cuts.missing_left)


def check_moves(
    level: RawLevel,
    pairs: Pairs,
    chosen: list[tuple[int, int, Cut]],
    fates: list[int],
    middle: int = 0,
) -> None:
    """The same, by values that were kept pair after pair or not at all."""
    order = level.order()
    _, kept = level.kept(order)
    check_moved(level, order, pairs, kept, UNMARKED, chosen, fates, middle)


def check_moved(
    level: RawLevel,
    order: RowOrder,
    pairs: Pairs,
    kept: Kept,
    marked: Marked,
    chosen: list[tuple[int, int, Cut]],
    fates: list[int],
    middle: int,
) -> None:
    """Children that stay open have the rows that the cut sends there, in order."""
    table, fate, n_nodes = tabulate(chosen), np.array(fates, np.uint8), len(fates)
    target, left_rows = np.zeros_like(order.entries), np.zeros(n_nodes, np.int64)
    for part in ((middle, n_nodes), (0, middle)):
        columns = level.columns()
        move_by_cuts(columns, order, pairs, kept, marked, table, fate, target, left_rows, *part)
    expected = []
    cut_of = {node: (column, cut) for node, column, cut in chosen}
    for node, stays_open in enumerate(fates):
        entries = order.entries[order.start[node] : order.stop[node]]
        if node in cut_of:
            column, cut = cut_of[node]
            goes_left = np.array([cut.goes_left(v) for v in level.seen(node, column)], np.bool_)
            sides = (OPEN_LEFT, entries[goes_left]), (OPEN_RIGHT, entries[~goes_left])
            expected += [side.tolist() for flag, side in sides if stays_open & flag]
        elif stays_open:
            expected.append(entries.tolist())
    start, stop = place_children(order.start, order.stop, fate, left_rows, len(expected))
    spans = zip(start.tolist(), stop.tolist(), strict=True)
    assert [target[first:last].tolist() for first, last in spans] == expected


@given(asked_levels(), st.integers(0, 4), st.booleans(), st.data())
@settings(max_examples=N_EXAMPLES)
def test_open_children_have_the_rows_of_their_side_of_the_cut_kept_or_not(
    asked: AskedLevel, middle: int, is_kept: bool, data: st.DataObject
) -> None:
    chosen = choose(asked, data)
    split = {node for node, _, _ in chosen}
    n_nodes = len(asked.level.nodes)
    open_children, unsplit = st.integers(0, 3), st.sampled_from([0, STAYS])
    fates = [data.draw(open_children if k in split else unsplit) for k in range(n_nodes)]
    pairs = asked.level.kept(asked.level.order())[0] if is_kept else NO_PAIRS
    check_moves(asked.level, pairs, chosen, fates, min(middle, n_nodes))


@given(
    asked_levels(),
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from([np.uint32, np.uint64]),
    st.data(),
)
@settings(max_examples=N_EXAMPLES)
def test_rows_in_tiles_move_by_their_marks_or_by_values_where_the_chosen_cut_is_another(
    asked: AskedLevel, middle: int, is_marked: bool, dtype: type, data: st.DataObject
) -> None:
    order = asked.level.order(dtype=dtype)
    pairs, kept = asked.level.kept(order, in_tiles=True)
    marked = mark(asked, order, pairs, kept) if is_marked else UNMARKED
    chosen = [
        (node, column, data.draw(st.sampled_from([cut, replace(cut, missing_left=True)])))
        for node, column, cut in choose(asked, data)
    ]
    if data.draw(st.booleans(), label="other thresholds"):
        chosen = [(n, f, replace(cut, threshold=cut.threshold + 1)) for n, f, cut in chosen]
    split, n_nodes = {node for node, _, _ in chosen}, len(asked.level.nodes)
    open_children, unsplit = st.integers(0, 3), st.sampled_from([0, STAYS])
    fates = [data.draw(open_children if k in split else unsplit) for k in range(n_nodes)]
    middle = min(middle, n_nodes)
    check_moved(asked.level, order, pairs, kept, marked, chosen, fates, middle)


def test_a_column_that_was_no_candidate_is_read_itself() -> None:
    rng = np.random.default_rng(1)
    values = rng.random((2, 50)).astype(np.float32)
    nodes = DrawnNodes([np.arange(50)], [np.ones(50, np.int64)])
    level = RawLevel(values, np.zeros(2, np.bool_), nodes, np.array([[1]], np.uint8))
    pairs, _ = level.kept(level.order())
    check_moves(level, pairs, [(0, 1, Cut(np.float32(0.5), missing_left=False))], [3])


def test_missing_values_go_to_the_side_of_the_cut_in_nodes_of_many_rows() -> None:
    rng = np.random.default_rng(2)
    values = rng.random((1, 2057)).astype(np.float32)
    values[0, rng.random(2057) < 0.2] = np.nan
    sizes = (1023, 1024, 1025, 2057)
    rows = [np.sort(rng.choice(2057, size, replace=False)) for size in sizes]
    nodes = DrawnNodes(rows, [np.ones(size, np.int64) for size in sizes])
    level = RawLevel(values, np.zeros(1, np.bool_), nodes, np.ones((4, 1), np.uint8))
    pairs, _ = level.kept(level.order())
    chosen = [(node, 0, Cut(np.float32(0.4), bool(node & 1))) for node in range(4)]
    for kept in (pairs, NO_PAIRS):
        check_moves(level, kept, chosen, [3, 1, 2, 3], 2)
