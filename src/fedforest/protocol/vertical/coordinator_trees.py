"""The coordinator's part in a batch of growing trees.

It compares gains, decides, and passes bits on. Node by node it knows how many rows there are, what
their labels add up to, and who split it.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import NO_SPLIT
from fedforest.kernels.walk import Leaves
from fedforest.protocol.asking import blame, check
from fedforest.protocol.fates import pack_fates, pack_flags
from fedforest.protocol.payloads import Gains, RowBits
from fedforest.protocol.vertical.messages import Moves, SplitsApplied, TreesStarted
from fedforest.protocol.vertical.moves import BitStore, bring_together, follow_sizes
from fedforest.protocol.vertical.party_trees import check_sums, unpack_sums
from fedforest.tree.forest import Shape
from fedforest.tree.grow import GrowthPlan
from fedforest.tree.growth import ColumnBits, Growth
from fedforest.tree.partial import NOBODY, ForestOutline
from fedforest.tree.structure import Step
from fedforest.tree.targets import TargetKind
from fedforest.tree.workers import ALONE, Workers

_NO_BITS = np.zeros(0, np.uint8)


class CoordinatorTrees:
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
    ) -> None:
        self._parties = list(columns_of)
        self._plan = plan
        self._kind = kind
        self._workers = workers
        self._column_bits = ColumnBits.of(list(columns_of.values()))
        n_trees = len(feature_seeds)
        with blame(label_party):
            check(started.root_sums is not None, "the sums of whole trees are missing")
            check(started.root_sizes is not None, "the sizes of trees are missing")
            assert started.root_sums is not None
            assert started.root_sizes is not None
            self._sizes, self._left_out_sizes = started.root_sizes.read(2, n_trees)
            check(bool((self._sizes > 0).all()), "a tree has no rows")
            check(bool((self._left_out_sizes >= 0).all()), "a tree left out fewer than no rows")
            root_sums = unpack_sums(started.root_sums, self._sizes, kind)
        self._growth = Growth(
            plan.rules, kind, self._column_bits, feature_seeds, root_sums, workers
        )
        self._owners: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int16]]] = []
        self._owner = np.zeros(0, np.int16)
        self._scores = np.zeros(0)
        self._is_split = np.zeros(n_trees, np.bool_)
        self.n_steps = 0
        self.n_levels = 0
        nobody = np.zeros(n_trees, np.int64)
        self._remember(self._growth.root_step, BitStore(self._is_split, self._sizes), None)
        self._follow(nobody, nobody)

    @property
    def n_open(self) -> int:
        """Open nodes of all trees."""
        return self._growth.n_open

    @property
    def is_last_level(self) -> bool:
        """Whether the children of all open nodes will be leaves, so that no row need move."""
        return self._growth.at_depth_limit

    def draw(self) -> dict[str, memoryview]:
        """For every party the candidates among its own columns."""
        bitmap = self._growth.draw()
        first = self._column_bits.first_byte
        return {
            party: np.ascontiguousarray(bitmap[:, first[p] : first[p + 1]]).reshape(-1).data
            for p, party in enumerate(self._parties)
        }

    def choose(self, gains: Mapping[str, Gains]) -> None:
        """The best gain wins a node; equal gains go to the first party, that is, column."""
        n_open = self.n_open
        best = np.full(n_open, NO_SPLIT)
        owner = np.full(n_open, NOBODY, np.int16)
        for number, party in enumerate(self._parties):
            if party in gains:
                with blame(party):
                    scores = gains[party].read(n_open)
                is_better = scores > best
                best[is_better] = scores[is_better]
                owner[is_better] = number
        self._is_split = self._growth.choose(best)
        self._scores, self._owner = best, np.where(self._is_split, owner, NOBODY).astype(np.int16)

    def won_by_party(self) -> dict[str, memoryview]:
        """For every winner the nodes it is to split."""
        present = set(np.unique(self._owner).tolist()) - {NOBODY}
        return {
            party: pack_flags(self._owner == number)
            for number, party in enumerate(self._parties)
            if number in present
        }

    def advance(self, applied: Mapping[str, SplitsApplied]) -> None:
        """Bring the winners' bits together and settle what becomes of every node."""
        is_last, n_open = self.is_last_level, self.n_open
        won = [(p, np.flatnonzero(self._owner == n)) for n, p in enumerate(self._parties)]
        won = [(party, nodes) for party, nodes in won if party in applied]
        sizes = np.zeros_like(self._sizes) if is_last else self._sizes
        bits = [(party, nodes, applied[party].bits) for party, nodes in won]
        store = bring_together(self._is_split, sizes, bits, self._workers)
        left_rows = store.left_rows
        routed = [(party, nodes, applied[party].left_out_bits) for party, nodes in won]
        left_out_store = bring_together(self._is_split, self._left_out_sizes, routed)
        sums = np.zeros((n_open, self._kind.n_sums), np.int64)
        for party, nodes in won:
            with blame(party):
                packed = applied[party].left_sums
                sums[nodes] = unpack_sums(packed, left_rows[nodes], self._kind)
                self._check_children(nodes, left_rows, is_last=is_last)
                check_sums(self._growth.sums[nodes] - sums[nodes], self._kind)
        opened, nodes = self._growth.structure.open, np.flatnonzero(self._is_split)
        self._owners.append((opened.tree[nodes], opened.node[nodes], self._owner[nodes]))
        step = self._growth.advance(self._is_split, self._scores, sums[self._is_split])
        self._remember(step, store, left_out_store)
        self._follow(left_rows, left_out_store.left_rows)
        self.n_steps += 1
        self.n_levels = max(self.n_levels, 1 + int(opened.depth.max(initial=0)))

    def _check_children(
        self, nodes: NDArray[np.int64], left_rows: NDArray[np.int64], *, is_last: bool
    ) -> None:
        """Both children of a split have the rows that the run's rules demand."""
        if not is_last:
            least, left = self._plan.rules.min_rows_leaf, left_rows[nodes]
            enough = (left >= least) & (self._sizes[nodes] - left >= least)
            check(bool(enough.all()), "a child has fewer rows than min_samples_leaf allows")

    def _remember(self, step: Step, store: BitStore, left_out_store: BitStore | None) -> None:
        self._step, self._store = step, store
        self._left_out_store = left_out_store
        self._fates = pack_fates(step.is_split, step.fate)

    def _follow(self, left_rows: NDArray[np.int64], left_out_rows: NDArray[np.int64]) -> None:
        self._sizes = follow_sizes(self._sizes, left_rows, self._step)
        self._left_out_sizes = follow_sizes(self._left_out_sizes, left_out_rows, self._step)

    def moves_for(self, party: str) -> Moves | None:
        """What the last step did: fates, and the bits of nodes that others split."""
        if not self._owners and not (self._step.fate == 0).any():
            return None  # all roots stay open: nothing has moved yet
        number = self._parties.index(party)
        is_foreign = self._step.is_split.copy()
        if self._owners:
            is_foreign &= self._owner != number
        # rows of nodes whose children are both closed go nowhere
        bits = self._store.take(np.flatnonzero(is_foreign & (self._step.fate > 0)))
        nodes = np.flatnonzero(is_foreign)
        left_out = self._left_out_store.take(nodes) if self._left_out_store else _NO_BITS
        return Moves(self._fates, RowBits.of(bits), RowBits.of(left_out))

    def assemble(self) -> ForestOutline:
        """The coordinator's share of the batch, grown out."""
        growth = self._growth
        offsets = growth.structure.tree_offsets()
        shape = Shape(offsets, growth.structure.flat_children())
        owner = np.full(shape.n_nodes, NOBODY, np.int16)
        for tree, node, number in self._owners:
            owner[offsets[tree] + node] = number
        leaves = Leaves(*growth.leaves.assemble(offsets))
        return ForestOutline(shape, owner, leaves, growth.flat_decrease(), self._kind.n_classes)
