"""Leaves are recorded as they close and laid out in node order."""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.criteria.registry import BY_NAME
from fedforest.tree.growth.leaves import LeafRecord
from fedforest.tree.table.targets import TargetKind

OFFSETS = np.array([0, 3, 8])  # a tree of three nodes and one of five


def nodes(*pairs: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The nodes (tree, number) as two arrays."""
    tree, node = np.array(pairs, np.int32).T
    return np.ascontiguousarray(tree), np.ascontiguousarray(node)


def record_classes(kind: TargetKind) -> LeafRecord:
    leaves = LeafRecord(kind)
    leaves.add(*nodes((0, 2), (1, 1)), np.array([[1, 3, 0, 4], [0, 0, 5, 5]]))
    leaves.add(*nodes((0, 1), (1, 4), (1, 3)), np.array([[0, 2, 2, 9], [7, 0, 0, 1], [1, 1, 2, 4]]))
    return leaves


def test_the_classes_of_a_leaf_lie_together_in_ascending_order() -> None:
    kind = TargetKind(search="classes", sums="classes", criterion=BY_NAME["gini"], n_classes=3)
    start, label, share = record_classes(kind).assemble(OFFSETS)
    #         root  (0,1) (0,2) root  (1,1) inner (1,3) (1,4)
    assert start.tolist() == [0, 0, 2, 4, 4, 5, 5, 8, 9]
    assert label.tolist() == [1, 2, 0, 1, 2, 0, 1, 2, 0]
    assert share.tolist() == [0.5, 0.5, 0.25, 0.75, 1.0, 0.25, 0.25, 0.5, 1.0]


def test_encoded_labels_come_out_as_classes() -> None:
    kind = TargetKind(
        search="classes",
        sums="classes",
        criterion=BY_NAME["gini"],
        n_classes=3,
        code_of_class=(1, 2, 0),
    )
    start, label, share = record_classes(kind).assemble(OFFSETS)
    assert start.tolist() == [0, 0, 2, 4, 4, 5, 5, 8, 9]
    assert label.tolist() == [0, 1, 0, 2, 1, 0, 1, 2, 2]
    assert share.tolist() == [0.5, 0.5, 0.75, 0.25, 1.0, 0.25, 0.5, 0.25, 1.0]


def test_a_regression_leaf_says_its_mean_in_real_units() -> None:
    kind = TargetKind(
        search="moments",
        sums="moments",
        criterion=BY_NAME["squared_error"],
        n_classes=0,
        target_unit=0.5,
        target_offset=100.0,
    )
    leaves = LeafRecord(kind)
    leaves.add(*nodes((1, 2), (0, 0)), np.array([[2, 8, 2, 0], [4, -4, 3, 0]]))
    leaves.add(*nodes((1, 1)), np.array([[1, 0, 1, 0]]))
    start, label, value = leaves.assemble(np.array([0, 1, 4]))
    assert start.tolist() == [0, 1, 1, 2, 3]
    assert len(label) == 0
    assert value.tolist() == [99.5, 100.0, 102.0]


def test_a_record_without_leaves_is_empty() -> None:
    kind = TargetKind(search="binary", sums="binary", criterion=BY_NAME["gini"], n_classes=2)
    start, label, share = LeafRecord(kind).assemble(np.array([0]))
    assert (start.tolist(), label.tolist(), share.tolist()) == ([0], [], [])
