"""The work per level of a party that holds rows of all columns, with cuts drawn between parties.

The party proposes a random point per candidate column, counts the rows on the sides of the cuts it
is asked about, and moves its rows by the chosen cuts. A node's candidate values are gathered
once, when points are proposed, and kept until its rows have moved. Nothing here knows of messages.
"""

from collections.abc import Callable, Iterator
from copy import copy

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.class_sums import add_weights
from fedforest.kernels.cuts.kept_values import (
    Kept,
    TableCells,
    find_gaps,
    gather_values,
    place_values,
    turn_values,
)
from fedforest.kernels.cuts.moves import Chosen, Marked, move_by_cuts
from fedforest.kernels.cuts.pairs import Cuts, Pairs, place_asked, take_pairs
from fedforest.kernels.cuts.points import answer_categories, draw_points
from fedforest.kernels.cuts.sides import Asked
from fedforest.kernels.cuts.sums import (
    COUNTS_PER_WORD,
    PADDING,
    add_moments,
    count_classes,
    count_responses,
)
from fedforest.kernels.cuts.tile_lanes import LANES
from fedforest.kernels.cuts.tiles import gather_tiles, place_tiles
from fedforest.kernels.cuts.whole_nodes import weigh_classes, weigh_targets
from fedforest.kernels.layout import RowOrder
from fedforest.kernels.splits.random import Values
from fedforest.tree.growth.cut_choice import SideLayout
from fedforest.tree.growth.rows import NodeRows, Nodes
from fedforest.tree.growth.split_search import SplitTable
from fedforest.tree.growth.structure import GrowthStep
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import Workers

DrawWords = Callable[[int, int], NDArray[np.uint64]]  # two per pair of the nodes first..last

MOST_PACKED = 2 * COUNTS_PER_WORD  # integers of a side; adding more as words takes longer than rows
ROWS_WORTH_A_COLUMN = 128  # rows of an average node: with fewer, they are far apart in a column
SLACK = 32  # 1/SLACK of a level's values is spare room: divided nodes leave gaps behind tiles
PAIRS_WORTH_A_TILE = 4  # pairs of an average node; with fewer, most of a vector would be empty
VALUES_OF_A_LINE = 16  # float32 values in one cache line
# Values of a small table, which fits the cache in either layout. In larger ones the layout by row
# is worth up to 9 % of a training (`benchmarks/ablations.py`).
VALUES_OF_A_CACHE = 2**17
PAIRS_DRAWN_TOGETHER = 2**15  # their random words stay in the cache
NO_PAIRS = Pairs(np.zeros(1, np.int64), np.zeros(0, np.int32))
NO_CUTS = Marked(np.zeros(0, np.float32), np.zeros(0, np.uint8))


