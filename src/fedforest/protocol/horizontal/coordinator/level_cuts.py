"""The cuts of one level: their questions to groups of parties, and the collected sums.

Cuts are in the order of nodes and pairs. A question has those of one group of trees.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.pairs import Pairs
from fedforest.kernels.layout import SET_WORDS
from fedforest.protocol.aggregation.base import Segment
from fedforest.protocol.fates import pack_each
from fedforest.protocol.horizontal.coordinator.batch_plan import BatchPlan
from fedforest.protocol.horizontal.coordinator.participants import Group
from fedforest.protocol.horizontal.grouping import count_before, cut_bytes
from fedforest.protocol.horizontal.messages import CutsQuestion
from fedforest.protocol.payloads import to_bytes
from fedforest.tree.growth.split_search import SplitTable
from fedforest.tree.workers import Workers


@dataclass(frozen=True, slots=True, eq=False)
class LevelCuts:
    """A threshold or a set for every pair that at least one party named a point for."""

    plan: BatchPlan
    tree_start: list[int]  # where each tree's open nodes begin, and where the last one's end
    pairs: Pairs
    threshold: NDArray[np.float32]  # NaN: not asked
    asked_start: NDArray[np.int64]  # per node, of the pairs that have a threshold
    missing_left: NDArray[np.uint8]  # empty if no value is missing anywhere
    left_set: NDArray[np.uint64]
    wholes: NDArray[np.bool_]  # nodes whose totals are asked for
    heaviest: int  # no node weighs more

    @property
    def n_asked(self) -> int:
        """(node, candidate) pairs whose sides are counted."""
        return int(self.asked_start[-1])

    def questions(self, groups: Sequence[Group]) -> list[Segment]:
        """Return one question for each group of trees with the same participants."""
        node_ends = self._find_ends(groups)
        pair_ends = self.pairs.node_start[node_ends].tolist()
        set_ends = np.searchsorted(self.set_pairs, pair_ends).tolist()
        told_ends = pair_ends if len(self.missing_left) else [0] * len(pair_ends)
        asked = zip(
            cut_bytes(to_bytes(self.threshold, "<f4"), 4, pair_ends),
            pack_each(self.missing_left > 0, told_ends),
            cut_bytes(to_bytes(self.left_set, "<u8"), 8 * SET_WORDS, set_ends),
            pack_each(self.wholes, node_ends),
            strict=True,
        )
        sides = 2 if self.plan.both_sides else 1
        n_vectors = np.diff(self.asked_start[node_ends]) * sides
        n_vectors += np.diff(count_before(self.wholes, node_ends))
        lengths = (n_vectors * self.plan.counting.width).tolist()
        return [
            Segment(
                group.participants,
                msgspec.msgpack.encode(CutsQuestion(group.number, *own)),
                length,
                self.plan.largest_sum,
                self.heaviest if self.plan.are_counts else None,
            )
            for group, own, length in zip(groups, asked, lengths, strict=True)
        ]

    def _find_ends(self, groups: Sequence[Group]) -> list[int]:
        """Return 0 and where the nodes of each group end; a group's nodes are consecutive."""
        return [0, *[self.tree_start[group.trees.stop] for group in groups]]

    @property
    def set_pairs(self) -> NDArray[np.int64]:
        """Pairs asked of categorical columns, in order: the owners of the sets."""
        return find_set_pairs(self.plan, self.pairs, self.threshold)

    def collect(
        self, groups: Sequence[Group], sums: Sequence[NDArray[np.int64]], workers: Workers
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (cuts, whole nodes) over all groups, in order of pairs and of nodes.

        A cut is its left side, followed by the right one if asked.
        """
        counting, n_sides = self.plan.counting, 2 if self.plan.both_sides else 1
        n_cuts = np.diff(self.asked_start[self._find_ends(groups)]) * n_sides * counting.width
        parts = list(zip(sums, n_cuts.tolist(), strict=True))
        sides = _join([part[:n] for part, n in parts]).reshape(-1, counting.width)
        wholes = _join([part[n:] for part, n in parts]).reshape(-1, counting.width)
        cuts = counting.read(sides, workers).reshape(-1, n_sides * counting.layout.width)
        return cuts, counting.read(wholes, workers)

    def tabulate(self, chosen: NDArray[np.int64], larger_left: NDArray[np.uint8]) -> SplitTable:
        """Return the cuts of these pairs as splits.

        In columns without missing values in training, later ones go with the majority.

        `larger_left` is 1 where most rows of a split go left.
        """
        columns, feature = self.plan.columns, self.pairs.feature[chosen]
        cut, missing_left = self.threshold[chosen], larger_left
        if len(self.missing_left):
            drawn = self.missing_left[chosen]
            missing_left = np.where(columns.has_missing[feature], drawn, larger_left)
        sets = np.zeros((0, SET_WORDS), np.uint64)
        if columns.is_categorical.any():
            set_of_pair = np.full(len(self.pairs.feature), -1, np.int64)
            set_of_pair[self.set_pairs] = np.arange(len(self.left_set))
            padded = np.concatenate([self.left_set, np.zeros((1, SET_WORDS), np.uint64)])
            sets = padded[set_of_pair[chosen]]  # no set: the last, empty one
            cut[columns.is_categorical[feature]] = 0.0
        return SplitTable(feature, cut, missing_left, sets)


def _join(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Concatenate the parts."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def find_set_pairs(
    plan: BatchPlan, pairs: Pairs, threshold: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Return the asked pairs of categorical columns; their thresholds are only flags."""
    is_categorical = plan.columns.is_categorical
    if not is_categorical.any():
        return np.zeros(0, np.int64)
    return np.flatnonzero(is_categorical[pairs.feature] & ~np.isnan(threshold))
