"""The decisions of growing, for one batch of trees; they need scores and sums, never rows.

They are: which features a node may use, whether it splits, whether its children stay open, and what
its leaf predicts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.criteria.registry import ByMoments
from fedforest.kernels.cuts.pairs import Pairs, place_candidates, write_pairs
from fedforest.kernels.growth.children import (
    Limits,
    divide_sums,
    judge_by_classes,
    judge_by_moments,
    keep_trying,
)
from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.kernels.growth.sampling import draw_candidates
from fedforest.kernels.layout import NO_LIMITS
from fedforest.kernels.sums.nodes import share_in_tree
from fedforest.tree.growth.impurity import impurity_decrease
from fedforest.tree.growth.leaves import LeafRecord
from fedforest.tree.growth.structure import GrowthStep, Structure
from fedforest.tree.table.targets import TargetKind, least_leaf_weight, weight_of
from fedforest.tree.workers import ALONE, Workers

ROUNDING = 2.0**-52  # a decrease this close below the minimum passes, as in scikit-learn
NO_DEPTH_LIMIT = 2**31 - 1
NODES_WORTH_A_THREAD = 4096
NODES_WORTH_WAKING = 2**14  # with fewer, all are drawn before another thread is awake


@dataclass(frozen=True, slots=True)
class GrowthRules:
    """The rules for stopping, and how many features a node sees."""

    max_depth: int = NO_DEPTH_LIMIT
    min_rows_split: int = 2
    min_rows_leaf: int = 1
    min_weight_share: float = 0.0  # of a leaf, as a fraction of the weight of its tree
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
        """Place consecutive columns, `columns_per_owner[p]` of them for owner p."""
        widths = [(n + 7) >> 3 for n in columns_per_owner]
        first_byte = np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])
        bits = [
            np.arange(n) + 8 * start
            for n, start in zip(columns_per_owner, first_byte[:-1], strict=True)
        ]
        return cls(np.concatenate([np.zeros(0, np.int64), *bits]), first_byte)


class OpenTrees:
    """The open nodes of a batch of trees, and the columns that each of them tries next."""

    def __init__(
        self,
        rules: GrowthRules,
        column_bits: ColumnBits,
        feature_seeds: NDArray[np.uint64],
        workers: Workers = ALONE,
    ) -> None:
        self.rules = rules
        self.column_bits = column_bits
        self.structure = Structure(len(feature_seeds))
        self._workers = workers
        self._feature_seeds = feature_seeds
        self._tried = np.zeros(len(feature_seeds), np.int64)

    @property
    def n_open(self) -> int:
        """Open nodes."""
        return len(self.structure.open)

    @property
    def tried(self) -> NDArray[np.int64]:
        """Return how many columns each open node has tried in earlier steps, without success."""
        return self._tried

    @property
    def has_columns_left(self) -> NDArray[np.bool_]:
        """Whether an open node may try further columns after those it tries now."""
        if self.rules.sample_per_tree:
            return np.zeros(self.n_open, np.bool_)
        n_columns = len(self.column_bits.bit_of_column)
        return self._tried + self.rules.features_per_node < n_columns

    @property
    def at_depth_limit(self) -> bool:
        """Whether the children of every open node will be leaves, so that no row needs to move."""
        shallowest = int(self.structure.open.depth.min(initial=NO_DEPTH_LIMIT))
        return shallowest + 1 >= self.rules.max_depth

    def draw(self) -> NDArray[np.uint8]:
        """Draw the candidate columns of every open node, one bitmap row each."""
        bitmap, draws = self.begin_draw()
        self._workers.run(lambda draw: draw(), draws)
        return bitmap

    def draw_pairs(self) -> tuple[NDArray[np.uint8], Pairs]:
        """Draw candidates and list their pairs, each part by the worker that drew it."""
        bitmap, draws = self.begin_draw()
        n_columns = len(self.column_bits.bit_of_column)
        node_start = place_candidates(self._tried, self.rules.features_per_node, n_columns)
        pairs = Pairs(node_start, np.empty(int(node_start[-1]), np.int32))

        def work(part: tuple[slice, Callable[[], None]]) -> None:
            nodes, draw = part
            draw()
            write_pairs(bitmap, pairs, nodes.start, min(nodes.stop, len(bitmap)))

        workers = self._workers.if_worth(len(bitmap), NODES_WORTH_WAKING)
        workers.run(work, zip(self._parts(len(bitmap)), draws, strict=True))
        return bitmap, pairs

    def begin_draw(self) -> tuple[NDArray[np.uint8], list[Callable[[], None]]]:
        """Return an empty bitmap and the calls that fill it, which may run at the same time."""
        nodes = self.structure.open
        numbers = np.zeros_like(nodes.node) if self.rules.sample_per_tree else nodes.node
        bitmap = np.zeros((len(nodes), int(self.column_bits.first_byte[-1])), np.uint8)

        def draw(part: slice) -> None:
            draw_candidates(
                self._feature_seeds,
                nodes.tree[part],
                numbers[part],
                self._tried[part],
                self.rules.features_per_node,
                self.column_bits.bit_of_column,
                bitmap[part],
            )

        return bitmap, [partial(draw, part) for part in self._parts(len(nodes))]

    def follow(self, is_split: NDArray[np.bool_], fate: NDArray[np.uint8]) -> GrowthStep:
        """Make a step that was decided elsewhere; nodes that stay open tried their candidates."""
        step = self.structure.advance(is_split, fate)
        stays = fate[step.source] == STAYS
        n_tried = self._tried[step.source] + self.rules.features_per_node
        self._tried = np.where(stays, n_tried, 0)
        return step

    def forget_tries(self) -> None:
        """Begin with the first candidates: the roots were judged, and tried nothing yet."""
        self._tried[:] = 0

    def _parts(self, n_nodes: int) -> list[slice]:
        """Divide the nodes into consecutive parts, one per worker or fewer if they are small."""
        size = max(NODES_WORTH_A_THREAD, -(-n_nodes // self._workers.count))
        return [slice(start, start + size) for start in range(0, n_nodes, size)]


class Growth(OpenTrees):
    """Grows a batch of trees; the caller carries its requests to the owners of columns and rows."""

    def __init__(  # noqa: PLR0913, PLR0917 - the sixth only divides the work
        self,
        rules: GrowthRules,
        kind: TargetKind,
        column_bits: ColumnBits,
        feature_seeds: NDArray[np.uint64],
        root_sums: NDArray[np.int64],
        workers: Workers = ALONE,
    ) -> None:
        super().__init__(rules, column_bits, feature_seeds, workers)
        self.kind = kind
        self.leaves = LeafRecord(kind)
        self._limits = Limits(max(rules.min_rows_split, 2 * rules.min_rows_leaf), rules.max_depth)
        self._n_weights = 1 if kind.is_regression else kind.n_classes
        self._root_weight: NDArray[np.float64] = weight_of(root_sums, kind).astype(np.float64)
        self._sums = np.ascontiguousarray(root_sums)
        self._decrease = np.zeros(0)  # of the open nodes, scaled by their fraction of the tree
        self._decrease_by_step: list[NDArray[np.float64]] = []
        self.root_step = self._close_roots()

    @property
    def sums(self) -> NDArray[np.int64]:
        """The integers that describe the open nodes."""
        return self._sums

    def choose(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which nodes split, given each node's best score over all owners."""
        decrease = impurity_decrease(scores, self._sums, self.kind)
        tree = self.structure.open.tree
        share_in_tree(decrease, self._sums, self._n_weights, tree, self._root_weight)
        self._decrease = decrease
        valid = np.isfinite(scores)
        least = self.rules.min_impurity_decrease
        if least <= 0.0:
            return valid
        if isinstance(self.kind.scores, ByMoments) and self.kind.is_regression:
            for _ in range(self.kind.scores.unit_power):  # into fixed-point units
                least = least / self.kind.target_unit
        return valid & (decrease * (1.0 + ROUNDING) >= least)

    def least_weight(self, totals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the least weight of children of the open nodes; empty where there is no limit.

        `totals` are the sums of the open nodes; those of roots give the weights of their trees.
        """
        if not self.rules.min_weight_share:
            return NO_LIMITS
        opened, weight = self.structure.open, self._root_weight.copy()
        is_root = opened.node == 0
        weight[opened.tree[is_root]] = weight_of(totals[is_root], self.kind)
        return least_leaf_weight(weight, self.rules.min_weight_share)[opened.tree]

    def know_totals(self, sums: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Set the sums of the open nodes, and return which of them become leaves.

        For growth that does not know the sums of the roots at the start, or gets new sums at each
        step.
        """
        self._sums = np.ascontiguousarray(sums)
        opened = self.structure.open
        is_root = opened.node == 0
        self._root_weight[opened.tree[is_root]] = weight_of(self._sums[is_root], self.kind)
        fate = np.zeros(len(opened), np.uint8)
        # judged like left children that took everything
        self._judge(self._sums, np.arange(len(opened)), opened.depth - 1, fate)
        closes: NDArray[np.bool_] = (fate & OPEN_LEFT) == 0
        return closes

    def advance(
        self,
        is_split: NDArray[np.bool_],
        scores: NDArray[np.float64],
        left: NDArray[np.int64],
        resigned: NDArray[np.bool_] | None = None,
    ) -> GrowthStep:
        """Split the chosen nodes, whose left children have the given sums.

        A node without a score tries further columns unless it `resigned`.
        """
        left = np.ascontiguousarray(left)
        nodes = np.flatnonzero(is_split)
        # trees that sample once have no columns left to try
        n_columns = 0 if self.rules.sample_per_tree else len(self.column_bits.bit_of_column)
        fate = keep_trying(scores, self._tried, self.rules.features_per_node, n_columns)
        if resigned is not None:
            fate[resigned] = 0
        self._judge(left, nodes, self.structure.open.depth, fate)
        step = self.structure.advance(is_split, fate)
        self._follow(step, left)
        return step

    def _judge(
        self,
        left: NDArray[np.int64],
        nodes: NDArray[np.int64],
        depth: NDArray[np.int32],
        fate: NDArray[np.uint8],
    ) -> None:
        """Decide which children of the split nodes stay open."""
        judge = judge_by_moments if self.kind.is_regression else judge_by_classes
        judge(self._sums, left, nodes, depth, self._limits, fate)
        least = self.least_weight(self._sums)
        if len(least):
            self._close_light(left, nodes, 2 * least[nodes], fate)

    def _close_light(
        self,
        left: NDArray[np.int64],
        nodes: NDArray[np.int64],
        least: NDArray[np.int64],
        fate: NDArray[np.uint8],
    ) -> None:
        """Close children of less weight than two further children would need."""
        weight = weight_of(left, self.kind)
        rest = weight_of(self._sums[nodes], self.kind) - weight
        fate[nodes[weight < least]] &= OPEN_RIGHT
        fate[nodes[rest < least]] &= OPEN_LEFT

    def _follow(self, step: GrowthStep, left: NDArray[np.int64]) -> None:
        """Note new leaves and decreases; keep sums and tried columns of the nodes open now."""
        n_open, named = len(step.source), (step.before.tree, step.before.node)
        before = (self._sums, self._tried, self.rules.features_per_node, self._decrease)
        sums, self._tried, decrease, tree, node = divide_sums(
            before, left, named, step.left_child, step.fate, n_open
        )
        self.leaves.add(tree, node, sums[n_open:])
        self._sums = sums[:n_open]
        self._decrease_by_step.append(decrease)

    def flat_decrease(self) -> NDArray[np.float64]:
        """Return the weighted impurity decrease of every node, flat, zero at leaves."""
        return self.structure.flat_values(self._decrease_by_step)

    def _close_roots(self) -> GrowthStep:
        """Close roots that are leaves from the start: pure, too small, or depth zero."""
        roots = np.arange(len(self._sums))
        fate = np.zeros(len(roots), np.uint8)
        # a root is judged like a left child that took everything
        self._judge(self._sums, roots, np.full(len(roots), -1, np.int32), fate)
        fate = np.where(fate & OPEN_LEFT, STAYS, 0).astype(np.uint8)
        step = self.structure.advance(np.zeros(len(roots), np.bool_), fate)
        self._follow(step, self._sums[:0])
        self.forget_tries()
        return step
