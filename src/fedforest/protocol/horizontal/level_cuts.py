"""The cuts that one level asks about: as questions to groups of parties, and what their sums are.

Cuts lie in the order of nodes and pairs. A question has those of one group of trees.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import SET_WORDS
from fedforest.kernels.pairs import Pairs
from fedforest.protocol.aggregation.base import Segment
from fedforest.protocol.fates import pack_flags
from fedforest.protocol.horizontal.batch_plan import BatchPlan
from fedforest.protocol.horizontal.grouping import cut_at
from fedforest.protocol.horizontal.messages import CutsQuestion
from fedforest.protocol.horizontal.participants import Group
from fedforest.protocol.payloads import to_bytes
from fedforest.tree.search import SplitTable


class _Asked(NamedTuple):
    """What one group is asked about: of each of its pairs, and of each of its open nodes."""

    threshold: NDArray[np.float32]
    missing_left: NDArray[np.uint8]
    left_set: NDArray[np.uint64]
    wholes: NDArray[np.bool_]
    n_asked: int


@dataclass(frozen=True, slots=True, eq=False)
class LevelCuts:
    """A threshold or a set for every pair that somebody named a point for."""

    plan: BatchPlan
    tree: NDArray[np.int32]  # of each open node
    pairs: Pairs
    threshold: NDArray[np.float32]  # NaN: not asked
    asked_start: NDArray[np.int64]  # per node, of the pairs that have a threshold
    missing_left: NDArray[np.uint8]  # where no value is missing anywhere, nothing
    left_set: NDArray[np.uint64]
    wholes: NDArray[np.bool_]  # nodes that are counted whole

    @property
    def n_asked(self) -> int:
        """(node, candidate) pairs whose sides are counted."""
        return int(self.asked_start[-1])

    def questions(self, groups: Sequence[Group]) -> list[Segment]:
        """One question for each group of trees with the same participants."""
        if len(groups) == 1 and groups[0].trees.all():  # in the order in which nodes lie
            asked = _Asked(
                self.threshold, self.missing_left, self.left_set, self.wholes, self.n_asked
            )
            return [self._question(groups[0], asked)]
        nodes_of, n_asked = self._find_ends(groups)
        pairs_of = self.pairs.node_start[nodes_of].tolist()
        sets_of = np.searchsorted(self.set_pairs, pairs_of).tolist()
        parts = zip(*map(cut_at, (pairs_of, sets_of, nodes_of)), n_asked, strict=True)
        return [
            self._question(
                group,
                _Asked(
                    self.threshold[pairs],
                    self.missing_left[pairs],  # nothing of nothing
                    self.left_set[sets],
                    self.wholes[nodes],
                    n_asked_here,
                ),
            )
            for group, (pairs, sets, nodes, n_asked_here) in zip(groups, parts, strict=True)
        ]

    def _question(self, group: Group, asked: _Asked) -> Segment:
        sides = 2 if self.plan.both_sides else 1
        sides_of_missing = memoryview(b"")
        if self.plan.columns.has_missing.any():
            sides_of_missing = pack_flags(asked.missing_left > 0)
        question = CutsQuestion(
            group.number,
            to_bytes(asked.threshold, "<f4"),
            sides_of_missing,
            to_bytes(asked.left_set, "<u8"),
            pack_flags(asked.wholes),
        )
        n_sides = asked.n_asked * sides + int(np.count_nonzero(asked.wholes))
        length = n_sides * self.plan.counting.width
        encoded = msgspec.msgpack.encode(question)
        return Segment(group.participants, encoded, length, self.plan.largest_sum)

    def _find_ends(self, groups: Sequence[Group]) -> tuple[list[int], list[int]]:
        """(ends of nodes, asked pairs) of groups: their trees, and so their nodes, lie together."""
        last_trees = [int(np.flatnonzero(group.trees)[-1]) for group in groups]
        node_ends = [0, *np.searchsorted(self.tree, last_trees, side="right").tolist()]
        return node_ends, np.diff(self.asked_start[node_ends]).tolist()

    @property
    def set_pairs(self) -> NDArray[np.int64]:
        """Pairs asked of categorical columns, in order: the owners of the sets."""
        return find_set_pairs(self.plan, self.pairs, self.threshold)

    def collect(
        self,
        groups: Sequence[Group],
        sums: Sequence[NDArray[np.int64]],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(left, right if asked, whole nodes) over all groups, in order of pairs and of nodes."""
        counting, both = self.plan.counting, self.plan.both_sides
        width, sides = counting.width, 2 if both else 1
        if len(groups) == 1 and groups[0].trees.all():
            n_cuts = self.n_asked * sides * width
            cuts, wholes = sums[0][:n_cuts], sums[0][n_cuts:]
            cuts, wholes = cuts.reshape(-1, sides * width), wholes.reshape(-1, width)
        else:
            cuts, wholes = self._join_groups(groups, sums, sides * width, width)
        left = counting.read(cuts[:, :width])
        right = counting.read(cuts[:, width:]) if both else left[:0]
        return left, right, counting.read(wholes)

    def _join_groups(
        self,
        groups: Sequence[Group],
        sums: Sequence[NDArray[np.int64]],
        cut_width: int,
        width: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(cuts, whole nodes) of all groups, one after the other, as pairs and nodes lie."""
        _, n_asked = self._find_ends(groups)
        cuts = [part[: n * cut_width] for part, n in zip(sums, n_asked, strict=True)]
        wholes = [part[n * cut_width :] for part, n in zip(sums, n_asked, strict=True)]
        return (
            np.concatenate(cuts).reshape(-1, cut_width),
            np.concatenate(wholes).reshape(-1, width),
        )

    def tabulate(self, chosen: NDArray[np.int64], larger_left: NDArray[np.uint8]) -> SplitTable:
        """The cuts of these pairs as splits; where no value is missing, a later one goes with most.

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
            sets = padded[set_of_pair[chosen]]  # without a set: the last, which is empty
            cut[columns.is_categorical[feature]] = 0.0
        return SplitTable(feature, cut, missing_left, sets)


def find_set_pairs(
    plan: BatchPlan, pairs: Pairs, threshold: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Pairs of categorical columns that have a threshold, which then only says that they do."""
    is_categorical = plan.columns.is_categorical
    if not is_categorical.any():
        return np.zeros(0, np.int64)
    return np.flatnonzero(is_categorical[pairs.feature] & ~np.isnan(threshold))
