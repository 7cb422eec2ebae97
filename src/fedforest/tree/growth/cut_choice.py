"""The choice of the best asked cut of each node; needs sums, never rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.scores import (
    Choice,
    Sides,
    choose_by_classes,
    choose_by_moments,
    expand_sides,
    take_sides,
)
from fedforest.kernels.layout import Rules
from fedforest.tree.workers import ALONE, Workers

CUTS_WORTH_A_THREAD = 2**18  # with fewer, all are scored before another thread is awake


@dataclass(frozen=True, slots=True)
class SideLayout:
    """The integers that describe one side of a cut: the first of those that describe a node.

    Rows are counted apart where they are not the sum of the weights: with sample weights, with rows
    drawn more than once, or where noise is added to the weights.
    """

    n_classes: int  # 0 for regression
    rows_apart: bool

    @property
    def width(self) -> int:
        """Class weights, or weight and sum; then rows, if apart."""
        return (self.n_classes or 2) + self.rows_apart

    def expand(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert (nodes, width) sides to the integers that describe nodes (see `TargetKind`).

        Whether all targets of a node are equal is not known from its sums: no side counts as pure.
        """
        expanded: NDArray[np.int64] = expand_sides(sums, self.n_classes, self.rows_apart)
        return expanded

    def take(self, sums: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Expand only the chosen sides."""
        taken: NDArray[np.int64] = take_sides(sums, chosen, self.n_classes, self.rows_apart)
        return taken


def choose_cuts(layout: SideLayout, sides: Sides, rules: Rules, workers: Workers = ALONE) -> Choice:
    """Choose the best valid cut of every node; ties go to the lowest column."""
    n_asked = np.diff(sides.asked_start)
    n_nodes = len(n_asked)
    gainless, fits = np.empty((2, n_nodes), np.bool_)
    choice = Choice(np.empty(n_nodes), np.empty(n_nodes, np.int64), gainless, fits)

    def choose(nodes: tuple[int, int]) -> None:
        if layout.n_classes:
            choose_by_classes(sides, layout.n_classes, rules, choice, *nodes)
        else:
            choose_by_moments(sides, rules, choice, *nodes)

    workers.run(choose, workers.ranges(n_asked + 1, CUTS_WORTH_A_THREAD))
    return choice
