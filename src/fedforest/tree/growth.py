"""The decisions of growing, for one batch of trees; they need scores and sums, never rows.

Which features a node may use, whether it splits, whether its children stay open, what its leaf
says.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.node_sums import hold_one_class
from fedforest.kernels.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.kernels.sampling import draw_candidates
from fedforest.tree.impurity import impurity_decrease
from fedforest.tree.leaf import LeafRecord
from fedforest.tree.structure import Step, Structure
from fedforest.tree.targets import TargetKind, rows_of, weight_of

ROUNDING = 2.0**-52  # a decrease this close below the minimum passes, as in scikit-learn
NO_DEPTH_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GrowthRules:
    """When to stop and how many features a node sees."""

    max_depth: int = NO_DEPTH_LIMIT
    min_rows_split: int = 2
    min_rows_leaf: int = 1
    min_impurity_decrease: float = 0.0
    features_per_node: int = 1
    sample_per_tree: bool = False


@dataclass(frozen=True, slots=True)
class ColumnBits:
    """Bit position of every column in a candidate bitmap; owners start on whole bytes."""

    bit_of_column: NDArray[np.int64]
    first_byte: NDArray[np.int64]  # per owner, plus the total width

    @classmethod
    def of(cls, columns_per_owner: list[int]) -> "ColumnBits":
        """Consecutive columns, `columns_per_owner[p]` of them for owner p."""
        widths = [(n + 7) >> 3 for n in columns_per_owner]
        first_byte = np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])
        bits = [
            np.arange(n) + 8 * start
            for n, start in zip(columns_per_owner, first_byte[:-1], strict=True)
        ]
        return cls(np.concatenate([np.zeros(0, np.int64), *bits]), first_byte)


class Growth:
    """Grows a batch of trees; the caller carries its requests to whoever holds columns and rows."""

    def __init__(
        self,
        rules: GrowthRules,
        kind: TargetKind,
        column_bits: ColumnBits,
        feature_seeds: NDArray[np.uint64],
        root_sums: NDArray[np.int64],
    ) -> None:
        self.rules = rules
        self.kind = kind
        self.column_bits = column_bits
        self.structure = Structure(len(feature_seeds))
        self._feature_seeds = feature_seeds
        self._root_weight = weight_of(root_sums, kind).astype(np.float64)
        self._sums = root_sums
        self._tried = np.zeros(len(root_sums), np.int64)
        self.leaves = LeafRecord(kind)
        self._decrease = np.zeros(0)
        self._split_events: list[
            tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]
        ] = []
        self.root_step = self._close_roots()

    @property
    def n_open(self) -> int:
        """Open nodes."""
        return len(self.structure.open)

    @property
    def sums(self) -> NDArray[np.int64]:
        """The integers that describe the open nodes."""
        return self._sums

    @property
    def at_depth_limit(self) -> bool:
        """Whether the children of every open node will be leaves, so that no row needs to move."""
        return bool((self.structure.open.depth + 1 >= self.rules.max_depth).all())

    def draw(self) -> NDArray[np.uint8]:
        """Candidate columns of every open node, one bitmap row each."""
        nodes = self.structure.open
        width = int(self.column_bits.first_byte[-1])
        bitmap = np.zeros((len(nodes), width), np.uint8)
        numbers = np.zeros_like(nodes.node) if self.rules.sample_per_tree else nodes.node
        draw_candidates(
            self._feature_seeds,
            nodes.tree,
            numbers,
            self._tried,
            self.rules.features_per_node,
            self.column_bits.bit_of_column,
            bitmap,
        )
        return bitmap

    def choose(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which nodes split, given each node's best score over all owners."""
        valid = np.isfinite(scores)
        self._decrease = np.zeros(len(scores))
        self._decrease[valid] = impurity_decrease(scores[valid], self._sums[valid], self.kind)
        least = self.rules.min_impurity_decrease
        if least <= 0.0:
            return valid
        if self.kind.is_regression:  # into squared fixed-point units
            least = least / self.kind.target_unit / self.kind.target_unit
        share = weight_of(self._sums, self.kind) / self._root_weight[self.structure.open.tree]
        enough = share * self._decrease * (1.0 + ROUNDING) >= least
        return valid & enough

    def advance(
        self, is_split: NDArray[np.bool_], scores: NDArray[np.float64], left: NDArray[np.int64]
    ) -> Step:
        """Split the chosen nodes, whose left children have the given sums."""
        right = self._sums[is_split] - left
        depth = self.structure.open.depth[is_split] + 1
        left_pure, right_pure = self._purity(left, right)
        opens_left = self._may_split(left, depth) & ~left_pure
        opens_right = self._may_split(right, depth) & ~right_pure
        fate = np.zeros(len(is_split), np.uint8)
        fate[is_split] = opens_left * OPEN_LEFT + opens_right * OPEN_RIGHT
        fate[self._tries_again(scores)] = STAYS
        step = self.structure.advance(is_split, fate)
        self._record_leaves(step, (left, right))
        self._record_decrease(step)
        self._follow(step, (left, right))
        return step

    def _tries_again(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Nodes none of whose candidates gave a valid split and that have columns left to try."""
        if self.rules.sample_per_tree:
            return np.zeros(len(scores), np.bool_)
        tried = self._tried + self.rules.features_per_node
        return ~np.isfinite(scores) & (tried < len(self.column_bits.bit_of_column))

    def _follow(self, step: Step, sums: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
        """Sums and tried columns of the nodes that are open after the step."""
        stays = step.fate[step.source] == STAYS
        row = np.cumsum(step.is_split) - 1  # row of `sums` for each split node
        following = self._sums[step.source]
        for side in (0, 1):
            is_side = (step.is_right == bool(side)) & ~stays
            following[is_side] = sums[side][row[step.source[is_side]]]
        self._sums = following
        self._tried = np.where(stays, self._tried[step.source] + self.rules.features_per_node, 0)

    def _record_leaves(self, step: Step, sums: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
        nodes, is_split, fate = step.before, step.is_split, step.fate
        closed = ~is_split & (fate == 0)
        self.leaves.add(nodes.tree[closed], nodes.node[closed], self._sums[closed])
        tree, left_child = nodes.tree[is_split], step.left_child[is_split]
        for side, bit in ((0, OPEN_LEFT), (1, OPEN_RIGHT)):
            is_leaf = (fate[is_split] & bit) == 0
            self.leaves.add(tree[is_leaf], left_child[is_leaf] + side, sums[side][is_leaf])

    def _record_decrease(self, step: Step) -> None:
        tree, node = step.before.tree[step.is_split], step.before.node[step.is_split]
        share = weight_of(self._sums[step.is_split], self.kind) / self._root_weight[tree]
        self._split_events.append((tree, node, share * self._decrease[step.is_split]))

    def flat_decrease(self) -> NDArray[np.float64]:
        """Weighted impurity decrease of every node of the flat forest, zero at leaves."""
        offsets = self.structure.tree_offsets()
        flat = np.zeros(int(offsets[-1]))
        for tree, node, decrease in self._split_events:
            flat[offsets[tree] + node] = decrease
        return flat

    def _close_roots(self) -> Step:
        """Roots that are leaves from the start: pure, too small, or depth zero."""
        sums = self._sums
        pure, _ = self._purity(sums, sums)
        fate = np.where(self._may_split(sums, 0) & ~pure, STAYS, 0).astype(np.uint8)
        step = self.structure.advance(np.zeros(len(fate), np.bool_), fate)
        closed = fate == 0
        self.leaves.add(step.before.tree[closed], step.before.node[closed], sums[closed])
        self._sums = sums[~closed]
        self._tried = self._tried[~closed]
        return step

    def _may_split(
        self, sums: NDArray[np.int64], depth: NDArray[np.int32] | int
    ) -> NDArray[np.bool_]:
        rows = rows_of(sums, self.kind)
        enough = rows >= max(self.rules.min_rows_split, 2 * self.rules.min_rows_leaf)
        return enough & (depth < self.rules.max_depth)

    def _purity(
        self, left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        if self.kind.is_regression:
            return (left[:, 3] & OPEN_LEFT) > 0, (left[:, 3] & OPEN_RIGHT) > 0
        return hold_one_class(left), hold_one_class(right)
