"""What decides how a batch of trees grows, told once at its beginning."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.horizontal.counting import Counting
from fedforest.tree.growth import GrowthRules
from fedforest.tree.targets import TargetKind


@dataclass(frozen=True, slots=True, eq=False)
class CommonColumns:
    """What the coordinator knows about the columns that all parties have."""

    is_categorical: NDArray[np.bool_]
    n_categories: NDArray[np.int64]
    has_missing: NDArray[np.bool_]

    @property
    def n_columns(self) -> int:
        return len(self.is_categorical)


@dataclass(frozen=True, slots=True, eq=False)
class BatchPlan:
    """What decides how a batch of trees grows."""

    rules: GrowthRules
    kind: TargetKind
    counting: Counting
    columns: CommonColumns
    feature_seeds: NDArray[np.uint64]
    threshold_seeds: NDArray[np.uint64]
    both_sides: bool
    totals_anew: bool  # nodes are counted whole in every step: other parties take part in each
    least_rows: int  # of a party in a node: with fewer it names no point
    largest_sum: int  # that a count over all parties can be
    asks_once: bool  # a node whose cuts were counted tries no further columns