class PointSearch:
    """Points, sums and bits of one party's rows in the open nodes.

    `pairs` are those that points were last proposed for, `asked_start` says where each node's begin
    among those that were last asked about. `layout` says what describes a side, and
    must be the same at all parties: rows are counted apart from weights if asked to, and in any
    case where this party has sample weights.
    """

    def __init__(
        self,
        columns: Values,
        targets: TrainingTargets,
        rows: NodeRows,
        workers: Workers,
        *,
        rows_apart: bool = False,
    ) -> None:
        self.columns = columns
        self.targets = targets
        self.rows = rows
        self.workers = workers
        is_weighted = len(targets.kernel.weights) > 0
        self.layout = SideLayout(targets.kind.n_classes, rows_apart or is_weighted)
        n_columns = len(columns.is_categorical)
        self._has_categories = bool(columns.is_categorical.any())
        self._may_miss = find_gaps(columns.values, columns.n_rows, n_columns)
        self._by_row: TableCells | None = None  # a second copy of the table, once it pays
        self._buffer = np.empty(0, np.float32)
        self._low_and_high = np.empty((2, 0), np.float32)
        self._marks = np.empty(0, np.uint8)
        self._kept = self._lay_out(np.zeros(1, np.uint64), self._buffer, 0)
        self._marked = NO_CUTS  # by which all rows are marked, in tiles
        self.pairs = NO_PAIRS
        self.asked_start = NO_PAIRS.node_start
        self._kept_of: NDArray[np.int64] | None = None  # `start` of the nodes they belong to

    def rows_of(self, node: int) -> NDArray[np.int64]:
        """Return the rows of an open node, each once."""
        entries, row_bits, start, stop = self.rows.order
        own = entries[start[node] : stop[node]].astype(np.int64)
        rows: NDArray[np.int64] = own & ((1 << int(row_bits)) - 1)
        return rows

    def propose(self, pairs: Pairs, draw_words: DrawWords, least_rows: int) -> NDArray[np.float32]:
        """Draw a random point per pair of open node and candidate column; NaN: the party abstains.

        `draw_words` gives random words for each pair of some nodes. The party abstains with fewer
        than `least_rows` rows that have a value: a point could reveal a single value.
        """
        columns, order, node_start = self.columns, self.rows.order, pairs.node_start
        kept = self._make_room(pairs)
        gather = gather_tiles if kept.is_tiled else gather_values
        cells = self._choose_cells(int(kept.first[-1]), pairs)
        low, high = self._make_room_for_ranges(int(node_start[-1]))
        points = np.empty(int(node_start[-1]), np.float32)

        def propose(nodes: Nodes) -> None:
            gather(cells, order, pairs, least_rows, kept, low, high, *nodes)
            for block in _blocks_of_pairs(nodes, node_start):
                own = int(node_start[block[0]]), int(node_start[block[1]])
                draw_points(low, high, draw_words(*block), points, *own)
            if self._has_categories:
                own = int(node_start[nodes[0]]), int(node_start[nodes[1]])
                is_categorical = columns.is_categorical
                answer_categories(low, high, pairs.feature, is_categorical, points, *own)

        self.workers.run(propose, self.rows.ranges(self.workers))
        self.pairs, self._kept, self._kept_of = pairs, kept, order.start
        self._marked = NO_CUTS
        return points

    def _choose_cells(self, n_values: int, pairs: Pairs) -> TableCells:
        """Return the table in the faster layout: by column, or by row where rows are far apart.

        A level reads one of the two, since both together would not stay in the cache.
        """
        values, n_rows, is_categorical = self.columns
        n_pairs, n_columns = len(pairs.feature), len(is_categorical)
        n_nodes = len(pairs.node_start) - 1
        is_sparse = n_values < ROWS_WORTH_A_COLUMN * n_pairs
        shares_lines = n_pairs * VALUES_OF_A_LINE >= n_nodes * n_columns
        if not (is_sparse and shares_lines and len(values) > VALUES_OF_A_CACHE):
            return TableCells(values, n_rows, np.uint64(1))
        if self._by_row is None:
            turned = np.empty(len(values), np.float32)
            turn_values(values, n_rows, np.uint64(n_columns), turned)
            self._by_row = TableCells(turned, np.uint64(1), np.uint64(n_columns))
        return self._by_row

    def _make_room(self, pairs: Pairs) -> Kept:
        """Make room for the values of a level; later levels need less and reuse the memory."""
        start, stop, node_start = self.rows.order.start, self.rows.order.stop, pairs.node_start
        is_tiled = self._adds_words and len(pairs.feature) >= PAIRS_WORTH_A_TILE * len(start)
        most = 0
        if is_tiled:
            first, most = place_tiles(start, stop, node_start)
        else:
            first = place_values(start, stop, node_start)
        n_values = int(first[-1]) + int(PADDING)
        if len(self._buffer) < n_values:
            self._buffer = np.empty(n_values + n_values // SLACK, np.float32)
        if not is_tiled:
            return self._lay_out(first, self._buffer, 0)
        n_tiles = -(-most // LANES)
        n_entries = len(self.rows.order.entries)
        if len(self._marks) < n_tiles * n_entries:
            self._marks = np.empty(n_tiles * n_entries, np.uint8)
        return self._lay_out(first, self._buffer, n_entries)

    def _lay_out(
        self, first: NDArray[np.uint64], values: NDArray[np.float32], per_tile: int
    ) -> Kept:
        """Arrange values in tiles of `per_tile` marks each; if that is 0, pair after pair."""
        is_tiled = per_tile > 0
        return Kept(first, values, self._may_miss, is_tiled, self._marks, np.uint64(per_tile))

    @property
    def _adds_words(self) -> bool:
        """Whether sides are added up as words, which needs values in tiles."""
        targets = self.targets.kernel
        is_packed = not len(targets.weights) and self.layout.width <= MOST_PACKED
        return targets.n_classes == 0 or is_packed

    def _make_room_for_ranges(self, n_pairs: int) -> NDArray[np.float32]:
        """Make room for the lowest and highest values of pairs, used only to draw points."""
        if self._low_and_high.shape[1] < n_pairs:
            self._low_and_high = np.empty((2, n_pairs), np.float32)
        return self._low_and_high[:, :n_pairs]

    def within(self, nodes: NDArray[np.int64]) -> "PointSearch":
        """Return a search among some of the open nodes, numbered from 0.

        Counting there takes time for these nodes only.
        """
        assert self._kept_of is self.rows.order.start, "counting follows proposing"
        entries, row_bits, start, stop = self.rows.order
        self._marked = NO_CUTS  # what is counted there marks these nodes' rows anew
        part = copy(self)
        part.rows = NodeRows.at(RowOrder(entries, row_bits, start[nodes], stop[nodes]))
        part.pairs = take_pairs(self.pairs, nodes)
        part._kept = self._kept._replace(first=self._kept.first[nodes])
        part._kept_of = part.rows.order.start
        return part

    def count(self, cuts: Cuts, *, both_sides: bool) -> NDArray[np.int64]:
        """Sum the rows left of each cut, then right of it if wanted: (asked pairs, width).

        The asked pairs are those with a threshold.
        """
        asked = self._ask(cuts)
        width = self.layout.width * (2 if both_sides else 1)
        sums = np.zeros((int(asked.asked_start[-1]), width), np.int64)
        self._add_up(asked, sums)
        return sums

    def count_with_nodes(
        self, cuts: Cuts, nodes: NDArray[np.int64], *, both_sides: bool
    ) -> NDArray[np.int64]:
        """Return the sums of `count` as a vector, followed by the sums of some open nodes."""
        asked, width = self._ask(cuts), self.layout.width
        of_cut = width * (2 if both_sides else 1)
        n_of_cuts = int(asked.asked_start[-1]) * of_cut
        together = np.zeros(n_of_cuts + len(nodes) * width, np.int64)
        self._add_up(asked, together[:n_of_cuts].reshape(-1, of_cut))
        if len(nodes):
            self._weigh(nodes, together[n_of_cuts:].reshape(-1, width))
        return together

    def node_sums(self) -> NDArray[np.int64]:
        """Return (nodes, width) sums of the open nodes themselves."""
        n_nodes = len(self.rows.order.start)
        sums = np.zeros((n_nodes, self.layout.width), np.int64)
        self._weigh(np.arange(n_nodes), sums)
        return sums

    def _weigh(self, nodes: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
        """Write the sums of some open nodes, reading each row once."""
        order, targets = self.rows.order, self.targets.kernel
        n_classes = targets.n_classes

        def weigh(part: Nodes) -> None:
            if n_classes == 0:
                weigh_targets(order, targets, nodes, sums, *part)
            else:
                weigh_classes(order, targets.weights, nodes, n_classes, sums, *part)

        self.workers.run(weigh, self.rows.ranges_of(nodes, self.workers))

    def count_bits(
        self, cuts: Cuts, responses: NDArray[np.unsignedinteger], n_bits: int
    ) -> NDArray[np.int64]:
        """Count rows by bit, and all rows; left, then right: (asked pairs, 2 * (n_bits + 1)).

        `responses` has the bits of every row of the table. A row counts once, however often drawn.
        """
        order, kept, asked = self.rows.order, self._kept, self._ask(cuts)
        n_asked, width = int(asked.asked_start[-1]), 2 * (n_bits + 1)
        sums = np.empty((n_asked, width), np.int64)

        def count(nodes: tuple[int, int]) -> None:
            count_responses(order, responses, n_bits, kept, asked, sums, *nodes)

        self.workers.run(count, self.rows.ranges(self.workers))
        return sums

    def _ask(self, cuts: Cuts) -> Asked:
        assert self._kept_of is self.rows.order.start, "counting follows proposing"
        node_start, feature = self.pairs
        assert len(cuts.threshold) == len(feature), "one cut per pair"
        if self._kept.is_tiled:
            self._marked = Marked(cuts.threshold, cuts.missing_left)
        self.asked_start = place_asked(node_start, cuts.threshold)
        return Asked(
            node_start,
            feature,
            cuts.threshold,
            cuts.missing_left,
            cuts.set_index,
            cuts.left_set,
            self.asked_start,
        )

    def _add_up(self, asked: Asked, sums: NDArray[np.int64]) -> None:
        """Add up the sides of the asked cuts: left ones, and right ones where there is room."""
        self.workers.run(self._adder(asked, sums), self.rows.ranges(self.workers))

    def _adder(self, asked: Asked, sums: NDArray[np.int64]) -> Callable[[tuple[int, int]], None]:
        """Return the function that adds up the rows of some nodes."""
        kept, order, targets = self._kept, self.rows.order, self.targets.kernel
        n_classes, width = targets.n_classes, self.layout.width

        def add(nodes: tuple[int, int]) -> None:
            if n_classes == 0:
                add_moments(order, targets, kept, asked, width, sums, *nodes)
            elif self._adds_words:
                count_classes(order, n_classes, kept, asked, width, sums, *nodes)
            else:
                add_weights(order, targets.weights, n_classes, kept, asked, width, sums, *nodes)

        return add

    def move(self, step: GrowthStep, table: SplitTable) -> None:
        """Move rows by the cuts of the split nodes; rows of closed nodes drop out."""
        is_kept = self._kept_of is self.rows.order.start
        pairs = self.pairs if is_kept else NO_PAIRS
        nodes = np.flatnonzero(step.is_split)
        chosen = Chosen(nodes, table.feature, table.cut, table.missing_left, table.left_set)
        columns, order, fate = self.columns, self.rows.order, step.fate
        kept, marked = self._kept, self._marked if is_kept else NO_CUTS

        def move(
            target: NDArray[np.unsignedinteger], left_rows: NDArray[np.int64], part: Nodes
        ) -> None:
            move_by_cuts(
                columns, order, pairs, kept, marked, chosen, fate, target, left_rows, *part
            )

        self.rows.move_within(step, move, self.workers)


def _blocks_of_pairs(nodes: Nodes, node_start: NDArray[np.int64]) -> Iterator[Nodes]:
    """Divide nodes into consecutive blocks of about PAIRS_DRAWN_TOGETHER pairs."""
    first, last = nodes
    n_pairs = int(node_start[last] - node_start[first])
    n_blocks = max(1, n_pairs // PAIRS_DRAWN_TOGETHER)
    size = max(1, -(-(last - first) // n_blocks))
    return ((start, min(start + size, last)) for start in range(first, last, size))
