"""Prediction as the paper states it (Proposition 1): every party says, for each row, which leaves
its own splits leave possible; what all parties leave possible is one leaf.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import MISSING_BIN
from fedforest.tree.forest.partial import PartialForest


def goes_left(partial: PartialForest, node: int, code: int) -> bool:
    """What an own split (flat node number) does with a bin."""
    splits = partial.splits
    if splits.set_index[node] >= 0:
        words = splits.left_set[splits.set_index[node]]
        return bool((int(words[code // 64]) >> (code % 64)) & 1)
    if code == MISSING_BIN:
        return bool(splits.missing_left[node])
    return code <= int(splits.cut[node])


def next_nodes(partial: PartialForest, tree: int, node: int, row: NDArray[np.uint8]) -> list[int]:
    """The children that a row may go to; `row` holds the bins of the party's columns."""
    flat = int(partial.shape.tree_start[tree]) + node
    left = int(partial.shape.left_child[flat])
    if left < 0:
        return []
    feature = int(partial.splits.feature[flat])
    if feature < 0:
        return [left, left + 1]
    return [left if goes_left(partial, flat, int(row[feature])) else left + 1]


def reachable(
    partial: PartialForest,
    tree: int,
    row: NDArray[np.uint8],
    start: int = 0,
    n_levels: int = 2**31,
) -> Iterator[int]:
    """Every node that own splits leave possible from `start` on, so many levels deep."""
    yield start
    if n_levels > 0:
        for child in next_nodes(partial, tree, start, row):
            yield from reachable(partial, tree, row, child, n_levels - 1)


def leaf_set(partial: PartialForest, tree: int, row: NDArray[np.uint8]) -> set[int]:
    """The leaves that own splits leave possible."""
    base = int(partial.shape.tree_start[tree])
    left_child = partial.shape.left_child
    return {node for node in reachable(partial, tree, row) if left_child[base + node] < 0}


def own_questions(
    partial: PartialForest,
    tree: int,
    row: NDArray[np.uint8],
    start: int = 0,
    n_levels: int = 2**31,
) -> list[int]:
    """The own splits among the nodes a row can stand at within so many levels, in preorder."""
    base = int(partial.shape.tree_start[tree])
    nodes = reachable(partial, tree, row, start, n_levels - 1)
    return [node for node in nodes if partial.splits.feature[base + node] >= 0]


def intersect(partials: list[PartialForest], tree: int, rows: list[NDArray[np.uint8]]) -> set[int]:
    """The leaves that everybody leaves possible for one row; `rows` are the parties' bins of it."""
    sets = [leaf_set(partial, tree, row) for partial, row in zip(partials, rows, strict=True)]
    return set.intersection(*sets)
