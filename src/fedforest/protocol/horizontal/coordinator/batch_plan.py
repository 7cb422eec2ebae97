"""The settings by which the coordinator grows a batch of trees, fixed at its beginning."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.horizontal.coordinator.counting import Counting
from fedforest.tree.growth.decisions import GrowthRules
from fedforest.tree.table.targets import TargetKind


@dataclass(frozen=True, slots=True, eq=False)
class CommonColumns:
    """The coordinator's knowledge about the columns that all parties have."""

    is_categorical: NDArray[np.bool_]
    n_categories: NDArray[np.int64]
    has_missing: NDArray[np.bool_]

    @property
    def n_columns(self) -> int:
        return len(self.is_categorical)


@dataclass(frozen=True, slots=True, eq=False)
class BatchPlan:
    """The settings by which a batch of trees grows."""

    rules: GrowthRules
    kind: TargetKind
    counting: Counting
    columns: CommonColumns
    feature_seeds: NDArray[np.uint64]
    threshold_seeds: NDArray[np.uint64]
    both_sides: bool
    totals_anew: bool  # whole nodes are counted in every step, as each step has other participants
    least_rows: int  # a party with fewer rows in a node names no point
    largest_sum: int  # upper limit of a count over all parties
    are_counts: bool  # whether no sum is ever below zero
    asks_once: bool  # a node whose cuts were counted tries no further columns
