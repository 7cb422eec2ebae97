"""One party's part in a batch of growing trees.

It knows the shape of the trees, its own splits and which row is in which open node; of other
parties' splits it knows only where the rows went.
"""

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import Columns
from fedforest.protocol.asking import check
from fedforest.protocol.payloads import Gains, NodeSums, RowBits, from_bytes
from fedforest.protocol.vertical.messages import Moves, SplitsApplied, StartTrees
from fedforest.protocol.vertical.moves import bring_together, unpack_fates, unpack_flags
from fedforest.tree.forest import LEAF, Shape
from fedforest.tree.left_out import LeftOutRows
from fedforest.tree.partial import FOREIGN, PartialForest
from fedforest.tree.rows import NodeRows, Sampling, draw_rows
from fedforest.tree.search import ColumnSearch
from fedforest.tree.split_record import SplitRecord
from fedforest.tree.structure import Structure
from fedforest.tree.targets import TargetKind, TrainingTargets
from fedforest.tree.workers import Workers

_NO_BITS = np.zeros(0, np.uint8)
_NO_NODES = np.zeros(0, np.int64)


class PartyTrees:
    """Follows a batch of trees step by step."""

    def __init__(
        self, columns: Columns, targets: TrainingTargets, start: StartTrees, workers: Workers
    ) -> None:
        seeds = from_bytes(start.row_seeds, "<u8", len(start.row_seeds) // 8, "row seeds")
        check(len(seeds) > 0, "a batch has no trees")
        check(0 < start.n_draws <= targets.n_rows, "more rows are to be drawn than there are")
        sampling = Sampling(start.bootstrap, start.n_draws)
        rows, left_out = draw_rows(
            seeds, targets, sampling, workers, with_left_out=start.with_left_out
        )
        self._n_columns = len(columns.n_bins)
        self._search = ColumnSearch(columns, targets, rows, start.min_rows_leaf, workers)
        self._structure = Structure(len(seeds))
        self._splits = SplitRecord(columns.is_categorical, elsewhere=FOREIGN)
        self._workers = workers
        self._kind = targets.kind
        self._routing: LeftOutRows | None = None
        if left_out is not None:
            self._routing = LeftOutRows(left_out, len(seeds), targets.n_rows, workers)
        self._forget_own_bits()

    @property
    def leaf_of_left_out(self) -> NDArray[np.int32]:
        """(trees, rows): the leaf of each row a tree left out, -1 where it was trained on."""
        check(self._routing is not None, "no rows were left out")
        assert self._routing is not None
        return self._routing.leaf_of

    def root_sums(self) -> NodeSums:
        """What the labels of whole trees add up to; asked for before anything moves."""
        return pack_sums(self._search.root_sums(), self._kind)

    def root_sizes(self) -> NDArray[np.int64]:
        """(2, trees): rows that each tree trains on and leaves out."""
        left_out = self._routing.rows.sizes if self._routing else np.zeros_like(self._rows.sizes)
        return np.stack([self._rows.sizes, left_out])

    @property
    def _rows(self) -> NodeRows:
        return self._search.rows

    def find(self, candidates: memoryview) -> Gains:
        """The best score of every open node over own candidate columns."""
        n_open, width = len(self._structure.open), (self._n_columns + 7) >> 3
        bitmap = from_bytes(candidates, "u1", n_open * width, "candidates").reshape(n_open, width)
        spare = (8 - self._n_columns) & 7
        if spare and width:
            check(int(bitmap[:, -1].max(initial=0)) < 256 >> spare, "a candidate is no column")
        return Gains.of(self._search.find(bitmap, self._structure.open))

    def apply(self, won: memoryview, *, with_bits: bool) -> SplitsApplied:
        """Split the nodes this party won, as it found best."""
        nodes = np.flatnonzero(unpack_flags(won, len(self._structure.open)))
        found = self._search.found
        check(
            len(found.feature) == len(self._structure.open)
            and bool((found.feature[nodes] >= 0).all()),
            "a node is to be split that has no split",
        )
        bits, left = self._search.split(nodes)
        opened = self._structure.open
        self._splits.add(opened.tree[nodes], opened.node[nodes], self._search.table(nodes))
        routed = self._search.route(self._routing.rows, nodes) if self._routing else _NO_BITS
        self._own_nodes, self._own_bits, self._own_routed = nodes, bits, routed
        return SplitsApplied(
            pack_sums(left, self._kind),
            RowBits.of(bits if with_bits else _NO_BITS),
            RowBits.of(routed),
        )

    def follow(self, moves: Moves) -> None:
        """Move rows to the children that stay open."""
        n_open = len(self._structure.open)
        is_split, fate = unpack_fates(moves.fates, n_open)
        check(bool(is_split[self._own_nodes].all()), "a node split here was not split")
        is_foreign = is_split.copy()
        is_foreign[self._own_nodes] = False
        others = np.flatnonzero(is_foreign)
        is_last = not fate.any()
        bits, left_rows = _NO_BITS, np.zeros(n_open, np.int64)
        if not is_last:
            sizes = self._rows.sizes
            bits, left_rows = self._gather(is_split, sizes, others, moves.bits, self._own_bits)
        if self._routing:
            sizes = self._routing.rows.sizes
            routed, _ = self._gather(is_split, sizes, others, moves.left_out_bits, self._own_routed)
        step = self._structure.advance(is_split, fate)
        if self._routing:
            self._routing.move(step, routed)
        if not step.nothing_left:
            self._rows.move(step, bits, left_rows, self._workers)
        self._forget_own_bits()

    def _gather(
        self,
        is_split: NDArray[np.bool_],
        sizes: NDArray[np.int64],
        others: NDArray[np.int64],
        others_bits: RowBits,
        own_bits: NDArray[np.uint8],
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bits of all split nodes in node order, and how many rows of each go left."""
        ours = ("here", self._own_nodes, RowBits.of(own_bits))
        theirs = ("coordinator", others, others_bits)
        store, left_rows = bring_together(is_split, sizes, [theirs, ours])
        return store.bits, left_rows

    def _forget_own_bits(self) -> None:
        self._own_nodes, self._own_bits, self._own_routed = _NO_NODES, _NO_BITS, _NO_BITS

    def finish(self) -> PartialForest:
        """The party's share of the batch, grown out."""
        check(len(self._structure.open) == 0, "trees are to be finished that have open nodes")
        shape = Shape(self._structure.tree_offsets(), self._structure.flat_children())
        splits = self._splits.assemble(shape.tree_start)
        splits.feature[shape.left_child == LEAF] = LEAF
        return PartialForest(shape, splits, self._n_columns)


def pack_sums(sums: NDArray[np.int64], kind: TargetKind) -> NodeSums:
    """Sums of nodes without their rows, which follow from the bits."""
    return NodeSums.of(np.delete(sums, _rows_at(kind), axis=1))


def unpack_sums(packed: NodeSums, rows: NDArray[np.int64], kind: TargetKind) -> NDArray[np.int64]:
    """Sums of nodes with so many rows."""
    sums = packed.read(len(rows), kind.n_sums - 1)
    check(kind.is_regression or bool((sums >= 0).all()), "a class weight is negative")
    check(not kind.is_regression or bool((sums[:, 0] > 0).all()), "a node has no weight")
    return np.insert(sums, _rows_at(kind) if kind.is_regression else kind.n_classes, rows, axis=1)


def _rows_at(kind: TargetKind) -> int:
    return 2 if kind.is_regression else kind.n_classes
