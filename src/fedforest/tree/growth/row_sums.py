"""Sums of the labels of nodes, computed from the rows themselves.

A role that knows the labels, the rows of a node and where they go can add up its children: an owner
of columns during its search, or a coordinator that computes the sums itself.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.partition import sum_left_binary, sum_left_classes, sum_left_moments
from fedforest.kernels.splits.binary import weigh_nodes
from fedforest.tree.growth.rows import NodeRows
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import Workers


class RowSums:
    """Adds up labels over the open nodes of a row order."""

    def __init__(self, targets: TrainingTargets, rows: NodeRows, workers: Workers) -> None:
        self.targets, self.rows, self._workers = targets, rows, workers

    def of_nodes(self) -> NDArray[np.int64]:
        """Return the sums of the open nodes themselves; used at the roots."""
        rows, kind = self.rows, self.targets.kind
        if kind.sums == "binary":
            sums = np.zeros((len(rows.sizes), kind.n_sums), np.int64)
            self._workers.run(
                lambda part: weigh_nodes(rows.order, sums, *part), rows.ranges(self._workers)
            )
            return sums
        nodes = np.arange(len(rows.sizes))
        offsets = rows.bit_offsets_of(nodes)
        everything = np.full(int(offsets[-1]), 255, np.uint8)
        return self.of_left_children(nodes, offsets, everything)

    def of_left_children(
        self, nodes: NDArray[np.int64], offsets: NDArray[np.int64], bits: NDArray[np.uint8]
    ) -> NDArray[np.int64]:
        """Sum the left children of some open nodes; nodes[i]'s bits start at offsets[i]."""
        left = np.zeros((len(nodes), self.targets.kind.n_sums), np.int64)

        def add(part: tuple[int, int]) -> None:
            self.add_left(nodes, offsets, bits, left, part)

        self._workers.run(add, self.rows.ranges_of(nodes, self._workers))
        return left

    def add_left(
        self,
        nodes: NDArray[np.int64],
        offsets: NDArray[np.int64],
        bits: NDArray[np.uint8],
        left: NDArray[np.int64],
        part: tuple[int, int],
    ) -> None:
        """Write the sums of the left children of nodes[part] to left[part], which is zero."""
        order, kernel = self.rows.order, self.targets.kernel
        if self.targets.kind.sums == "binary":
            sum_left_binary(order, nodes, offsets, bits, left, *part)
        elif self.targets.kind.sums == "moments":
            sum_left_moments(order, kernel, nodes, offsets, bits, left, *part)
        else:
            sum_left_classes(order, kernel, nodes, offsets, bits, left, *part)
