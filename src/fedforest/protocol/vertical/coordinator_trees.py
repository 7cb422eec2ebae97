"""The coordinator's part in a batch of growing trees.

It compares gains, decides, and passes bits on. Node by node it knows how many rows there are, what
their labels add up to, and who split it. Where sums are too long to travel, it follows the rows by
the bits that it passes on and adds up their labels itself.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.bitsets import take_bytes
from fedforest.kernels.bits.ranges import list_foreign
from fedforest.kernels.growth.flat import scatter
from fedforest.kernels.growth.gains import outbid
from fedforest.kernels.layout import NO_GROUP, NO_SPLIT
from fedforest.kernels.prediction.walk import Leaves
from fedforest.protocol.asking import blame, check
from fedforest.protocol.fates import pack_fates
from fedforest.protocol.payloads import RowBits
from fedforest.protocol.vertical.awaited_splits import AwaitedSplits, OpenRows
from fedforest.protocol.vertical.messages import (
    ApplySplits,
    FindSplits,
    RowMoves,
    SplitsApplied,
    SplitsFound,
    TreesStarted,
)
from fedforest.protocol.vertical.moves import NodeBits, follow_sizes
from fedforest.protocol.vertical.sums import estimate_bytes, unpack_sums
from fedforest.tree.forest.forest import Shape
from fedforest.tree.forest.partial import NOBODY, ForestOutline
from fedforest.tree.growth.decisions import NODES_WORTH_A_THREAD, ColumnBits, Growth
from fedforest.tree.growth.level_loop import GrowthPlan
from fedforest.tree.growth.row_sums import RowSums
from fedforest.tree.growth.structure import GrowthStep
from fedforest.tree.table.targets import TargetKind, rows_of
from fedforest.tree.workers import ALONE, Workers

_NO_BITS = np.zeros(0, np.uint8)


class VerticalCoordinatorTrees:
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
    ) -> None:
        """`row_sums` are over the rows of the trees, where their sums do not travel."""
        self._parties = list(columns_of)
        self._plan = plan
        self._kind = kind
        self._column_bits = ColumnBits.of(list(columns_of.values()))
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
        self._workers = workers
        self._growth = Growth(
            plan.rules, kind, self._column_bits, feature_seeds, root_sums, workers
        )
        self._owners: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int16]]] = []
        self._scores = np.zeros(0)
        self._gains: dict[str, NDArray[np.float64]] = {}  # that were read already
        self._splits: AwaitedSplits
        self._has_bits = True  # false where all children will be leaves, so that no row need move
        self.n_steps = 0
        self.n_levels = 0
        self.smallest_group = NO_GROUP  # rows of a child, so far, where bits told of them
        self._left_out_sizes = left_out if plan.with_left_out else None
        nobody = np.full(n_trees, NOBODY, np.int16)
        self._remember(self._growth.root_step, nobody, NodeBits(sizes), NodeBits(left_out))

    @property
    def level(self) -> int:
        """Of the deepest open nodes; others are asked about again, with further candidates."""
        return int(self._growth.structure.open.depth.max(initial=0))

    @property
    def n_open(self) -> int:
        """Open nodes of all trees."""
        return self._growth.n_open

    @property
    def _helpers(self) -> Workers:
        """Return the workers for a level, whose nodes may be too few for threads."""
        return self._workers if self.n_open >= NODES_WORTH_A_THREAD else ALONE

    def search_requests(self, parties: Iterable[str]) -> dict[str, FindSplits]:
        """For each of some parties what the last step did, and candidates of its own columns."""
        bitmap, draws = self._growth.begin_draw()
        moves: dict[str, RowMoves | None] = dict.fromkeys(parties)

        def tell(party: str) -> None:
            moves[party] = self.moves_for(party)

        tasks: list[Callable[[], None]] = [*draws, *(partial(tell, party) for party in moves)]
        self._helpers.run(lambda task: task(), tasks)
        return {p: FindSplits(moves[p], self._candidates_of(p, bitmap)) for p in moves}

    def _candidates_of(self, party: str, bitmap: NDArray[np.uint8]) -> memoryview:
        number, first = self._parties.index(party), self._column_bits.first_byte
        own: NDArray[np.uint8] = take_bytes(bitmap, first[number], first[number + 1])
        return own.data

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
        return {party: ApplySplits(won, self._has_bits) for party, won in flags.items()}

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
        if self._has_bits:
            self.smallest_group = min(self.smallest_group, splits.bits.smallest_side)
        self.n_steps += 1
        self.n_levels = max(self.n_levels, 1 + self.level)
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
        self._step, self._owner = step, owner
        self._bits, self._left_out_bits = bits, left_out_bits
        self._fates = pack_fates(step.is_split, step.fate)
        if self._left_out_sizes is not None and left_out_bits is not None:
            left_rows = left_out_bits.left_rows
            self._left_out_sizes = follow_sizes(self._left_out_sizes, left_rows, step)
        if self._row_sums is not None and not step.nothing_left and self._has_moved:
            rows, offsets = self._row_sums.rows, bits.offsets
            rows.move(step, bits.bits, bits.left_rows, self._workers, offsets)

    @property
    def _has_moved(self) -> bool:
        """Whether the last step did anything: at the start, all roots may have stayed open."""
        return bool(self._owners) or bool((self._step.fate == 0).any())

    def moves_for(self, party: str) -> RowMoves | None:
        """Return the last step for a party: fates, and the bits of nodes that others split."""
        if not self._has_moved:
            return None
        number, step = self._parties.index(party), self._step
        # rows of nodes whose children are both closed go nowhere
        bits = self._bits.take(list_foreign(self._owner, number, step.fate))
        left_out = _NO_BITS
        if self._left_out_bits is not None:
            left_out = self._left_out_bits.take(list_foreign(self._owner, number, step.is_split))
        return RowMoves(self._fates, RowBits.of(bits), RowBits.of(left_out))

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

    def _flat_owners(self, offsets: NDArray[np.int64]) -> NDArray[np.int16]:
        """Return the owner of each node of the batch."""
        owners = np.full(int(offsets[-1]), NOBODY, np.int16)
        for tree, node, owner in self._owners:
            scatter(offsets, tree, node, owner, owners)
        return owners
