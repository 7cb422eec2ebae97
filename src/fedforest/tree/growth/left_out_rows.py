"""Rows a tree did not draw, routed to its leaves along with the others, so that they can vote."""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.partition import settle_rows
from fedforest.kernels.prediction.walk import Leaves, vote_at
from fedforest.tree.forest.forest import Shape
from fedforest.tree.growth.rows import NodeRows
from fedforest.tree.growth.structure import GrowthStep
from fedforest.tree.workers import Workers


class LeftOutRows:
    """Follows the left-out rows of a batch of trees; `leaf_of` fills up as their nodes close."""

    def __init__(self, rows: NodeRows, n_trees: int, n_rows: int, workers: Workers) -> None:
        self.rows = rows
        self.leaf_of = np.full((n_trees, n_rows), -1, np.int32)
        self._workers = workers

    def move(
        self, step: GrowthStep, bits: NDArray[np.uint8], offsets: NDArray[np.int64] | None = None
    ) -> None:
        """Follow one step, given one bit for every left-out row of the nodes it split.

        Those of open node k start at byte offsets[k]; without offsets they lie in node order.
        """
        order, workers = self.rows.order, self._workers
        offsets = self.rows.bit_offsets(step.is_split) if offsets is None else offsets
        nodes = (step.before.tree, step.before.node)

        def settle(part: tuple[int, int]) -> None:
            settle_rows(
                order, nodes, step.left_child, step.fate, offsets, bits, self.leaf_of, *part
            )

        workers.run(settle, self.rows.ranges(workers))
        left_rows = self.rows.count_left(step.is_split, bits, offsets, workers)
        self.rows.move(step, bits, left_rows, workers, offsets)


class OutOfBagTally:
    """Sums, tree after tree, the votes for rows that a tree was not trained on."""

    def __init__(self, n_rows: int, n_classes: int, *, hard: bool = False) -> None:
        self.votes = np.zeros((n_rows, max(1, n_classes)))
        self.counts = np.zeros(n_rows, np.int64)
        self.hard = hard

    def copy(self) -> "OutOfBagTally":
        """Return an independent copy."""
        other = OutOfBagTally(0, 0, hard=self.hard)
        other.votes, other.counts = self.votes.copy(), self.counts.copy()
        return other

    def add(self, shape: Shape, leaves: Leaves, leaf_of: NDArray[np.int32], tree: int) -> None:
        """Add the votes of one tree of a batch."""
        rows = np.flatnonzero(leaf_of[tree] >= 0)
        leaf = shape.tree_start[tree] + leaf_of[tree, rows]
        vote_at(Leaves(*leaves), leaf, rows, self.votes, self.counts, self.hard)

    def means(self) -> NDArray[np.float64]:
        """Return the mean vote per row; NaN where no tree left the row out."""
        with np.errstate(invalid="ignore"):
            return self.votes / self.counts[:, None]
