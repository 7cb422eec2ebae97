"""The coordinator's part in a batch of growing trees.

It compares gains, decides, and passes bits on. Node by node it knows how many rows there are, what
their labels add up to, and who split it.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bitsets import take_bytes
from fedforest.kernels.flat import scatter
from fedforest.kernels.gains import outbid
from fedforest.kernels.layout import NO_GROUP, NO_SPLIT
from fedforest.kernels.walk import Leaves
from fedforest.protocol.asking import blame, check
from fedforest.protocol.fates import pack_fates, pack_flags
from fedforest.protocol.payloads import Gains, RowBits
from fedforest.protocol.vertical.messages import (
    FindSplits,
    Moves,
    SplitsApplied,
    TreesStarted,
)
from fedforest.protocol.vertical.moves import NodeBits, follow_sizes
from fedforest.protocol.vertical.sums import LeftSums, unpack_sums
from fedforest.tree.forest import Shape
from fedforest.tree.grow import GrowthPlan
from fedforest.tree.growth import NODES_WORTH_A_THREAD, ColumnBits, Growth
from fedforest.tree.partial import NOBODY, ForestOutline
from fedforest.tree.structure import Step
from fedforest.tree.targets import TargetKind, rows_of
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
        self._workers = workers
        self._growth = Growth(
            plan.rules, kind, self._column_bits, feature_seeds, root_sums, workers
        )
        self._owners: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int16]]] = []
        self._owner = np.full(n_trees, NOBODY, np.int16)
        self._scores = np.zeros(0)
        self._is_split = np.zeros(n_trees, np.bool_)
        self._won: dict[str, NDArray[np.int64]] = {}  # the nodes that each winner splits
        self.n_steps = 0
        self.n_levels = 0
        self.smallest_group = NO_GROUP  # rows of a child, so far; the last level's are not told
        self._left_out_sizes = left_out if plan.with_left_out else None
        self._remember(self._growth.root_step, NodeBits(sizes), NodeBits(left_out))

    @property
    def level(self) -> int:
        """Of the deepest open nodes; others are asked about again, with further candidates."""
        return int(self._growth.structure.open.depth.max(initial=0))

    @property
    def n_open(self) -> int:
        """Open nodes of all trees."""
        return self._growth.n_open

    @property
    def is_last_level(self) -> bool:
        """Whether the children of all open nodes will be leaves, so that no row need move."""
        return self._growth.at_depth_limit

    @property
    def _helpers(self) -> Workers:
        """Who works on a level: its nodes may be too few for threads."""
        return self._workers if self.n_open >= NODES_WORTH_A_THREAD else ALONE

    def search_requests(self, parties: Iterable[str]) -> dict[str, FindSplits]:
        """For each of some parties what the last step did, and candidates of its own columns."""
        bitmap, draws = self._growth.begin_draw()
        moves: dict[str, Moves | None] = dict.fromkeys(parties)

        def tell(party: str) -> None:
            moves[party] = self.moves_for(party)

        tasks: list[Callable[[], None]] = [*draws, *(partial(tell, party) for party in moves)]
        self._helpers.run(lambda task: task(), tasks)
        return {p: FindSplits(moves[p], self._candidates_of(p, bitmap)) for p in moves}

    def _candidates_of(self, party: str, bitmap: NDArray[np.uint8]) -> memoryview:
        number, first = self._parties.index(party), self._column_bits.first_byte
        own: NDArray[np.uint8] = take_bytes(bitmap, first[number], first[number + 1])
        return own.data

    def choose(self, gains: Mapping[str, Gains]) -> None:
        """The best gain wins a node; equal gains go to the first party, that is, column."""
        n_open = self.n_open
        best = np.full(n_open, NO_SPLIT)
        owner = np.full(n_open, NOBODY, np.int16)
        for number, party in enumerate(self._parties):
            if party in gains:
                with blame(party):
                    outbid(gains[party].read(n_open), number, best, owner)
        self._is_split = self._growth.choose(best)
        owner[~self._is_split] = NOBODY
        self._scores, self._owner = best, owner
        won = {party: np.flatnonzero(owner == p) for p, party in enumerate(self._parties)}
        self._won = {party: nodes for party, nodes in won.items() if len(nodes)}

    def won_by_party(self) -> dict[str, memoryview]:
        """For every winner the nodes it is to split."""
        number_of = {party: number for number, party in enumerate(self._parties)}
        return {party: pack_flags(self._owner == number_of[party]) for party in self._won}

    def advance(self, applied: Mapping[str, SplitsApplied]) -> None:
        """Bring the winners' bits together and settle what becomes of every node."""
        growth, is_split = self._growth, self._is_split
        bits, left_out_bits = self._read_bits(applied), self._read_left_out(applied)
        least_weight = growth.least_weight(growth.sums)
        left_sums = LeftSums(self._kind, is_split, growth.sums, least_weight)

        def put(party: str) -> None:
            with blame(party):
                left_sums.put(applied[party].left_sums, self._won[party], bits.left_rows)

        self._helpers.run(put, self._won)
        if is_split.any() and not self.is_last_level:
            self.smallest_group = min(self.smallest_group, bits.smallest_side(is_split))
        self.n_steps += 1
        self.n_levels = max(self.n_levels, 1 + self.level)
        step = growth.advance(is_split, self._scores, left_sums.left)
        self._owners.append((*growth.structure.last_split(), self._owner[is_split]))
        self._remember(step, bits, left_out_bits)

    def _read_bits(self, applied: Mapping[str, SplitsApplied]) -> NodeBits:
        """Where the rows of split nodes go."""
        sizes, least = self._sizes, self._plan.rules.min_rows_leaf
        if self.is_last_level:  # bits were not asked for
            sizes, least = np.zeros_like(sizes), 0
        parts = [(party, nodes, applied[party].bits) for party, nodes in self._won.items()]
        return NodeBits(sizes, parts, least, self._helpers)

    def _read_left_out(self, applied: Mapping[str, SplitsApplied]) -> NodeBits | None:
        """Where those go that trees left out, if that was asked for."""
        parts = [(p, nodes, applied[p].left_out_bits) for p, nodes in self._won.items()]
        if self._left_out_sizes is not None:
            return NodeBits(self._left_out_sizes, parts, workers=self._helpers)
        for party, _, packed in parts:
            with blame(party):
                check(not packed.data, "row bits came of rows that nobody asked for")
        return None

    @property
    def _sizes(self) -> NDArray[np.int64]:
        """Rows of the open nodes."""
        return np.ascontiguousarray(rows_of(self._growth.sums, self._kind))

    def _remember(self, step: Step, bits: NodeBits, left_out_bits: NodeBits | None) -> None:
        self._step, self._bits, self._left_out_bits = step, bits, left_out_bits
        self._fates = pack_fates(step.is_split, step.fate)
        if self._left_out_sizes is not None and left_out_bits is not None:
            left_rows = left_out_bits.left_rows
            self._left_out_sizes = follow_sizes(self._left_out_sizes, left_rows, step)

    def moves_for(self, party: str) -> Moves | None:
        """What the last step did: fates, and the bits of nodes that others split."""
        if not self._owners and not (self._step.fate == 0).any():
            return None  # all roots stay open: nothing has moved yet
        is_foreign = self._step.is_split & (self._owner != self._parties.index(party))
        # rows of nodes whose children are both closed go nowhere
        bits = self._bits.take(np.flatnonzero(is_foreign & (self._step.fate > 0)))
        left_out = _NO_BITS
        if self._left_out_bits is not None:
            left_out = self._left_out_bits.take(np.flatnonzero(is_foreign))
        return Moves(self._fates, RowBits.of(bits), RowBits.of(left_out))

    def assemble(self) -> ForestOutline:
        """The coordinator's share of the batch, grown out."""
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
        """Who split each node of the batch."""
        owners = np.full(int(offsets[-1]), NOBODY, np.int16)
        for tree, node, owner in self._owners:
            scatter(offsets, tree, node, owner, owners)
        return owners
