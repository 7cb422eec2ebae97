"""Rows walk to the leaf that following the splits one by one leads to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.prediction.walk import (
    BLOCK,
    Leaves,
    balanced_depth,
    find_leaves,
    measure_depths,
    sum_votes,
    vote_at,
)
from fedforest.tree.forest.forest import Forest, ForestWalker, Shape, Splits
from fedforest.tree.workers import Workers
from tests.reference.forest import Node, Tree, pack_set
from tests.reference.splits import Split
from tests.strategies import IS_PLAIN_PYTHON, MISSING, SEEDS, BinnedTable, binned_tables

N_EXAMPLES = 15 if IS_PLAIN_PYTHON else 80
NO_LABELS = np.zeros(0, np.uint16)


def random_tree(table: BinnedTable, n_splits: int, rng: np.random.Generator) -> Tree:
    """Split leaves at random, or always a newest one: a tree as deep as it has splits."""
    tree = Tree([], [Node([], 0)])
    n_open = int(rng.choice([2, 2 * n_splits + 1]))
    for _ in range(n_splits):
        leaves = [i for i, node in enumerate(tree.nodes) if node.split is None]
        node = tree.nodes[int(rng.choice(leaves[-n_open:]))]
        feature = int(rng.integers(table.n_columns))
        if table.is_categorical[feature]:
            left = frozenset(rng.choice(256, int(rng.integers(257)), replace=False).tolist())
            node.split = Split(0.0, feature, 0, int(MISSING in left), left)
        else:
            cut = int(rng.integers(table.n_bins[feature]))
            node.split = Split(0.0, feature, cut, int(rng.integers(2)))
        node.left_child = len(tree.nodes)
        tree.nodes += [Node([], node.depth + 1), Node([], node.depth + 1)]
    return tree


@dataclass(frozen=True, eq=False)
class Case:
    """A table and a forest over its columns."""

    table: BinnedTable
    trees: list[Tree]

    @property
    def nodes(self) -> list[Node]:
        return [node for tree in self.trees for node in tree.nodes]

    @property
    def tree_start(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(len(tree.nodes) for tree in self.trees)])

    def splits(self) -> Splits:
        splits = [node.split or Split(0.0, -1, 0, 0) for node in self.nodes]
        sets = [pack_set(split.left_set) for split in splits if split.left_set is not None]
        by_set = np.array([split.left_set is not None for split in splits])
        return Splits(
            np.array([split.feature for split in splits], np.int32),
            np.array([split.cut for split in splits], np.uint8),
            np.array([split.missing_left for split in splits], np.uint8),
            np.where(by_set, np.cumsum(by_set) - 1, -1).astype(np.int32),
            np.array(sets, np.uint64).reshape(-1, 4),
        )

    def forest(self, splits: Splits) -> Forest:
        left_child = np.array([node.left_child for node in self.nodes], np.int32)
        shape, none = Shape(self.tree_start, left_child), np.zeros(0)
        leaves = Leaves(np.zeros(len(left_child) + 1, np.int64), NO_LABELS, none)
        return Forest(shape, splits, leaves, none, 2, self.table.n_columns)

    def walker(self) -> ForestWalker:
        return ForestWalker(self.forest(self.splits()))

    def expected_leaves(self) -> NDArray[np.int64]:
        rows = self.table.rows()
        return np.array([[tree.find_leaf(bins) for tree in self.trees] for bins in rows])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n_rows = draw(st.sampled_from([1, 7, 100, 300]))
    table = draw(binned_tables(n_rows, 5))
    rng = np.random.default_rng(draw(SEEDS))
    n_splits = draw(st.lists(st.integers(0, 20), min_size=1, max_size=3), label="splits")
    return Case(table, [random_tree(table, n, rng) for n in n_splits])


def found_leaves(case: Case, ranges: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    n_rows, walker = case.table.n_rows, case.walker()
    leaves, flat = np.full((n_rows, len(case.trees)), -1), walker.prepare(case.table.bins)
    for first, last in ranges:
        find_leaves(walker.paths, flat, np.uint64(n_rows), leaves, first, last)
    return leaves


def voted(case: Case, leaves: Leaves, n_classes: int, *, hard: bool) -> NDArray[np.float64]:
    n_rows, walker = case.table.n_rows, case.walker()
    votes, flat = np.zeros((n_rows, n_classes)), walker.prepare(case.table.bins)
    sum_votes(walker.paths, leaves, flat, np.uint64(n_rows), votes, hard, 0, n_rows)
    return votes


def class_leaves(case: Case, n_classes: int, rng: np.random.Generator) -> Leaves:
    """Every node holds shares of some classes; ties are frequent."""
    labels = [
        np.sort(rng.choice(n_classes, int(rng.integers(1, n_classes + 1)), replace=False))
        for _ in case.nodes
    ]
    shares = [rng.integers(1, 4, len(classes)) / 8 for classes in labels]
    start = np.cumsum([0, *(len(classes) for classes in labels)])
    return Leaves(start, np.concatenate(labels).astype(np.uint16), np.concatenate(shares))


@given(cases(), st.integers(0, 300))
@settings(max_examples=N_EXAMPLES)
def test_every_row_reaches_the_leaf_of_the_reference(case: Case, middle: int) -> None:
    middle = min(middle, case.table.n_rows)
    leaves = found_leaves(case, [(middle, case.table.n_rows), (0, middle)])
    np.testing.assert_array_equal(leaves, case.expected_leaves())


@given(cases())
@settings(max_examples=N_EXAMPLES)
def test_thresholds_on_values_lead_where_cuts_of_bins_do(case: Case) -> None:
    bins, splits = case.table.bins, case.splits()
    values = np.where(bins == MISSING, np.float32(np.nan), bins.astype(np.float32))
    by_value = replace(splits, cut=splits.cut.astype(np.float32))
    leaves = ForestWalker(case.forest(by_value)).apply(values, Workers())
    np.testing.assert_array_equal(leaves, case.expected_leaves())


@given(cases())
@settings(max_examples=max(5, N_EXAMPLES // 8))
def test_rows_beyond_the_first_block_walk_like_those_in_it(case: Case) -> None:
    n_copies = 2 + BLOCK // case.table.n_rows
    repeated = replace(case.table, bins=np.tile(case.table.bins, n_copies))
    leaves = found_leaves(replace(case, table=repeated), [(0, repeated.n_rows)])
    np.testing.assert_array_equal(leaves, np.tile(case.expected_leaves(), (n_copies, 1)))


@pytest.mark.parametrize(
    ("n_nodes", "depth"), [(1, 0), (3, 1), (5, 2), (7, 2), (9, 3), (127, 6), (129, 7)]
)
def test_a_balanced_tree_is_as_deep_as_its_leaves_double(n_nodes: int, depth: int) -> None:
    assert balanced_depth(n_nodes) == depth


@given(cases(), SEEDS, st.booleans())
@settings(max_examples=N_EXAMPLES)
def test_votes_are_the_shares_of_the_leaves_or_one_for_their_first_largest_class(
    case: Case, seed: int, hard: bool
) -> None:
    leaves = class_leaves(case, 4, np.random.default_rng(seed))
    votes = np.zeros((case.table.n_rows, 4))
    for row, reached in enumerate((case.expected_leaves() + case.tree_start[:-1]).tolist()):
        for leaf in reached:
            owned = slice(leaves.start[leaf], leaves.start[leaf + 1])
            labels, values = leaves.label[owned], leaves.value[owned]
            if hard:
                votes[row, labels[np.argmax(values)]] += 1.0
            else:
                votes[row, labels] += values
    np.testing.assert_array_equal(voted(case, leaves, 4, hard=hard), votes)


@given(cases(), SEEDS)
@settings(max_examples=N_EXAMPLES)
def test_a_regression_forest_adds_up_the_values_of_its_leaves(case: Case, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-50, 50, len(case.nodes)) / 4
    leaves = Leaves(np.arange(len(values) + 1), NO_LABELS, values)
    expected = values[case.expected_leaves() + case.tree_start[:-1]].sum(axis=1)
    np.testing.assert_array_equal(voted(case, leaves, 1, hard=False)[:, 0], expected)


@given(cases())
@settings(max_examples=N_EXAMPLES)
def test_the_depth_of_a_tree_is_that_of_its_deepest_leaf(case: Case) -> None:
    expected = [max(node.depth for node in tree.nodes) for tree in case.trees]
    assert case.walker().paths.depth.tolist() == expected


@pytest.mark.parametrize(
    ("left_child", "depth"),
    [
        ([-1], 0),
        ([1, -1, -1], 1),
        ([1, 3, 5, -1, -1, -1, -1], 2),  # children in the order of their parents
        ([1, 5, 3, -1, -1, -1, -1], 2),  # the first child split later than its sister
        ([1, -1, 3, -1, 5, -1, -1], 3),
        ([1, 5, 3, 7, -1, -1, -1, -1, -1], 3),
    ],
)
def test_children_may_come_in_any_order_behind_their_parents(
    left_child: list[int], depth: int
) -> None:
    children = np.array([*left_child, -1, *left_child], np.int32)  # a leaf between two of them
    tree_start = np.array([0, len(left_child), len(left_child) + 1, len(children)])
    measured = np.zeros(3, np.int32)
    assert measure_depths(tree_start, children, measured)
    assert measured.tolist() == [depth, 0, depth]


@pytest.mark.parametrize(
    ("tree_start", "left_child"),
    [
        ([0, 2], [-1, -1]),  # a node without parent
        ([0, 5], [1, -1, -1, -1, -1]),
        ([0, 4], [1, -1, -1, -1]),
        ([0, 3], [0, -1, -1]),  # its own child
        ([0, 3], [2, -1, -1]),  # the right child is outside
        ([0, 3], [7, -1, -1]),
        ([0, 5], [1, 3, 1, -1, -1]),  # a child before its parent
        ([0, 1, 4], [1, 1, -1, -1]),  # a child in the next tree
        ([0, 3], [-2, -1, -1]),
    ],
)
def test_children_out_of_place_are_noticed(tree_start: list[int], left_child: list[int]) -> None:
    depth = np.zeros(len(tree_start) - 1, np.int32)
    assert not measure_depths(np.array(tree_start), np.array(left_child, np.int32), depth)


def test_votes_of_rows_whose_leaves_are_known_are_added_and_counted() -> None:
    leaves = Leaves(np.array([0, 1, 3]), np.array([2, 0, 1], np.uint16), np.array([1, 0.25, 0.75]))
    votes, counts = np.ones((4, 3)), np.array([5, 5, 5, 5])
    vote_at(leaves, np.array([1, 0]), np.array([3, 1]), votes, counts, False)  # noqa: FBT003
    assert votes.tolist() == [[1, 1, 1], [1, 1, 2], [1, 1, 1], [1.25, 1.75, 1]]
    assert counts.tolist() == [5, 6, 5, 6]
    vote_at(leaves, np.array([1]), np.array([0]), votes, counts, True)  # noqa: FBT003
    assert votes[0].tolist() == [1, 2, 1]
