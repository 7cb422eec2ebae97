"""The work per level with random thresholds on raw values (extra-trees), on one table."""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.sampling import key_nodes
from fedforest.kernels.layout import NO_SPLIT, RowOrder
from fedforest.kernels.splits.random import (
    FoundThresholds,
    Values,
    find_random,
    write_threshold_bits,
)
from fedforest.tree.growth.rows import NodeRows
from fedforest.tree.growth.split_search import NodeSearch, SplitTable
from fedforest.tree.growth.structure import OpenNodes
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import Workers


class RandomSearch(NodeSearch):
    """Draws one threshold per candidate column and node and keeps the best."""

    def __init__(  # noqa: PLR0913, PLR0917 - the arguments of every search, and its seeds
        self,
        columns: Values,
        targets: TrainingTargets,
        rows: NodeRows,
        min_rows_leaf: int,
        threshold_seeds: NDArray[np.uint64],
        workers: Workers,
    ) -> None:
        super().__init__(targets, rows, min_rows_leaf, workers)
        self.columns = columns
        self._threshold_seeds = threshold_seeds
        self.found = self._nothing_found(0)

    def _nothing_found(self, n_nodes: int) -> FoundThresholds:
        n_sets = n_nodes if self.columns.is_categorical.any() else 0
        return FoundThresholds(
            np.full(n_nodes, NO_SPLIT),
            np.full(n_nodes, -1, np.int32),
            np.zeros(n_nodes, np.float32),
            np.zeros(n_nodes, np.uint8),
            np.zeros((n_sets, 4), np.uint64),
        )

    def find(self, candidates: NDArray[np.uint8], nodes: OpenNodes) -> NDArray[np.float64]:
        """Return the best score of every open node; tree and node number decide its thresholds."""
        self.found = found = self._nothing_found(len(candidates))
        node_keys = key_nodes(self._threshold_seeds, nodes.tree, nodes.node)
        order, kernel, rules = self.rows.order, self.targets.kernel, self._rules_at(nodes)

        def search(part: tuple[int, int]) -> None:
            find_random(self.columns, order, kernel, candidates, node_keys, rules, found, *part)

        if len(self.columns.is_categorical):
            self.workers.run(search, self.workers.ranges(self.rows.sizes + 16))
        return found.score

    def _write_bits(
        self,
        order: RowOrder,
        nodes: NDArray[np.int64],
        offsets: NDArray[np.int64],
        bits: NDArray[np.uint8],
        part: tuple[int, int],
    ) -> None:
        write_threshold_bits(self.columns, order, self.found, nodes, offsets, bits, *part)

    def table(self, nodes: NDArray[np.int64]) -> SplitTable:
        """Return the splits at these nodes; call after `split`."""
        found = self.found
        sets = found.left_set[nodes] if len(found.left_set) else found.left_set
        return SplitTable(
            found.feature[nodes], found.threshold[nodes], found.missing_left[nodes], sets
        )
