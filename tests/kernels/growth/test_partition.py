"""Rows go where their split sends them, in order, and children are summed up on the way."""

from dataclasses import dataclass
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.growth.partition import (
    OPEN_LEFT,
    OPEN_RIGHT,
    STAYS,
    choose_missing_side,
    count_left,
    move_rows,
    settle_rows,
    sum_left_binary,
    sum_left_classes,
    sum_left_moments,
    write_bits,
)
from fedforest.kernels.layout import Found, RowOrder, Targets
from tests.reference.forest import pack_set
from tests.reference.splits import UNSEEN, Split
from tests.strategies import (
    IS_PLAIN_PYTHON,
    MISSING,
    SEEDS,
    BinnedTable,
    DrawnNodes,
    binned_tables,
    class_codes,
    drawn_nodes,
)

N_EXAMPLES = 25 if IS_PLAIN_PYTHON else 80
NOTHING = np.zeros(0, np.int64)
ENTRY_TYPES = st.sampled_from([np.uint32, np.uint64])


@dataclass(frozen=True, eq=False)
class Case:
    """Open nodes, each with a split, whether it wins, and its fate at the end of the step."""

    table: BinnedTable
    nodes: DrawnNodes
    splits: list[Split]
    is_split: NDArray[np.bool_]
    fate: NDArray[np.uint8]
    dtype: type

    def order(self, classes: NDArray[np.int64] | None = None) -> RowOrder:
        codes = np.zeros(self.table.n_rows, np.int64) if classes is None else classes
        return self.nodes.order(self.table.n_rows, codes, self.dtype)

    def winners(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.is_split)

    def offsets(self) -> NDArray[np.int64]:
        """First byte of every node's bits; nodes that are not split have none."""
        sizes = np.array([len(rows) for rows in self.nodes.rows])
        return np.concatenate([[0], np.cumsum(np.where(self.is_split, (sizes + 7) // 8, 0))])

    def goes_left(self, node: int) -> list[bool]:
        bins = self.table.rows()
        return [self.splits[node].goes_left(bins[row]) for row in self.nodes.rows[node].tolist()]

    def bits(self) -> NDArray[np.uint8]:
        parts = [np.packbits(self.goes_left(node), bitorder="little") for node in self.winners()]
        return np.concatenate([np.zeros(0, np.uint8), *parts])

    def found(self) -> Found:
        sets = [pack_set(split.left_set or frozenset()) for split in self.splits]
        return Found(
            np.zeros(len(self.splits)),
            np.array([split.feature for split in self.splits], np.int32),
            np.array([split.cut for split in self.splits], np.uint8),
            np.array([split.missing_left for split in self.splits], np.uint8),
            np.array(sets, np.uint64),
        )


@st.composite
def splits(draw: st.DrawFn, table: BinnedTable) -> Split:
    feature = draw(st.integers(0, table.n_columns - 1))
    if table.is_categorical[feature]:
        left = draw(st.sets(st.integers(0, 255), max_size=20))
        left_set = frozenset(left if draw(st.booleans()) else set(range(256)) - left)
        return Split(0.0, feature, 0, int(MISSING in left_set), left_set)
    sides = [0, 1] if MISSING in table.bins[feature] else [0, 1, UNSEEN]
    cut = draw(st.integers(0, int(table.n_bins[feature]) - 1))
    return Split(0.0, feature, cut, draw(st.sampled_from(sides)))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    table = draw(binned_tables(draw(st.sampled_from([1, 3, 40, 150])), 4))
    nodes = draw(drawn_nodes(table.n_rows))
    fates = st.sampled_from([0, OPEN_LEFT, OPEN_RIGHT, OPEN_LEFT | OPEN_RIGHT, STAYS])
    fate = np.array([draw(fates) for _ in range(len(nodes))], np.uint8)
    may_be_closed = np.array([draw(st.booleans()) for _ in range(len(nodes))])
    return Case(
        table,
        nodes,
        [draw(splits(table)) for _ in range(len(nodes))],
        np.where(fate == 0, may_be_closed, fate != STAYS),
        fate,
        draw(ENTRY_TYPES),
    )


@given(cases(), st.integers(0, 4))
@settings(max_examples=N_EXAMPLES)
def test_a_bit_is_set_where_the_split_sends_the_row_left(case: Case, middle: int) -> None:
    winners, offsets = case.winners(), case.offsets()[:-1][case.is_split]
    bits = np.full(int(case.offsets()[-1]), 77, np.uint8)
    middle = min(middle, len(winners))
    for part in ((0, middle), (middle, len(winners))):
        write_bits(case.table.columns(), case.order(), case.found(), winners, offsets, bits, *part)
    np.testing.assert_array_equal(bits, case.bits())


@given(st.data(), cases())
@settings(max_examples=N_EXAMPLES)
def test_left_children_are_summed_up_exactly(data: st.DataObject, case: Case) -> None:
    rng = np.random.default_rng(data.draw(SEEDS))
    n_rows, winners = case.table.n_rows, case.winners()
    classes = data.draw(class_codes(case.table, 2))
    weights, levels = rng.integers(1, 9, n_rows), rng.integers(-2, 2, n_rows)
    pure_side = data.draw(st.sampled_from([True, False, None]), label="left is pure")
    levels[[case.splits[0].goes_left(bins) is pure_side for bins in case.table.rows()]] = -1
    order, bits, offsets = case.order(classes), case.bits(), case.offsets()[:-1][case.is_split]
    sums = [np.zeros((len(winners), width), np.int64) for width in (3, 3, 4)]
    whole = 0, len(winners)
    sum_left_binary(order, winners, offsets, bits, sums[0], *whole)
    targets = Targets(2, weights, NOTHING, NOTHING)
    sum_left_classes(order, targets, winners, offsets, bits, sums[1], *whole)
    targets = Targets(0, weights, weights * levels, levels)
    sum_left_moments(order, targets, winners, offsets, bits, sums[2], *whole)
    for i, node in enumerate(winners):
        left = np.array(case.goes_left(node))
        rows, times = case.nodes.rows[node], case.nodes.multiplicities[node]
        weight, is_one = times * weights[rows], classes[rows] == 1
        pure = [len(set(levels[rows[side]].tolist())) <= 1 for side in (left, ~left)]
        assert sums[0][i].tolist() == [
            times[left & ~is_one].sum(),
            times[left & is_one].sum(),
            left.sum(),
        ]
        assert sums[1][i].tolist() == [
            weight[left & ~is_one].sum(),
            weight[left & is_one].sum(),
            left.sum(),
        ]
        assert sums[2][i].tolist() == [
            weight[left].sum(),
            (weight * levels[rows])[left].sum(),
            left.sum(),
            OPEN_LEFT * pure[0] + OPEN_RIGHT * pure[1],
        ]


@given(st.data(), cases(), st.integers(0, 4))
@settings(max_examples=N_EXAMPLES)
def test_rows_move_to_their_open_child_and_keep_their_order(
    data: st.DataObject, case: Case, middle: int
) -> None:
    order = case.order(data.draw(class_codes(case.table, 6)))
    n_nodes = len(case.nodes)
    middle = min(middle, n_nodes)
    left_rows = np.zeros(n_nodes, np.int64)
    count_left(order, case.is_split, case.offsets(), case.bits(), left_rows, 0, n_nodes)
    kept: list[list[int]] = []
    for node in range(n_nodes):
        entries = order.entries[order.start[node] : order.stop[node]].tolist()
        left = case.goes_left(node) if case.is_split[node] else [False] * len(entries)
        assert left_rows[node] == sum(left)
        stays = entries if case.fate[node] == STAYS else []
        to_left = [entry for entry, is_left in zip(entries, left, strict=True) if is_left]
        to_right = [entry for entry, is_left in zip(entries, left, strict=True) if not is_left]
        to_left = to_left if case.fate[node] & OPEN_LEFT else []
        to_right = to_right if case.fate[node] & OPEN_RIGHT else []
        kept.append(stays + to_left + to_right)
    places = np.cumsum([0, *(len(entries) for entries in kept)])
    target = np.zeros_like(order.entries)
    for part in ((middle, n_nodes), (0, middle)):
        move_rows(order, target, case.fate, case.offsets(), case.bits(), left_rows, places, *part)
    assert target[: places[-1]].tolist() == list(chain.from_iterable(kept))
    assert not target[places[-1] :].any(), "nothing is written behind the open nodes"


@given(cases())
@settings(max_examples=N_EXAMPLES)
def test_rows_of_closed_nodes_settle_in_their_leaf(case: Case) -> None:
    n_nodes, n_rows = len(case.nodes), case.table.n_rows
    trees, numbers = np.arange(n_nodes, dtype=np.int32), np.arange(n_nodes, dtype=np.int32) + 50
    left_child = np.where(case.is_split, 100 + 2 * numbers, -1).astype(np.int32)
    leaf_of = np.full((n_nodes, n_rows), -1, np.int32)
    settle_rows(
        case.order(),
        (trees, numbers),
        left_child,
        case.fate,
        case.offsets(),
        case.bits(),
        leaf_of,
        0,
        n_nodes,
    )
    expected = np.full_like(leaf_of, -1)
    for node in range(n_nodes):
        for row, is_left in zip(case.nodes.rows[node], case.goes_left(node), strict=True):
            if case.is_split[node] and not case.fate[node] & (OPEN_LEFT if is_left else OPEN_RIGHT):
                expected[node, row] = left_child[node] + (not is_left)
            elif not case.is_split[node] and case.fate[node] == 0:
                expected[node, row] = numbers[node]
    arrived = expected >= 0
    np.testing.assert_array_equal(leaf_of[arrived], expected[arrived])
    absent = np.ones_like(arrived)
    for node in range(n_nodes):
        absent[node, list(case.nodes.rows[node])] = False
    assert (leaf_of[absent] == -1).all(), "rows that are not in the node are left alone"


@pytest.mark.parametrize(
    ("left_rows", "n_rows", "expected"), [(6, 10, 1), (5, 10, 0), (4, 10, 0), (3, 5, 1)]
)
def test_unseen_missing_values_go_to_the_larger_child_and_to_the_right_of_equal_ones(
    left_rows: int, n_rows: int, expected: int
) -> None:
    missing_left = np.array([UNSEEN, 0, 1, UNSEEN], np.uint8)
    stops = n_rows * np.arange(1, 5)
    order = RowOrder(np.zeros(4 * n_rows, np.uint32), np.uint64(5), stops - n_rows, stops)
    left = np.full((3, 3), [0, 0, left_rows])
    choose_missing_side(missing_left, order, np.array([0, 1, 2]), left, 2, 0, 3)
    assert missing_left.tolist() == [expected, 0, 1, UNSEEN]


def test_cuts_at_the_first_and_the_last_bin_keep_missing_values_apart() -> None:
    bins = np.array([[0, 253, 254, MISSING]], np.uint8)
    table = BinnedTable(bins, np.array([255], np.int16), np.array([False]))
    nodes = DrawnNodes([np.arange(4)], [np.ones(4, np.int64)])
    for cut, missing_left, expected in ((0, 0, 1), (0, 1, 9), (253, 1, 11), (254, 0, 7)):
        split = Split(0.0, 0, cut, missing_left)
        case = Case(table, nodes, [split], np.array([True]), np.array([3], np.uint8), np.uint32)
        bits = np.zeros(1, np.uint8)
        write_bits(
            table.columns(), case.order(), case.found(), np.array([0]), np.array([0]), bits, 0, 1
        )
        assert bits[0] == expected
        assert bits[0] == case.bits()[0]
