"""The splits one owner of columns made, collected level by level, and then as a forest's arrays."""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.flat import scatter
from fedforest.tree.forest.forest import LEAF, Splits
from fedforest.tree.growth.split_search import SplitTable


class SplitRecord:
    """Collects splits as nodes are split; columns are numbered from `first_column` on."""

    def __init__(
        self, is_categorical: NDArray[np.bool_], first_column: int = 0, elsewhere: int = LEAF
    ) -> None:
        self._is_categorical = is_categorical
        self._first_column = first_column
        self._elsewhere = elsewhere
        self._tree: list[NDArray[np.int32]] = []
        self._node: list[NDArray[np.int32]] = []
        self._tables: list[SplitTable] = []

    def add(self, tree: NDArray[np.int32], node: NDArray[np.int32], table: SplitTable) -> None:
        """Note the splits of these nodes."""
        self._tree.append(tree)
        self._node.append(node)
        self._tables.append(table)

    def assemble(self, offsets: NDArray[np.int64]) -> Splits:
        """Return arrays over all nodes of the batch; tree t starts at offsets[t]."""
        n_nodes = int(offsets[-1])
        feature = np.full(n_nodes, self._elsewhere, np.int32)
        cut = np.zeros(n_nodes, self._tables[0].cut.dtype if self._tables else np.uint8)
        missing_left = np.zeros(n_nodes, np.uint8)
        set_index = np.full(n_nodes, -1, np.int32)
        positions: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        sets = [np.zeros((0, 4), np.uint64)]
        for tree, node, table in zip(self._tree, self._node, self._tables, strict=True):
            scatter(offsets, tree, node, table.feature + np.int32(self._first_column), feature)
            scatter(offsets, tree, node, table.cut, cut)
            scatter(offsets, tree, node, table.missing_left, missing_left)
            if len(table.left_set):
                by_set = self._is_categorical[table.feature]
                positions.append(offsets[tree[by_set]] + node[by_set])
                sets.append(table.left_set[by_set])
        position = np.concatenate(positions)
        in_node_order = np.argsort(position)
        set_index[position[in_node_order]] = np.arange(len(position), dtype=np.int32)
        return Splits(feature, cut, missing_left, set_index, np.concatenate(sets)[in_node_order])
