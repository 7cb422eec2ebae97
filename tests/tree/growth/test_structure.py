"""Nodes are numbered as their parents are split, and open nodes stay ordered by tree."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.tree.growth.structure import OpenNodes, Structure

BOTH = OPEN_LEFT | OPEN_RIGHT


def listed(nodes: OpenNodes) -> list[tuple[int, int, int]]:
    """(tree, node, depth) of every open node."""
    return list(zip(nodes.tree.tolist(), nodes.node.tolist(), nodes.depth.tolist(), strict=True))


def advance(structure: Structure, is_split: list[bool], fate: list[int]) -> list[int]:
    step = structure.advance(np.array(is_split, np.bool_), np.array(fate, np.uint8))
    return step.left_child.tolist()  # type: ignore[no-any-return]


def test_a_forest_grows_step_by_step() -> None:
    structure = Structure(3)
    assert listed(structure.open) == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]

    # tree 0 opens both children, tree 1 waits, tree 2 opens only its right child
    assert advance(structure, [True, False, True], [BOTH, STAYS, OPEN_RIGHT]) == [1, -1, 1]
    assert listed(structure.open) == [(0, 1, 1), (0, 2, 1), (1, 0, 0), (2, 2, 1)]

    # tree 0: a leaf, then a split into two leaves; tree 1 splits late; tree 2 goes left
    fate = [0, 0, OPEN_LEFT, OPEN_LEFT]
    assert advance(structure, [False, True, True, True], fate) == [-1, 3, 1, 3]
    assert listed(structure.open) == [(1, 1, 1), (2, 3, 2)]

    assert advance(structure, [False, False], [0, 0]) == [-1, -1]
    assert len(structure.open) == 0
    assert structure.tree_offsets().tolist() == [0, 5, 8, 13]
    assert structure.flat_children().tolist() == [1, -1, 3, -1, -1, 1, -1, -1, 1, -1, 3, -1, -1]


def test_a_step_tells_where_every_open_node_came_from() -> None:
    structure = Structure(2)
    step = structure.advance(np.array([True, True]), np.array([BOTH, OPEN_RIGHT], np.uint8))
    assert step.source.tolist() == [0, 0, 1]
    assert step.is_right.tolist() == [False, True, True]
    assert not step.nothing_left
    step = structure.advance(np.zeros(3, np.bool_), np.zeros(3, np.uint8))
    assert step.nothing_left


@given(st.integers(1, 4), st.data())
def test_numbers_are_complete_and_open_nodes_are_ordered_by_tree(
    n_trees: int, data: st.DataObject
) -> None:
    structure = Structure(n_trees)
    depth_of = {(tree, 0): 0 for tree in range(n_trees)}
    for _ in range(5):
        before = listed(structure.open)
        fates = st.sampled_from([0, OPEN_LEFT, OPEN_RIGHT, BOTH, STAYS])
        fate = [data.draw(fates) for _ in before]
        is_split = [f not in (0, STAYS) or (f == 0 and data.draw(st.booleans())) for f in fate]
        left_child = advance(structure, is_split, fate)
        expected = []
        for (tree, node, depth), left, f in zip(before, left_child, fate, strict=True):
            if left >= 0:
                depth_of[tree, left] = depth_of[tree, left + 1] = depth + 1
            expected += [(tree, node, depth)] if f == STAYS else []
            expected += [(tree, left, depth + 1)] if f & OPEN_LEFT else []
            expected += [(tree, left + 1, depth + 1)] if f & OPEN_RIGHT else []
        assert listed(structure.open) == expected
    sizes = [sum(t == tree for t, _ in depth_of) for tree in range(n_trees)]
    assert structure.node_count.tolist() == sizes
    assert sorted(depth_of) == [(t, n) for t, size in enumerate(sizes) for n in range(size)]
    children = structure.flat_children()
    assert sorted(children[children >= 0].tolist()) == sorted(
        node for _, node in depth_of if node % 2 == 1
    )


def test_the_nodes_a_step_split_are_named_in_order() -> None:
    structure = Structure(3)
    structure.advance(np.array([True, False, True]), np.array([BOTH, STAYS, OPEN_RIGHT], np.uint8))
    tree, node = structure.last_split()
    assert list(zip(tree.tolist(), node.tolist(), strict=True)) == [(0, 0), (2, 0)]
    structure.advance(np.array([False, True, True, False]), np.array([0, 0, BOTH, 0], np.uint8))
    tree, node = structure.last_split()
    assert list(zip(tree.tolist(), node.tolist(), strict=True)) == [(0, 2), (1, 0)]
