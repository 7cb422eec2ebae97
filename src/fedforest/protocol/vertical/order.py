"""The request and the result of a vertical training."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.tree.forest.partial import ForestOutline
from fedforest.tree.growth.level_loop import BATCH_BYTES, tree_bytes
from fedforest.tree.growth.parameters import ForestParameters

ENTRIES_OF_A_SLOT = 2**21  # with fewer, what further exchanges cost is more than a line wastes


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Stop when the out-of-bag curve is flat: no gain above `tolerance` for `patience` trees."""

    patience: int
    tolerance: float

    def stop_after(self, scores: list[float]) -> int | None:
        """After how many trees to stop, if the curve says so."""
        best, since = -np.inf, 0
        for n_trees, score in enumerate(scores, start=1):
            if score > best + self.tolerance:
                best, since = score, 0
            else:
                since += 1
            if since >= self.patience:
                return n_trees
        return None


@dataclass(frozen=True, slots=True)
class VerticalOrder:
    """The request for a training: parameters, parties, and the protection of labels."""

    parties: tuple[str, ...]  # in the order of their columns
    label_party: str
    parameters: ForestParameters
    seed: int
    response: RandomizedResponse | None = None
    out_of_bag: bool = False
    hard_votes: bool = False
    early_stopping: EarlyStopping | None = None
    batch_bytes: int = BATCH_BYTES
    grown: ForestOutline | None = None  # trees to keep and to go on from (warm start)
    first_tree: int = 0  # seeds of earlier trees are used up
    n_slots: int = 1  # batches of trees that may grow side by side, so that no line is idle
    least_entries: int = ENTRIES_OF_A_SLOT  # rows of all trees of a batch, where several are

    @property
    def with_left_out(self) -> bool:
        """Whether rows a tree leaves out are routed along."""
        return self.out_of_bag or self.early_stopping is not None

    def count_slots(self, n_rows: int, n_classes: int) -> int:
        """Count the batches that grow side by side over a table of this size."""
        n_trees = self.parameters.n_estimators - self.first_tree
        fitting = self.batch_bytes // max(1, tree_bytes(n_rows, n_classes, with_left_out=False))
        most = 1 if self.with_left_out else min(self.n_slots, fitting)  # votes come in order
        return count_slots(n_rows * n_trees, most, self.least_entries)


def count_slots(n_entries: int, most: int, least_entries: int = ENTRIES_OF_A_SLOT) -> int:
    """Count the batches that grow side by side, of trees with so many rows in all."""
    return max(1, min(most, n_entries // least_entries))


@dataclass(frozen=True, slots=True, eq=False)
class TrainedForest:
    """The coordinator's share of the forest, and what training told about it."""

    outline: ForestOutline
    columns_per_party: tuple[int, ...]
    importances: Mapping[str, NDArray[np.float64]]  # by column; NaN of a party that was left out
    out_of_bag_curve: NDArray[np.float64] | None
    out_of_bag_votes: NDArray[np.float64] | None  # None also if the label party was left out
    n_steps: tuple[int, ...]  # per batch of trees, levels and repeated ones
    n_extra_steps: tuple[int, ...]  # of these, steps that only retried nodes with further columns
    ended_early: bool = False  # with the batches of trees that were complete
    n_rows: int = 0
    smallest_group: int | None = None  # rows of the smallest child that bits told of, if any
