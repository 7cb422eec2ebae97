"""One party's part in a batch of growing trees.

It knows the shape of the trees, its own splits and which row is in which open node; of other
parties' splits it knows only where the rows went.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.ranges import SPARE_BYTES, locate_bits
from fedforest.kernels.growth.fate_bits import (
    BITS_PER_FATE,
    PADDED_WITH_ONES,
    RIGHT_WITHOUT_SPLIT,
)
from fedforest.kernels.growth.step_reading import (
    OWN_ASKED_AGAIN,
    OWN_NOT_SPLIT,
    list_flagged,
    read_step,
)
from fedforest.kernels.layout import NO_SPLIT
from fedforest.protocol.asking import blame, check
from fedforest.protocol.payloads import Gains, NodeSums, RowBits, from_bytes, view_bytes
from fedforest.protocol.vertical.messages import RowMoves, SplitsApplied, StartTrees
from fedforest.protocol.vertical.moves import NodeBits
from fedforest.protocol.vertical.sums import are_short, pack_sums
from fedforest.tree.forest.forest import LEAF, Shape
from fedforest.tree.forest.partial import FOREIGN, PartialForest
from fedforest.tree.growth.batches import OwnRows, TreeSample
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT
from fedforest.tree.growth.rows import NodeRows, Sampling
from fedforest.tree.growth.split_record import SplitRecord
from fedforest.tree.growth.structure import Structure
from fedforest.tree.table.targets import rows_of
from fedforest.tree.workers import Workers

MAX_ENTRIES = 2**28  # rows of all trees of a batch: what a stranger may make a party hold

_NO_BITS = np.zeros(0, np.uint8)
_NO_NODES = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class VerticalMoved:
    """Moves that were read and checked, but not made yet."""

    is_split: NDArray[np.bool_]
    fate: NDArray[np.uint8]
    n_open: int  # nodes that are open once they are made
    bits: NDArray[np.uint8]
    offsets: NDArray[np.int64]  # of a node's bits
    left_rows: NDArray[np.int64]
    routed: NodeBits | None


class SplitNodes(NamedTuple):
    """The splits of the nodes that a party won."""

    nodes: NDArray[np.int64]
    bits: NDArray[np.uint8]
    left: NDArray[np.int64]  # sums of the left children; only their rows, if not asked for
    routed: NDArray[np.uint8]  # bits of rows that trees left out


class VerticalPartyTrees:
    """A batch of growing trees at one party, step by step."""

    def __init__(
        self, own: OwnRows, start: StartTrees, workers: Workers, max_depth: int = NO_DEPTH_LIMIT
    ) -> None:
        seeds = from_bytes(start.row_seeds, "<u8", len(start.row_seeds) // 8, "row seeds")
        check(len(seeds) > 0, "a batch has no trees")
        n_entries = self.n_entries = len(seeds) * own.n_rows  # rows of all trees
        check(len(seeds) == 1 or n_entries <= MAX_ENTRIES, "a batch has too many trees")
        check(0 < start.n_draws <= own.n_rows, "more rows are to be drawn than there are")
        check(start.min_rows_leaf > 0, "leaves are to have no rows")
        share = start.min_weight_share
        check(0.0 <= share <= 0.5, "leaves are to weigh less than nothing or more than half")
        sampling = Sampling(start.bootstrap, start.n_draws)
        sample = TreeSample(seeds, sampling, start.with_left_out, start.min_rows_leaf)
        batch = own.begin(sample, workers)
        self._n_columns = len(own.is_categorical)
        self._search = batch.search
        if share:
            self._search.demand_weight(share, self._search.root_sums())
        self._min_rows_leaf, self._max_depth = start.min_rows_leaf, max_depth
        self._structure = Structure(len(seeds))
        self._splits = SplitRecord(own.is_categorical, elsewhere=FOREIGN)
        self._workers = workers
        self._kind = own.kind
        self._says_sums = are_short(own)  # beside bits
        self._routing = batch.left_out
        self._has_searched, self._has_split = False, False  # in this step
        self._begin_step()

    @property
    def routes_left_out(self) -> bool:
        """Return whether rows that trees left out are routed along."""
        return self._routing is not None

    @property
    def leaf_of_left_out(self) -> NDArray[np.int32]:
        """Return (trees, rows): the leaf of each row left out, -1 where it was trained on."""
        assert self._routing is not None
        leaf_of: NDArray[np.int32] = self._routing.leaf_of
        return leaf_of

    def root_sums(self) -> NodeSums:
        """Sum the labels of whole trees; asked for before anything moves."""
        return pack_sums(self._search.root_sums(), self._kind)

    def root_sizes(self) -> NDArray[np.int64]:
        """Return (2, trees): rows that each tree trains on and leaves out."""
        left_out = self._routing.rows.sizes if self._routing else np.zeros_like(self._rows.sizes)
        return np.stack([self._rows.sizes, left_out])

    @property
    def _rows(self) -> NodeRows:
        rows: NodeRows = self._search.rows
        return rows

    def read_candidates(
        self, candidates: memoryview, moved: VerticalMoved | None
    ) -> NDArray[np.uint8]:
        """Read the candidate columns of every node open after the moves, a bitmap row each."""
        n_open = len(self._structure.open) if moved is None else moved.n_open
        # rows of a batch that is grown are not moved on; kernels would look for splits of them all
        check(n_open > 0, "splits are asked for where no node is open")
        width = (self._n_columns + 7) >> 3
        bitmap = from_bytes(candidates, "u1", n_open * width, "candidates").reshape(n_open, width)
        spare = (8 - self._n_columns) & 7
        if spare and width:
            check(int(bitmap[:, -1].max(initial=0)) < 256 >> spare, "a candidate is no column")
        return bitmap

    def find(self, candidates: NDArray[np.uint8]) -> Gains:
        """Find the best score of every open node over own candidate columns."""
        self._has_searched = True
        return Gains.of(self._search.find(candidates, self._structure.open))

    def apply(self, won: memoryview, *, with_bits: bool) -> SplitsApplied:
        """Split the nodes this party won, as it found best."""
        says_sums = self._says_sums or not with_bits
        split = self.split(self.read_won(won), with_sums=says_sums)
        return SplitsApplied(
            pack_sums(split.left, self._kind) if says_sums else None,
            RowBits.of(split.bits if with_bits else _NO_BITS),
            RowBits.of(split.routed),
        )

    def read_won(self, won: memoryview) -> NDArray[np.int64]:
        """The open nodes that are to be split here."""
        return _read_nodes(won, len(self._structure.open))

    def split(self, nodes: NDArray[np.int64], *, with_sums: bool) -> SplitNodes:
        """Split these nodes, as was found best."""
        check(self._has_searched and not self._has_split, "splits are to be made out of turn")
        found = self._search.found
        check(bool((found.feature[nodes] >= 0).all()), "a node is to be split that has no split")
        self._has_split = True
        bits, left = self._search.split(nodes, with_sums=with_sums)
        opened = self._structure.open
        self._splits.add(opened.tree[nodes], opened.node[nodes], self._search.table(nodes))
        routed = self._search.route(self._routing.rows, nodes) if self._routing else _NO_BITS
        self._own_nodes, self._own_bits, self._own_routed = nodes, bits, routed
        self._own_left = np.ascontiguousarray(rows_of(left, self._kind))
        return SplitNodes(nodes, bits, left, routed)

    def read_moves(self, moves: RowMoves | None) -> VerticalMoved | None:
        """Read the fates of open nodes without moving rows, so that a refusal changes nothing."""
        if moves is None:
            check(not self._has_searched, "a step begins before the last one ended")
            return None
        n_nodes, sizes = len(self._structure.open), self._rows.sizes
        packed = from_bytes(moves.fates, "u1", (n_nodes * BITS_PER_FATE + 7) >> 3, "fates")
        is_split, fate = np.empty(n_nodes, np.bool_), np.empty(n_nodes, np.uint8)
        places = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)  # offsets, left rows
        own = self._own_nodes, self._own_left
        scores = self._search.found.score if self._has_searched else np.full(n_nodes, NO_SPLIT)
        outcome, moving = read_step(packed, sizes, scores, *own, is_split, fate, *places)
        check(outcome != PADDED_WITH_ONES, "fates are padded with ones")
        check(outcome != RIGHT_WITHOUT_SPLIT, "a node that was not split has a right child")
        check(outcome != OWN_NOT_SPLIT, "a node split here was not split")
        check(outcome != OWN_ASKED_AGAIN, "a node is asked about again that had a split")
        self._check_depth(is_split, fate)
        with blame("coordinator"):
            bits = self._locate(moves.bits, moving, sizes, places)
        return VerticalMoved(
            is_split, fate, outcome, bits, *places, self._read_routed(moves, is_split)
        )

    def _check_depth(self, is_split: NDArray[np.bool_], fate: NDArray[np.uint8]) -> None:
        depth = self._structure.open.depth
        if int(depth.max(initial=-1)) + 1 < self._max_depth:
            return
        deepest = int(depth[is_split & (fate > 0)].max(initial=-1)) + 1
        check(deepest < self._max_depth, "a tree is deeper than the run agreed on")

    def _locate(
        self,
        packed: RowBits,
        nodes: NDArray[np.int64],
        sizes: NDArray[np.int64],
        places: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> NDArray[np.uint8]:
        """Join own bits and, behind them, those of the nodes that others split."""
        begin, end = len(self._own_bits), len(self._own_bits) + len(packed.data)
        bits = np.empty(end + SPARE_BYTES, np.uint8)
        bits[:begin] = self._own_bits
        bits[begin:end] = view_bytes(packed.data, "u1", end - begin, "row bits")
        # no party lets its rows be told apart in smaller groups than the run's rules allow
        found = locate_bits(bits, (begin, end), nodes, sizes, self._min_rows_leaf, *places)
        check(found != -2, "row bits are padded with ones")
        check(found != -3, "a child has fewer rows than min_samples_leaf allows")
        check(found == end, "row bits are not as many as the nodes have rows")
        return bits

    def _read_routed(self, moves: RowMoves, is_split: NDArray[np.bool_]) -> NodeBits | None:
        """Read where rows go that trees left out, if they are routed along."""
        if self._routing is None:
            return None
        is_foreign = is_split.copy()
        is_foreign[self._own_nodes] = False
        theirs = ("coordinator", np.flatnonzero(is_foreign), moves.left_out_bits)
        ours = ("here", self._own_nodes, RowBits.of(self._own_routed))
        return NodeBits(self._routing.rows.sizes, [theirs, ours])

    def move(self, moved: VerticalMoved | None) -> None:
        """Move rows to the children that stay open."""
        if moved is None:
            return
        step = self._structure.advance(moved.is_split, moved.fate)
        if self._routing and moved.routed:
            self._routing.move(step, moved.routed.bits, moved.routed.offsets)
        if not step.nothing_left:
            self._rows.move(step, moved.bits, moved.left_rows, self._workers, moved.offsets)
        self._begin_step()

    def _begin_step(self) -> None:
        self._own_nodes, self._own_left = _NO_NODES, _NO_NODES
        self._own_bits, self._own_routed = _NO_BITS, _NO_BITS
        self._has_searched, self._has_split = False, False

    def shape_after(self, moved: VerticalMoved | None) -> Shape:
        """Return the shape of the trees once these moves are made, which must be the last."""
        structure = self._structure
        if moved is not None:
            structure = structure.copy()
            structure.advance(moved.is_split, moved.fate)
        check(len(structure.open) == 0, "trees are to be finished that have open nodes")
        return Shape(structure.tree_offsets(), structure.flat_children())

    def finish(self, shape: Shape) -> PartialForest:
        """Return the party's partial trees of the batch, grown out to this shape."""
        splits = self._splits.assemble(shape.tree_start)
        np.copyto(splits.feature, np.int32(LEAF), where=shape.left_child == LEAF)
        return PartialForest(shape, splits, self._n_columns)


def _read_nodes(flags: memoryview, n_nodes: int) -> NDArray[np.int64]:
    """Return the nodes whose flag is set."""
    packed = from_bytes(flags, "u1", (n_nodes + 7) >> 3, "node flags")
    nodes: NDArray[np.int64]
    nodes, is_padded = list_flagged(packed, n_nodes)
    check(bool(is_padded), "node flags are padded with ones")
    return nodes
