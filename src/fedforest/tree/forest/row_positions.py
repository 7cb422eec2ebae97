"""The position of a block of rows in every tree; the turns of the rows tell where they go."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.prediction.leap import LEAP, Blocks
from fedforest.kernels.prediction.lookahead import follow_turns
from fedforest.kernels.prediction.positions import (
    Standing,
    land_from_places,
    land_from_roots,
    rename_places,
)
from fedforest.kernels.prediction.stepping import take_step
from fedforest.tree.forest.routes import OwnRoutes
from fedforest.tree.workers import Workers

WORD_ROWS = 64  # turns are told in words
LEAPS_OF_A_ROW = 16  # rows that leap in the time in which training looks at one

Trees = tuple[int, int]


class Underway:
    """The rows that have not reached a leaf, at nodes or, where `blocks` are given, at blocks."""

    def __init__(self, n_trees: int, rows: range, workers: Workers) -> None:
        size, start = n_trees * len(rows), len(rows) * np.arange(n_trees)
        self._all_rows = rows
        self._workers = workers
        self.blocks: Blocks | None = None
        self.standing, self._spare = (
            Standing(np.empty(size, np.uint32), np.empty(size, np.int32), start, count)
            for count in np.zeros((2, n_trees), np.int64)
        )

    @property
    def n_active(self) -> int:
        """Rows on their way, over all trees."""
        return int(self.standing.counts.sum())

    def set_out(self, tree_start: NDArray[np.int64], left_child: NDArray[np.int32]) -> None:
        """Put all rows at the roots; trees of a single leaf have no rows on their way."""
        rows, place, _, count = self.standing
        roots, n_rows = tree_start[:-1], len(self._all_rows)
        numbers = np.arange(self._all_rows.start, self._all_rows.stop, dtype=np.uint32)
        rows[:] = np.tile(numbers, len(roots))
        place[:] = np.repeat(roots, n_rows)
        count[:] = np.where(left_child[roots] >= 0, n_rows, 0)
        self.blocks = None

    def ranges(self) -> list[Trees]:
        """Divide the trees into consecutive ranges of about equal work."""
        return self._workers.ranges(self.standing.counts + 1)

    def leap_ranges(self) -> list[Trees]:
        """Divide the trees for leaps, which are so fast that few rows are not worth a thread."""
        return self._workers.ranges(self.standing.counts // LEAPS_OF_A_ROW + 1)

    def starts(self) -> NDArray[np.int64]:
        """Return where each tree's rows start, laid end to end; the last entry counts all rows."""
        return np.concatenate([[0], np.cumsum(self.standing.counts)])

    def turn_starts(self, n_levels: int) -> NDArray[np.int64]:
        """Return where the words of each tree's turns start; the last element counts all words."""
        words = n_levels * ((self.standing.counts + WORD_ROWS - 1) // WORD_ROWS)
        return np.concatenate([[0], np.cumsum(words)])

    def stand_at_nodes(self) -> None:
        """Convert places from blocks to nodes."""
        if self.blocks is not None:
            rename_places(self.standing, self.blocks.root)
            self.blocks = None

    def stand_at(self, blocks: Blocks) -> None:
        """Convert places to blocks; all rows must stand at the root of one of them."""
        if self.blocks is not blocks:
            self.stand_at_nodes()
            rename_places(self.standing, blocks.block_of)
            self.blocks = blocks

    def land(
        self,
        landing: NDArray[np.int32],
        turns: NDArray[np.uint64],
        blocks: Blocks | None,
        settle: Callable[[Trees], object] | None = None,
    ) -> bool:
        """Move rows from the roots along turns (trees, levels, words) to nodes, or to blocks.

        Returns False and moves no row if a turn is invalid. `settle`, if given, writes the turns
        of some trees before their rows move.
        """
        rows, places = self._all_rows, landing
        if blocks is not None:
            places = np.where(landing >= 0, blocks.block_of[np.maximum(landing, 0)], landing)

        def land(target: Standing, trees: Trees) -> bool:
            if settle is not None:
                settle(trees)
            return bool(land_from_roots(turns, places, rows.start, len(rows), target, *trees))

        everywhere = self._workers.ranges(np.full(len(landing), len(rows)))
        has_landed = self.move(land, everywhere)
        self.blocks = blocks if has_landed else self.blocks
        return has_landed

    def leap(self, turns: NDArray[np.uint64]) -> bool:
        """Move rows from blocks along four turns; return False, moving none, if one is invalid."""
        assert self.blocks is not None
        landing, starts = self.blocks.landing, self.turn_starts(LEAP)

        def land(target: Standing, trees: Trees) -> bool:
            source = self.standing
            return bool(land_from_places(turns, starts, LEAP, landing, source, target, *trees))

        return self.move(land, self.leap_ranges())

    def follow(self, routes: OwnRoutes, turns: NDArray[np.uint64], n_levels: int) -> None:
        """Move rows from nodes along `n_levels` turns."""
        starts = self.turn_starts(n_levels)

        def follow(target: Standing, trees: Trees) -> bool:
            if n_levels == 1:
                take_step(routes.steps.steps, turns, starts, self.standing, target, *trees)
            else:
                left_child = routes.left_child
                follow_turns(left_child, turns, starts, n_levels, self.standing, target, *trees)
            return True

        self.move(follow)

    def move(
        self, go: Callable[[Standing, Trees], bool], ranges: list[Trees] | None = None
    ) -> bool:
        """Let `go` write the new places; keep the old ones if any call returns False."""
        succeeded = []
        self._workers.run(
            lambda trees: succeeded.append(go(self._spare, trees)), ranges or self.ranges()
        )
        if all(succeeded):
            self.standing, self._spare = self._spare, self.standing
        return all(succeeded)
