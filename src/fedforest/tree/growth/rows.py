"""The rows in each open node of each tree, for one batch of trees.

Two row orders are kept: the rows a tree trains on, and, when asked for, the rows it left out, which
are routed along so that they can vote. Both move by the same bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.moves import place_children
from fedforest.kernels.growth.partition import (
    count_left,
    move_rows,
    place_bits,
    place_split_bits,
    plan_move,
)
from fedforest.kernels.growth.sampling import (
    choose_rows,
    count_draws,
    count_draws_within,
    write_entries,
    write_left_out,
)
from fedforest.kernels.layout import MULTIPLICITY_BITS, RowOrder
from fedforest.tree.growth.structure import GrowthStep
from fedforest.tree.table.pieces import Allocate
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import Workers

Counts = NDArray[np.uint8]  # how often a tree draws each row
Nodes = tuple[int, int]  # consecutive open nodes, the last one excluded

ROWS_WORTH_A_NODE = 16  # the cost of starting a node, in rows, when work is divided


@dataclass(frozen=True, slots=True)
class Sampling:
    """The way each tree draws its rows."""

    bootstrap: bool  # with replacement
    n_draws: int


class NodeMoves(NamedTuple):
    """The moves of some open nodes: what becomes of each, and where its bits start."""

    fate: NDArray[np.uint8]
    left_rows: NDArray[np.int64]
    offsets: NDArray[np.int64]
    n_open: int  # nodes that they leave open


class RowSpan(NamedTuple):
    """The consecutive rows of a table that are here."""

    first: int
    n_table: int  # rows of the whole table
    takes_all: NDArray[np.bool_]  # trees that drew no row with weight anywhere in the table


class NodeRows:
    """A row order with its node ranges, moved from step to step between two buffers."""

    def __init__(
        self,
        entries: NDArray[np.unsignedinteger],
        row_bits: int,
        sizes: list[int],
        allocate: Allocate = np.empty,
    ):
        ends = np.cumsum(np.array(sizes, np.int64))
        self.order = RowOrder(entries, np.uint64(row_bits), ends - np.array(sizes), ends)
        self._allocate = allocate
        self._spare = entries[:0]  # made when rows move first, as large as they need
        self._ranges: tuple[int, list[tuple[int, int]]] = (0, [])  # for how many workers

    @classmethod
    def at(cls, order: RowOrder, allocate: Allocate = np.empty) -> Self:
        """Make node rows from an order whose nodes may lie anywhere, in ascending places."""
        rows = cls(order.entries, int(order.row_bits), [], allocate)
        rows.order = order
        return rows

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows per open node."""
        return self.order.stop - self.order.start

    def ranges(self, workers: Workers) -> list[tuple[int, int]]:
        """Divide the open nodes into ranges of about equal work, the same all through a step."""
        if workers.count == 1:
            return [(0, len(self.order.start))]
        if self._ranges[0] != workers.count:
            self._ranges = (workers.count, workers.ranges(self.sizes + ROWS_WORTH_A_NODE))
        return self._ranges[1]

    def ranges_of(self, nodes: NDArray[np.int64], workers: Workers) -> list[tuple[int, int]]:
        """Return those ranges as positions in a list of open nodes, usually ascending."""
        if workers.count == 1:
            return [(0, len(nodes))]
        ends = [last for _, last in self.ranges(workers)]
        return list(pairwise(sorted({0, *np.searchsorted(nodes, ends).tolist()})))

    def bit_offsets(self, is_split: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the byte at which each split node's bits start, and last the number of bytes."""
        offsets: NDArray[np.int64] = place_split_bits(self.order.start, self.order.stop, is_split)
        return offsets

    def bit_offsets_of(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `bit_offsets` for a list of split nodes, in their order."""
        offsets: NDArray[np.int64] = place_bits(self.order.start, self.order.stop, nodes)
        return offsets

    def count_left(
        self,
        is_split: NDArray[np.bool_],
        bits: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        workers: Workers,
    ) -> NDArray[np.int64]:
        """Count the rows that go left, per open node (zero where it is not split)."""
        left = np.zeros(len(is_split), np.int64)

        def count(nodes: tuple[int, int]) -> None:
            count_left(self.order, is_split, offsets, bits, left, *nodes)

        workers.run(count, self.ranges(workers))
        return left

    def move(
        self,
        step: GrowthStep,
        bits: NDArray[np.uint8],
        left_rows: NDArray[np.int64],
        workers: Workers,
        offsets: NDArray[np.int64] | None = None,
    ) -> None:
        """Move the rows of open children together; rows of closed nodes drop out.

        The bits of open node k start at byte offsets[k]; without offsets they lie in node order.
        """
        offsets = self.bit_offsets(step.is_split) if offsets is None else offsets
        moves = NodeMoves(step.fate, left_rows, offsets, len(step.source))
        self.follow(moves, bits, workers)

    def follow(self, moves: "NodeMoves", bits: NDArray[np.uint8], workers: Workers) -> None:
        """Move the rows of open children together, as `move` does."""
        order, (fate, left_rows, offsets, n_open) = self.order, moves
        places, start, stop = plan_move(order.start, order.stop, fate, left_rows, n_open)
        target = self._take_spare(int(stop[-1]) if len(stop) else 0)

        def move(nodes: tuple[int, int]) -> None:
            move_rows(order, target, fate, offsets, bits, left_rows, places, *nodes)

        workers.run(move, self.ranges(workers))
        self._spare = order.entries
        self._ranges = (0, [])
        self.order = RowOrder(target, order.row_bits, start, stop)

    def _take_spare(self, n_entries: int) -> NDArray[np.unsignedinteger]:
        """Return the other buffer, with room for `n_entries`."""
        if len(self._spare) < n_entries:
            self._spare = self._allocate((n_entries,), self.order.entries.dtype)
        return self._spare

    def move_within(
        self,
        step: GrowthStep,
        write: Callable[[NDArray[np.unsignedinteger], NDArray[np.int64], Nodes], None],
        workers: Workers,
    ) -> None:
        """Move rows inside the range of their node, where the left child's come first.

        `write` puts the rows of some nodes into another row order and notes how many go left.
        """
        order, target = self.order, self._take_spare(len(self.order.entries))
        left_rows = np.zeros(len(order.start), np.int64)
        workers.run(lambda nodes: write(target, left_rows, nodes), self.ranges(workers))
        n_open = len(step.source)
        start, stop = place_children(order.start, order.stop, step.fate, left_rows, n_open)
        self._spare = order.entries
        self._ranges = (0, [])
        self.order = RowOrder(target, order.row_bits, start, stop)


def bits_for_rows(n_rows: int) -> int:
    """Return how many bits of an entry hold the row index."""
    return max(1, int(n_rows - 1).bit_length())


def entry_type(n_rows: int, n_classes: int) -> type[np.unsignedinteger]:
    """Return the narrowest entry that holds row, multiplicity and class."""
    class_bits = max(0, int(n_classes - 1)).bit_length()
    needed = bits_for_rows(n_rows) + MULTIPLICITY_BITS + class_bits
    return np.uint32 if needed <= 32 else np.uint64


def draw_rows(  # noqa: PLR0913 - the last two have defaults
    tree_seeds: NDArray[np.uint64],
    targets: TrainingTargets,
    sampling: Sampling,
    workers: Workers,
    *,
    with_left_out: bool = False,
    allocate: Allocate = np.empty,
    span: RowSpan | None = None,
) -> tuple[NodeRows, NodeRows | None]:
    """Draw the row order at the roots of a batch of trees, and that of the rows left out.

    `span`: the targets are of these rows of a larger table.
    """
    classes, allowed = targets.classes, targets.allowed
    n_rows, n_trees = targets.n_rows, len(tree_seeds)
    row_bits = np.uint64(bits_for_rows(n_rows))
    dtype = entry_type(n_rows, targets.kind.n_classes)
    all_allowed = bool(allowed.all())
    # every tree has room for all it may draw: gaps between trees cost less than moving rows twice
    takes_all = np.zeros(n_trees, np.bool_) if span is None else span.takes_all
    is_sample = all_allowed and not takes_all.any()
    room = 1 + (min(sampling.n_draws, n_rows) if is_sample else n_rows)
    drawn = allocate((n_trees * room,), dtype)
    left_out = allocate((n_trees * (n_rows + 1) if with_left_out else 0,), dtype)
    starts, ends = room * np.arange(n_trees), np.empty(n_trees, np.int64)
    left_starts, left_ends = (n_rows + 1) * np.arange(n_trees), np.empty(n_trees, np.int64)

    def write(tree: int, counts: Counts) -> None:
        multiplicity = counts if all_allowed else np.where(allowed, counts, np.uint8(0))
        if takes_all[tree] or (span is None and not all_allowed and not multiplicity.any()):
            multiplicity = allowed.astype(np.uint8)  # each row with weight once
        ends[tree] = write_entries(multiplicity, classes, row_bits, drawn, int(starts[tree]))
        if with_left_out:
            at = int(left_starts[tree])
            left_ends[tree] = write_left_out(multiplicity, allowed, left_out, at)

    sample = _Sample(tree_seeds, sampling, n_rows, span)
    _draw_trees(sample, write, workers)
    rows = NodeRows.at(RowOrder(drawn, row_bits, starts, ends), allocate)
    if not with_left_out:
        return rows, None
    return rows, NodeRows.at(RowOrder(left_out, row_bits, left_starts, left_ends), allocate)


class _Sample(NamedTuple):
    """The inputs that decide which rows the trees of a batch draw."""

    seeds: NDArray[np.uint64]
    sampling: Sampling
    n_rows: int
    span: RowSpan | None

    def draw(self, tree: int, counts: Counts) -> Counts:
        """Draw into `counts` how often a tree takes each row."""
        seed, n_draws = self.seeds[tree], self.sampling.n_draws
        if self.span is not None:
            self._draw_within(self.span, seed, counts)
        elif self.sampling.bootstrap:
            count_draws(seed, n_draws, counts)
        elif n_draws < self.n_rows:
            choose_rows(seed, n_draws, counts)
        else:
            counts[:] = 1
        return counts

    def _draw_within(self, span: RowSpan, seed: np.uint64, counts: Counts) -> None:
        """Draw from the whole table, and keep the rows that are here."""
        n_draws = self.sampling.n_draws
        if self.sampling.bootstrap:
            count_draws_within(seed, n_draws, span.n_table, span.first, counts)
        elif n_draws < span.n_table:
            of_table = np.empty(span.n_table, np.uint8)
            choose_rows(seed, n_draws, of_table)
            counts[:] = of_table[span.first : span.first + len(counts)]
        else:
            counts[:] = 1


def _draw_trees(sample: _Sample, write: Callable[[int, Counts], None], workers: Workers) -> None:
    """Draw and write every tree."""

    def draw(trees: tuple[int, int]) -> None:
        counts = np.empty(sample.n_rows, np.uint8)  # for one tree after the other
        for tree in range(*trees):
            write(tree, sample.draw(tree, counts))

    workers.run(draw, workers.ranges(np.full(len(sample.seeds), sample.n_rows)))
