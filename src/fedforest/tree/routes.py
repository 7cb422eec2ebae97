"""Finished trees, prepared for rows that go down them over several owners of splits.

`OwnRoutes` is what an owner of splits must know of the trees, `OwnerRoutes` what whoever leads the
rows must know; both are prepared once for many predictions. Nodes are numbered flat over all trees.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.leap import (
    LEAP,
    Blocks,
    OwnSlots,
    list_blocks,
    list_own_slots,
    list_owner_slots,
)
from fedforest.kernels.lookahead import OwnSplits
from fedforest.kernels.slots import PLACES, VECTOR_LANES
from fedforest.kernels.stepping import (
    OwnSteps,
    count_inner_nodes,
    write_own_steps,
    write_owner_steps,
)
from fedforest.kernels.sweep import UpperNodes, UpperSplits, list_upper_nodes, list_upper_splits
from fedforest.tree.forest import LEAF, Shape
from fedforest.tree.partial import ForestOutline, PartialForest


@dataclass(frozen=True, slots=True, eq=False)
class OwnRoutes:
    """The trees as one owner of splits sees them."""

    tree_start: NDArray[np.int64]
    splits: OwnSplits
    steps: OwnSteps
    own_per_tree: NDArray[np.int64]
    depth: int
    _leaps: dict[int, tuple[Blocks, OwnSlots]] = field(default_factory=dict)
    _upper: dict[int, tuple[UpperNodes, UpperSplits]] = field(default_factory=dict)

    @classmethod
    def of(cls, partial: PartialForest) -> "OwnRoutes":
        """Prepare an owner's share of a forest."""
        shape, splits = partial.shape, partial.splits
        depth = int(shape.depths().max(initial=0))
        left_child = _number_flat(shape)
        own = OwnSplits(
            left_child,
            splits.feature,
            splits.cut,
            splits.missing_left,
            splits.set_index,
            splits.left_set,
        )
        steps = write_own_steps(left_child, splits.feature, splits.cut, splits.missing_left)
        return cls(
            shape.tree_start,
            own,
            OwnSteps(steps, splits.set_index, splits.left_set),
            partial.own_per_tree(),
            depth,
        )

    @property
    def left_child(self) -> NDArray[np.int32]:
        """Flat, LEAF at leaves."""
        return self.splits.left_child

    @property
    def n_trees(self) -> int:
        """Trees."""
        return len(self.tree_start) - 1

    def leaps_from(self, level: int) -> tuple[Blocks, OwnSlots]:
        """Blocks that begin at a level, and every fourth below; prepared when first asked for."""
        if level % LEAP not in self._leaps:
            blocks = list_blocks(self.left_child, level)
            column = self._room_for_columns(len(blocks.root))
            slots = list_own_slots(blocks, self.splits, self.n_lanes - 1, column)
            self._leaps[level % LEAP] = blocks, slots
        return self._leaps[level % LEAP]

    def upper(self, n_levels: int) -> tuple[UpperNodes, UpperSplits]:
        """The nodes of the first levels, and the owner's splits; prepared when first asked for."""
        if n_levels not in self._upper:
            nodes = list_upper_nodes(self.left_child, self.tree_start, n_levels)
            self._upper[n_levels] = nodes, list_upper_splits(nodes, self.splits)
        return self._upper[n_levels]

    @property
    def n_lanes(self) -> int:
        """How many lanes rows need for `OwnSlots`; the last is without a column."""
        return max(VECTOR_LANES, 2 + int(self.splits.feature.max(initial=0)))

    def _room_for_columns(self, n_blocks: int) -> NDArray[np.unsignedinteger]:
        """None where cards have room themselves."""
        if self.n_lanes == VECTOR_LANES:
            return np.zeros(0, np.uint8)
        return np.zeros(n_blocks * PLACES, np.uint16 if self.n_lanes <= 2**16 else np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class OwnerRoutes:
    """The trees as whoever leads rows sees them: who split which node."""

    tree_start: NDArray[np.int64]
    left_child: NDArray[np.int32]
    owner: NDArray[np.int32]  # per node: position in `owners`; -1 at leaves
    owners: NDArray[np.int64]  # the numbers of owners that split anything
    steps: NDArray[np.uint64]
    depth: int
    inner_per_level: NDArray[np.int64]  # of all trees
    _leaps: dict[int, tuple[Blocks, NDArray[np.uint16]]] = field(default_factory=dict)
    _upper: dict[int, UpperNodes] = field(default_factory=dict)

    @classmethod
    def of(cls, outline: ForestOutline) -> "OwnerRoutes":
        """Prepare the share of whoever leads rows."""
        shape = outline.shape
        depth = int(shape.depths().max(initial=0))
        left_child = _number_flat(shape)
        is_owner = np.bincount(outline.owner + 1, minlength=1)[1:] > 0
        position = np.concatenate([[-1], np.cumsum(is_owner) - 1]).astype(np.int32)
        owner = position[outline.owner + 1]
        return cls(
            shape.tree_start,
            left_child,
            owner,
            np.flatnonzero(is_owner),
            write_owner_steps(left_child, owner),
            depth,
            count_inner_nodes(left_child, depth),
        )

    @property
    def n_trees(self) -> int:
        """Trees."""
        return len(self.tree_start) - 1

    def leaps_from(self, level: int) -> tuple[Blocks, NDArray[np.uint16]]:
        """Blocks that begin at a level, and every fourth below, with each owner's slots."""
        if level % LEAP not in self._leaps:
            blocks = list_blocks(self.left_child, level)
            slots = list_owner_slots(self.left_child, self.owner, blocks, len(self.owners))
            self._leaps[level % LEAP] = blocks, slots
        return self._leaps[level % LEAP]

    def upper(self, n_levels: int) -> UpperNodes:
        """The nodes of the first levels; prepared when first asked for."""
        if n_levels not in self._upper:
            self._upper[n_levels] = list_upper_nodes(self.left_child, self.tree_start, n_levels)
        return self._upper[n_levels]


def _number_flat(shape: Shape) -> NDArray[np.int32]:
    """Left children numbered over all trees, LEAF at leaves."""
    base = np.repeat(shape.tree_start[:-1], np.diff(shape.tree_start))
    return np.where(shape.left_child == LEAF, LEAF, shape.left_child + base).astype(np.int32)
