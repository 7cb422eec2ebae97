"""What the trees of a forest say together about rows whose leaves are known."""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.leaf_votes import spread_votes, sum_leaf_votes, sum_spread_votes
from fedforest.tree.partial import ForestOutline
from fedforest.tree.workers import ALONE, Workers

MOST_SPREAD_BYTES = 2**26


class ForestVotes:
    """The leaves of a forest, spread out for quick votes where that takes little memory."""

    def __init__(self, outline: ForestOutline) -> None:
        self._outline = outline
        self._spread: dict[bool, NDArray[np.float64]] = {}

    def mean(
        self, leaf_of: NDArray[np.int32], workers: Workers = ALONE, *, hard: bool = False
    ) -> NDArray[np.float64]:
        """(rows, classes): what the trees say on average; (rows, 1) for regression.

        `leaf_of` is (trees, rows); `hard` lets every tree vote for one class.
        """
        outline, spread = self._outline, self._spread_votes(hard=hard)
        n_trees, n_rows = leaf_of.shape
        votes = np.zeros((n_rows, outline.n_outputs))
        starts = outline.shape.tree_start

        def add(rows: tuple[int, int]) -> None:
            if spread is None:
                sum_leaf_votes(outline.leaves, starts, leaf_of, votes, hard, *rows)
            else:
                sum_spread_votes(spread, starts, leaf_of, votes, *rows)

        workers.run(add, workers.ranges(np.full(n_rows, n_trees)))
        votes /= n_trees
        return votes

    def _spread_votes(self, *, hard: bool) -> NDArray[np.float64] | None:
        """(nodes, classes): what leaves say; None where that takes much memory."""
        outline = self._outline
        if 8 * outline.shape.n_nodes * outline.n_outputs > MOST_SPREAD_BYTES:
            return None
        if hard not in self._spread:
            self._spread[hard] = np.empty((outline.shape.n_nodes, outline.n_outputs))
            spread_votes(outline.leaves, hard, self._spread[hard])
        return self._spread[hard]
