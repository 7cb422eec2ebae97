"""Rows going down finished trees level by level, grouped by the node they stand at."""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.children import open_children
from fedforest.kernels.descent import look_down
from fedforest.kernels.layout import Columns, Found
from fedforest.kernels.partition import place_bits, settle_rows, write_bits
from fedforest.tree.forest import Shape, Splits
from fedforest.tree.rows import ROWS_WORTH_A_NODE, NodeRows
from fedforest.tree.structure import OpenNodes, Step
from fedforest.tree.workers import Workers

ROW_BITS = 31


class Descent:
    """Where some rows stand in every tree; whoever knows the turns can follow them."""

    def __init__(self, shape: Shape, rows: range, workers: Workers) -> None:
        self._shape = shape
        self._workers = workers
        trees = np.flatnonzero(shape.left_child[shape.tree_start[:-1]] >= 0).astype(np.int32)
        zeros = np.zeros(len(trees), np.int32)
        self.open = OpenNodes(trees, zeros, zeros)
        entries = np.tile(np.arange(rows.start, rows.stop, dtype=np.uint32), len(trees))
        self.rows = NodeRows(entries, ROW_BITS, [len(rows)] * len(trees))

    @property
    def flat_nodes(self) -> NDArray[np.int64]:
        """The open nodes, numbered over all trees."""
        return self._shape.tree_start[self.open.tree] + self.open.node

    def write_bits(
        self, columns: Columns, splits: Splits, own: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """Which rows of the open nodes at these positions go left, by their owner's splits."""
        flat = self.flat_nodes[own]
        sets = np.zeros((0, 4), np.uint64)
        if len(splits.left_set):
            sets = splits.left_set[np.maximum(splits.set_index[flat], 0)]
        found = Found(
            np.zeros(0), splits.feature[flat], splits.cut[flat], splits.missing_left[flat], sets
        )
        nodes, start, stop = (
            np.arange(len(own)),
            self.rows.order.start[own],
            self.rows.order.stop[own],
        )
        order = self.rows.order._replace(start=start, stop=stop)
        offsets = place_bits(start, stop, nodes)
        bits = np.empty(int(offsets[-1]), np.uint8)

        def write(part: tuple[int, int]) -> None:
            write_bits(columns, order, found, nodes, offsets, bits, *part)

        self._workers.run(write, self._workers.ranges(stop - start + ROWS_WORTH_A_NODE))
        return bits

    def follow(
        self,
        bits: NDArray[np.uint8],
        left_rows: NDArray[np.int64],
        leaf_of: NDArray[np.int32] | None = None,
    ) -> None:
        """Go down one level by the bits of all open nodes; note in `leaf_of` who arrived."""
        before, sizes = self.open, self.rows.sizes
        left_child, fate = look_down(
            self._shape.tree_start,
            self._shape.left_child,
            before.tree,
            before.node,
            sizes,
            left_rows,
        )
        nodes = (before.tree, before.node, before.depth)
        tree, node, depth, source, is_right = open_children(nodes, fate, left_child)
        everywhere = np.ones(len(fate), np.bool_)
        step = Step(before, everywhere, fate, left_child, source, is_right)
        if leaf_of is not None:
            self._settle(step, bits, leaf_of)
        self.rows.move(step, bits, left_rows, self._workers)
        self.open = OpenNodes(tree, node, depth)

    def _settle(self, step: Step, bits: NDArray[np.uint8], leaf_of: NDArray[np.int32]) -> None:
        order, nodes = self.rows.order, (step.before.tree, step.before.node)
        offsets = self.rows.bit_offsets(step.is_split)

        def settle(part: tuple[int, int]) -> None:
            settle_rows(order, nodes, step.left_child, step.fate, offsets, bits, leaf_of, *part)

        self._workers.run(settle, self.rows.ranges(self._workers))
