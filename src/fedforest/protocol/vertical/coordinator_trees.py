"""The coordinator's part in a batch of growing trees.

It compares gains, decides, and passes bits on. Node by node it knows how many rows there are, what
their labels add up to, and who split it. Where sums are too long to travel, it follows the rows by
the bits that it passes on and adds up their labels itself.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.gains import outbid
from fedforest.kernels.layout import NO_GROUP, NO_SPLIT
from fedforest.kernels.prediction.walk import Leaves
from fedforest.protocol.asking import blame, check
from fedforest.protocol.vertical.awaited_splits import AwaitedSplits, OpenRows
from fedforest.protocol.vertical.messages import (
    ApplySplits,
    FindSplits,
    SplitsApplied,
    SplitsFound,
    TreesStarted,
)
from fedforest.protocol.vertical.moves import NodeBits
from fedforest.protocol.vertical.routed_trees import RoutedTrees
from fedforest.protocol.vertical.sums import estimate_bytes, unpack_sums
from fedforest.tree.forest.forest import Shape
from fedforest.tree.forest.partial import NOBODY, ForestOutline
from fedforest.tree.growth.decisions import ColumnBits, Growth
from fedforest.tree.growth.level_loop import GrowthPlan
from fedforest.tree.growth.row_sums import RowSums
from fedforest.tree.growth.structure import GrowthStep
from fedforest.tree.table.targets import TargetKind, rows_of
from fedforest.tree.workers import ALONE, Workers


class VerticalCoordinatorTrees(RoutedTrees):
    """Decides about a batch of trees step by step."""

    def __init__(  # noqa: PLR0913, PLR0917 - what the coordinator knows at the start of a batch
        self,
        columns_of: Mapping[str, int],
        plan: GrowthPlan,
        kind: TargetKind,
        feature_seeds: NDArray[np.uint64],
        label_party: str,
        started: TreesStarted,
        workers: Workers = ALONE,
        row_sums: RowSums | None = None,
        slot: int = 0,
    ) -> None:
        """`row_sums` are over the rows of the trees, where their sums do not travel."""
        self._plan = plan
        self.slot = slot  # among the batches that grow side by side
        self._kind = kind
        column_bits = ColumnBits.of(list(columns_of.values()))
        n_trees = len(feature_seeds)
        with blame(label_party):
            check(started.root_sums is not None, "the sums of whole trees are missing")
            check(started.root_sizes is not None, "the sizes of trees are missing")
            assert started.root_sums is not None
            assert started.root_sizes is not None
            sizes, left_out = started.root_sizes.read(2, n_trees)
            check(bool((sizes > 0).all()), "a tree has no rows")
            check(bool((left_out >= 0).all()), "a tree left out fewer than no rows")
            root_sums = unpack_sums(started.root_sums, sizes, kind)
            if row_sums is not None:
                is_true = np.array_equal(root_sums, row_sums.of_nodes())
                check(is_true, "trees do not add up to the sums of their labels")
        self._row_sums = row_sums
        self._growth = Growth(plan.rules, kind, column_bits, feature_seeds, root_sums, workers)
        sizes_left_out = left_out if plan.with_left_out else None
        super().__init__(columns_of, self._growth, sizes_left_out, workers)
        self._scores = np.zeros(0)
        self._gains: dict[str, NDArray[np.float64]] = {}  # that were read already
        self._splits: AwaitedSplits
        self._has_bits = True  # false where all children will be leaves, so that no row need move
        nobody = np.full(n_trees, NOBODY, np.int16)
        self._remember(self._growth.root_step, nobody, NodeBits(sizes), NodeBits(left_out))

    def search_requests(self, parties: Iterable[str]) -> dict[str, FindSplits]:
        """For each of some parties what the last step did, and candidates of its own columns."""
        moves, bitmap = self.tell_step(parties)
        return {p: FindSplits(moves[p], self.candidates_of(p, bitmap), self.slot) for p in moves}

    def read_gains(self, party: str, found: SplitsFound) -> None:
        """Take a party's gains, when it comes with them."""
        with blame(party):
            self._gains[party] = found.gains.read(self.n_open)

    def choose(self, found: Mapping[str, SplitsFound]) -> dict[str, ApplySplits]:
        """Give each node to the best gain; equal gains go to the first party, that is, column.

        Returns what the winners are asked. Where no bits are needed, they are not even made.
        """
        best, owner = np.full(self.n_open, NO_SPLIT), np.full(self.n_open, NOBODY, np.int16)
        for number, party in enumerate(self._parties):
            if party in found:
                if party not in self._gains:
                    self.read_gains(party, found[party])
                outbid(self._gains.pop(party), number, best, owner)
        self._scores = best
        is_split = self._growth.choose(best)
        self._has_bits = self._needs_bits(is_split)
        self._splits = AwaitedSplits(self._parties, owner, is_split, self._open_rows(), self._kind)
        flags = self._splits.flags
        return {p: ApplySplits(won, self._has_bits, self.slot) for p, won in flags.items()}

    def _needs_bits(self, is_split: NDArray[np.bool_]) -> bool:
        """At the depth limit no row moves: sums are enough, unless they are longer than bits."""
        if not self._growth.at_depth_limit:
            return True
        if self._row_sums is None or not is_split.any():
            return False
        split = self._growth.sums[is_split]
        n_bytes = int(((rows_of(split, self._kind) + 7) >> 3).sum())
        return n_bytes < estimate_bytes(split, self._kind)

    def _open_rows(self) -> OpenRows:
        sums, least = self._growth.sums, self._plan.rules.min_rows_leaf
        if self._has_bits:
            sizes = np.ascontiguousarray(rows_of(sums, self._kind))
        else:
            sizes, least = np.zeros(len(sums), np.int64), 0
        least_weight = self._growth.least_weight(sums)
        row_sums = self._row_sums if self._has_bits else None
        return OpenRows(sums, sizes, self._left_out_sizes, least, least_weight, row_sums)

    def read_splits(self, party: str, applied: SplitsApplied) -> None:
        """Take a winner's bits and sums, when it comes with them."""
        self._splits.receive(party, applied)

    def advance(self, applied: Mapping[str, SplitsApplied]) -> None:
        """Bring the winners' bits together and settle what becomes of every node."""
        splits = self._splits
        splits.complete(applied)
        self._count_step(splits.bits.smallest_side if self._has_bits else NO_GROUP)
        step = self._growth.advance(splits.is_split, self._scores, splits.left_sums)
        self._owners.append((*self._growth.structure.last_split(), splits.owner_of_split))
        self._remember(step, splits.owner, splits.bits, splits.left_out_bits)

    def _remember(
        self,
        step: GrowthStep,
        owner: NDArray[np.int16],
        bits: NodeBits,
        left_out_bits: NodeBits | None,
    ) -> None:
        super()._remember(step, owner, bits, left_out_bits)
        if self._row_sums is not None and not step.nothing_left and self._has_moved:
            rows, offsets = self._row_sums.rows, bits.offsets
            rows.move(step, bits.bits, bits.left_rows, self._workers, offsets)

    def assemble(self) -> ForestOutline:
        """Return the coordinator's partial trees of the batch, grown out."""
        growth = self._growth
        offsets = growth.structure.tree_offsets()
        parts: dict[str, Callable[[], Any]] = {
            "leaves": lambda: Leaves(*growth.leaves.assemble(offsets)),
            "shape": lambda: Shape(offsets, growth.structure.flat_children()),
            "owner": lambda: self._flat_owners(offsets),
            "decrease": growth.flat_decrease,
        }
        laid_out: dict[str, Any] = {}

        def lay_out(name: str) -> None:
            laid_out[name] = parts[name]()

        self._workers.run(lay_out, parts)
        return ForestOutline(**laid_out, n_classes=self._kind.n_classes)
