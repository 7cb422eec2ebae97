"""How many nodes of which sizes are open at each level of a tree that has not grown yet.

A node of m rows is split into u * m and (1 - u) * m, where u follows a Beta law; a child is a leaf
if it is too small, or if its rows agree, which m rows do with probability (1 - doubt)^(m - 1). The
two numbers of a law were fitted to counted trees. How hard real labels are to tell differs: trees
that are grown out had 0.4 to 1.4 times the planned nodes on five of the papers' tables, and a
hundredth where one column tells the label.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.tree.growth.decisions import GrowthRules

_EXACT_SIZES = 64  # rows: larger nodes are counted in steps of an eighth of an octave
_STEP = 2.0**0.125
_CUTS = 64  # points of the law that stand for all values of u
_MOST_LEVELS = 400
_HALF_A_NODE = 0.5

Vector = NDArray[np.float64]


class GrowthLaw(NamedTuple):
    """How uneven splits are, and how seldom few rows agree."""

    evenness: float  # both parameters of the Beta law; 1: any place is as likely
    doubt: float  # of a row: that its label differs from those around it


BEST_CUTS = {"classification": GrowthLaw(1.35, 0.1), "regression": GrowthLaw(2.1, 0.9)}
RANDOM_CUTS = {"classification": GrowthLaw(0.64, 0.19), "regression": GrowthLaw(0.64, 0.9)}


class TreeSizes(NamedTuple):
    """The open nodes of some trees: at each level how many there are of each size."""

    rows: Vector  # of a node, ascending
    open: NDArray[np.float64]  # (levels, sizes)
    split: NDArray[np.float64]  # of them; the others find no cut
    n_mixed: float = 0.0  # leaves whose rows do not agree: too small to be split, or at the limit

    @property
    def n_levels(self) -> int:
        """Levels with open nodes."""
        return len(self.open)

    def n_open(self) -> Vector:
        """Return the open nodes of each level."""
        return np.asarray(self.open.sum(axis=1), np.float64)

    def n_split(self) -> Vector:
        """Return the split nodes of each level."""
        return np.asarray(self.split.sum(axis=1), np.float64)

    def rows_open(self) -> Vector:
        """Return the rows in open nodes of each level."""
        return np.asarray(self.open @ self.rows, np.float64)

    def bits(self, share: float = 1.0) -> Vector:
        """Return the bytes of one bit for each row of split nodes, or for so many times the rows.

        The bits of a node start a byte.
        """
        return np.asarray(self.split @ np.ceil(self.rows * share / 8.0), np.float64)

    def largest(self) -> Vector:
        """Return the rows of the largest open node of each level."""
        enough = np.cumsum(self.open[:, ::-1], axis=1)[:, ::-1] >= _HALF_A_NODE
        last = enough.shape[1] - 1 - np.argmax(enough[:, ::-1], axis=1)
        return np.asarray(self.rows[last], np.float64)


def expect_sizes(
    n_rows: float,
    rules: GrowthRules,
    law: GrowthLaw,
    n_trees: int,
    rows_by_party: Sequence[float] = (),
) -> TreeSizes:
    """Return the expected sizes of the open nodes of `n_trees` trees of `n_rows` different rows.

    Where parties hold different rows (`rows_by_party`), a node in which no party has two rows finds
    no cut.
    """
    rows = _list_sizes(n_rows)
    least = max(1, rules.min_rows_leaf)
    children = _children(rows, law.evenness, least)
    is_mixed = 1.0 - (1.0 - law.doubt) ** (rows - 1.0)
    stays_open = is_mixed * (rows >= max(rules.min_rows_split, 2 * least))
    has_cut = _can_be_cut(rows, rows_by_party)
    counts = _put(rows, np.array([max(1.0, n_rows)]), np.array([float(n_trees)]))
    opened: list[Vector] = []
    n_mixed = 0.0
    while len(opened) < min(rules.max_depth, _MOST_LEVELS) and counts.sum() >= _HALF_A_NODE:
        opened.append(counts)
        born = (counts * has_cut) @ children
        n_mixed += float((born * (is_mixed - stays_open)).sum())
        counts = born * stays_open
    n_mixed += float(counts.sum())
    together = np.array(opened) if opened else np.zeros((0, len(rows)))
    return TreeSizes(rows, together, together * has_cut, n_mixed)


def _list_sizes(n_rows: float) -> Vector:
    sizes = [float(size) for size in range(1, _EXACT_SIZES + 1)]
    while sizes[-1] < n_rows:
        sizes.append(sizes[-1] * _STEP)
    return np.array([*sizes, sizes[-1] * _STEP])


def _children(rows: Vector, evenness: float, least: int) -> NDArray[np.float64]:
    """Return (sizes, sizes): the children of each size that a node of a size has, two in all."""
    u = (np.arange(_CUTS) + 0.5) / _CUTS
    weight = (u * (1.0 - u)) ** (evenness - 1.0)
    weight *= 2.0 / weight.sum()
    table = np.zeros((len(rows), len(rows)))
    for number in np.flatnonzero(rows >= 2 * least):
        size = rows[number]
        table[number] = _put(rows, np.clip(u * size, least, size - least), weight)
    return table


def _put(rows: Vector, values: Vector, weights: Vector) -> Vector:
    """Divide each weight between the two sizes around its value, so that rows are kept."""
    below = np.clip(np.searchsorted(rows, values, side="right") - 1, 0, len(rows) - 2)
    above = np.clip((values - rows[below]) / (rows[below + 1] - rows[below]), 0.0, 1.0)
    placed = np.zeros(len(rows))
    np.add.at(placed, below, weights * (1.0 - above))
    np.add.at(placed, below + 1, weights * above)
    return placed


def _can_be_cut(rows: Vector, rows_by_party: Sequence[float]) -> Vector:
    """Return how probably some party has two of a node's rows, for nodes of each size."""
    possible = np.ones(len(rows))
    if len(rows_by_party) < 2:
        return possible
    shares = np.array(rows_by_party, np.float64) / sum(rows_by_party)
    # each number of ways to choose m parties, times their shares: elementary symmetric polynomials
    apart = np.zeros(_EXACT_SIZES + 1)
    apart[0] = 1.0
    for share in shares:
        apart[1:] += apart[:-1] * share
    orders = np.cumprod(np.concatenate([[1.0], np.arange(1.0, _EXACT_SIZES + 1)]))
    n_small = _EXACT_SIZES
    possible[:n_small] = 1.0 - np.clip(apart * orders, 0.0, 1.0)[1 : n_small + 1]
    return possible
