"""Turns that contradict an owner's splits are noticed, at whatever row, level and pace."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.prediction.agreement import (
    agree_with_leap,
    agree_with_splits,
    agree_with_step,
    agree_with_sweep,
    list_own_bits,
)
from fedforest.kernels.prediction.leap import LEAP, list_blocks, list_own_slots, say_leap
from fedforest.kernels.prediction.slots import VECTOR_LANES, lay_side_by_side
from fedforest.kernels.prediction.stepping import OwnSteps, say_step, write_own_steps
from fedforest.kernels.prediction.sweep import (
    MAX_SWEPT_LEVELS,
    list_upper_nodes,
    list_upper_splits,
    say_upper,
)
from tests.kernels.owned_trees import OwnedTree, owned_trees, pack_turns, standing_at
from tests.reference.leaf_sets import goes_left
from tests.strategies import IS_PLAIN_PYTHON

EXAMPLES = settings(max_examples=15 if IS_PLAIN_PYTHON else 80)
ROWS = (1, 8, 64, 70)
OWNER = 0


def told_turns(
    tree: OwnedTree, nodes: NDArray[np.int32], n_levels: int, data: st.DataObject
) -> tuple[NDArray[np.uint64], bool]:
    """All rows' true turns, but some rows take others; whether none contradicts the owner."""
    paths = [list(tree.path(row, int(node)))[:n_levels] for row, node in enumerate(nodes)]
    agrees = True
    some = st.sets(st.sampled_from(range(len(nodes))), max_size=2) if len(nodes) else st.just(set())
    for row in data.draw(some, label="rows"):
        node, path = int(nodes[row]), list[tuple[int, int]]()
        while tree.left_child[node] >= 0 and len(path) < n_levels:
            turn = data.draw(st.integers(0, 1), label="turn")
            agrees &= tree.owner[node] != OWNER or turn == own_turn(tree, node, row)
            node = int(tree.flat_children[node]) + 1 - turn
            path.append((turn, node))
        paths[row] = path
    return pack_turns(paths, n_levels), bool(agrees)


def own_turn(tree: OwnedTree, node: int, row: int) -> bool:
    partial = tree.partials[OWNER]
    code = int(tree.bins[OWNER][partial.splits.feature[node], row])
    return bool(goes_left(partial, node, code))


def inner_nodes(tree: OwnedTree) -> NDArray[np.int32]:
    """For each row, a node at which it stands; none where the tree is a single leaf."""
    inner = np.flatnonzero(tree.left_child >= 0)
    rng = np.random.default_rng(tree.n_rows)
    return rng.choice(inner, tree.n_rows if len(inner) else 0).astype(np.int32)


def own_steps(tree: OwnedTree) -> OwnSteps:
    splits = tree.partials[OWNER].splits
    steps = write_own_steps(tree.flat_children, splits.feature, splits.cut, splits.missing_left)
    return OwnSteps(steps, splits.set_index, splits.left_set)


def trees_of(tree: OwnedTree) -> tuple[int, int]:
    return 0, tree.base + 1


def flat_bins(tree: OwnedTree) -> tuple[NDArray[np.uint8], np.uint64]:
    return tree.bins[OWNER].reshape(-1), np.uint64(tree.n_rows)


def no_starts(tree: OwnedTree) -> NDArray[np.int64]:
    return np.zeros(tree.base + 2, np.int64)


@EXAMPLES
@given(owned_trees(ROWS), st.data())
def test_a_single_turn_is_compared_with_what_was_said(tree: OwnedTree, data: st.DataObject) -> None:
    nodes, starts = inner_nodes(tree), no_starts(tree)
    standing, own = standing_at(tree, nodes), own_steps(tree)
    turns, agrees = told_turns(tree, nodes, 1, data)
    said, n_bits = np.zeros_like(turns), np.zeros_like(standing.counts)
    say_step(own, standing, *flat_bins(tree), said, starts, n_bits, *trees_of(tree))
    told = turns, starts, standing
    assert agree_with_step(own.steps, said, *told, *trees_of(tree)) == agrees


@EXAMPLES
@given(owned_trees(ROWS), st.data())
def test_turns_of_several_levels_are_compared_with_the_splits(
    tree: OwnedTree, data: st.DataObject
) -> None:
    nodes = inner_nodes(tree)
    turns, agrees = told_turns(tree, nodes, tree.lookahead, data)
    told = turns, no_starts(tree), tree.lookahead, standing_at(tree, nodes)
    found = agree_with_splits(own_steps(tree), *flat_bins(tree), *told, *trees_of(tree))
    assert found == agrees


@EXAMPLES
@given(owned_trees(ROWS), st.integers(0, 3), st.data())
def test_turns_of_a_leap_are_compared_with_what_was_said(
    tree: OwnedTree, first_level: int, data: st.DataObject
) -> None:
    blocks, starts = list_blocks(tree.flat_children, first_level), no_starts(tree)
    rng = np.random.default_rng(tree.n_rows)
    n_rows = tree.n_rows if len(blocks.root) else 0
    places = rng.integers(0, max(1, len(blocks.root)), n_rows).astype(np.int32)
    turns, agrees = told_turns(tree, blocks.root[places], LEAP, data)
    standing, said = standing_at(tree, places), np.zeros(n_rows, np.uint16)
    lanes = np.zeros((tree.n_rows, VECTOR_LANES), np.uint8)
    lay_side_by_side(*flat_bins(tree), (0, tree.n_rows), lanes, 0, tree.n_rows)
    splits = tree.splits(OWNER)
    slots = list_own_slots(blocks, splits, VECTOR_LANES - 1, np.zeros(0, np.uint8))
    say_leap(slots, lanes, 0, standing, said, starts, *trees_of(tree))
    own = list_own_bits(tree.flat_children, splits.feature, blocks.root)
    told = turns, starts, standing
    assert agree_with_leap(own, said, starts, *told, *trees_of(tree)) == agrees


@EXAMPLES
@given(owned_trees((1, 64, 70, 1100)), st.integers(1, MAX_SWEPT_LEVELS), st.data())
def test_turns_of_a_sweep_are_compared_with_what_was_said(
    tree: OwnedTree, n_levels: int, data: st.DataObject
) -> None:
    splits, n_words = tree.splits(OWNER), -(-tree.n_rows // 64)
    upper = list_upper_nodes(tree.flat_children, tree.tree_start, n_levels)
    own = list_upper_splits(upper, splits)
    said, span = np.zeros((n_words, len(own.cut)), np.uint64), (0, tree.n_rows)
    say_upper(own, splits.left_set, *flat_bins(tree), span, said, 0, n_words)
    roots = np.full(tree.n_rows, tree.base, np.int32)
    turns = np.zeros((tree.base + 1, n_levels, n_words), np.uint64)
    words, agrees = told_turns(tree, roots, n_levels, data)
    turns[tree.base] = words.reshape(n_levels, n_words)
    about = said, turns, tree.n_rows
    found = agree_with_sweep(upper, own.first, splits.feature, *about, *trees_of(tree))
    assert found == agrees
