"""The mean vote of a forest for rows whose leaves are known."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.prediction.votes import number_votes, sum_leaf_votes, sum_numbered_votes
from fedforest.tree.forest.forest import LEAF
from fedforest.tree.forest.partial import ForestOutline
from fedforest.tree.workers import ALONE, Workers

MOST_NUMBERED_BYTES = 2**26

Numbered: TypeAlias = tuple[NDArray[np.float64], NDArray[np.unsignedinteger]]


class ForestVotes:
    """The leaves of a forest; distinct votes are numbered where that takes little memory."""

    def __init__(self, outline: ForestOutline) -> None:
        self._outline = outline
        self._numbered: dict[bool, Numbered] = {}

    @property
    def outline(self) -> ForestOutline:
        """Return the forest that votes."""
        return self._outline

    def mean(
        self, leaf_of: NDArray[np.int32], workers: Workers = ALONE, *, hard: bool = False
    ) -> NDArray[np.float64]:
        """Return the mean vote of the trees, (rows, classes); (rows, 1) for regression.

        `leaf_of` is (trees, rows); `hard` lets every tree vote for one class.
        """
        outline, numbered = self._outline, self._number_votes(hard=hard)
        n_trees, n_rows = leaf_of.shape
        votes = np.zeros((n_rows, outline.n_outputs))
        starts = outline.shape.tree_start

        def add(rows: tuple[int, int]) -> None:
            if numbered is None:
                sum_leaf_votes(outline.leaves, starts, leaf_of, votes, hard, *rows)
            else:
                sum_numbered_votes(*numbered, starts, leaf_of, votes, *rows)

        workers.run(add, workers.ranges(np.full(n_rows, n_trees)))
        votes /= n_trees
        return votes

    def _number_votes(self, *, hard: bool) -> Numbered | None:
        """Return distinct votes and each node's number among them; None if too large for memory."""
        outline, n_nodes = self._outline, self._outline.shape.n_nodes
        if 8 * n_nodes * outline.n_outputs > MOST_NUMBERED_BYTES:
            return None
        if hard not in self._numbered:
            number = np.empty(n_nodes, np.uint32)
            n_leaves = int((outline.shape.left_child == LEAF).sum())
            votes = np.zeros((1 + n_leaves, outline.n_outputs))
            n_numbers = int(number_votes(outline.leaves, hard, number, votes))
            kind = np.uint16 if n_numbers <= 2**16 else np.uint32
            self._numbered[hard] = votes[:n_numbers].copy(), number.astype(kind)
        return self._numbered[hard]
