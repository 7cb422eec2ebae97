"""Finished trees, prepared for rows that go down them over several owners of splits.

`OwnRoutes` is what an owner of splits must know of the trees, `OwnerRoutes` what the coordinator of
a prediction must know; both are prepared once for many predictions, in one process around the same
`FlatTrees`, which then come into the processor's cache once. Nodes are numbered flat over all
trees.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.prediction.agreement import list_own_bits
from fedforest.kernels.prediction.leap import (
    LEAP,
    Blocks,
    OwnerSlots,
    OwnSlots,
    list_blocks,
    list_own_slots,
    list_owner_slots,
)
from fedforest.kernels.prediction.lookahead import OwnSplits
from fedforest.kernels.prediction.slots import PLACES, VECTOR_LANES
from fedforest.kernels.prediction.stepping import (
    OwnSteps,
    count_inner_nodes,
    write_own_steps,
    write_owner_steps,
)
from fedforest.kernels.prediction.sweep import (
    UpperNodes,
    UpperSplits,
    list_upper_nodes,
    list_upper_splits,
)
from fedforest.tree.forest.forest import LEAF, Shape
from fedforest.tree.forest.partial import ForestOutline, PartialForest


@dataclass(frozen=True, slots=True, eq=False)
class FlatTrees:
    """The shape of trees, which every role knows, and what follows from it alone."""

    tree_start: NDArray[np.int64]
    left_child: NDArray[np.int32]  # LEAF at leaves
    depth: int
    _blocks: dict[int, Blocks] = field(default_factory=dict)
    _upper: dict[int, UpperNodes] = field(default_factory=dict)

    @classmethod
    def of(cls, shape: Shape) -> "FlatTrees":
        """Number the nodes of all trees."""
        base = np.repeat(shape.tree_start[:-1], np.diff(shape.tree_start))
        left_child = np.where(shape.left_child == LEAF, LEAF, shape.left_child + base)
        depth = int(shape.depths().max(initial=0))
        return cls(shape.tree_start, left_child.astype(np.int32), depth)

    def blocks_from(self, level: int) -> Blocks:
        """Blocks that begin at a level, and every fourth below; prepared when first asked for."""
        if level % LEAP not in self._blocks:
            self._blocks[level % LEAP] = list_blocks(self.left_child, level)
        return self._blocks[level % LEAP]

    def upper(self, n_levels: int) -> UpperNodes:
        """Return the nodes of the first levels; prepared when first asked for."""
        if n_levels not in self._upper:
            self._upper[n_levels] = list_upper_nodes(self.left_child, self.tree_start, n_levels)
        return self._upper[n_levels]


class _Routes:
    """The shape of the trees, common to both kinds of routes."""

    __slots__ = ()

    trees: FlatTrees

    @property
    def left_child(self) -> NDArray[np.int32]:
        """Flat, LEAF at leaves."""
        return self.trees.left_child

    @property
    def tree_start(self) -> NDArray[np.int64]:
        """The root of each tree; the last element counts all nodes."""
        return self.trees.tree_start

    @property
    def depth(self) -> int:
        """Levels of splits."""
        return self.trees.depth

    @property
    def n_trees(self) -> int:
        """Trees."""
        return len(self.tree_start) - 1


@dataclass(frozen=True, slots=True, eq=False)
class OwnRoutes(_Routes):
    """The trees as one owner of splits sees them."""

    trees: FlatTrees
    splits: OwnSplits
    steps: OwnSteps
    own_per_tree: NDArray[np.int64]
    _slots: dict[int, OwnSlots] = field(default_factory=dict)
    _upper: dict[int, UpperSplits] = field(default_factory=dict)
    _own_bits: dict[int, NDArray[np.uint16]] = field(default_factory=dict)

    @classmethod
    def of(cls, partial: PartialForest, trees: FlatTrees | None = None) -> "OwnRoutes":
        """Prepare a partial forest; `trees`, if given, have its shape."""
        splits, trees = partial.splits, trees or FlatTrees.of(partial.shape)
        left_child = trees.left_child
        own = OwnSplits(
            left_child,
            splits.feature,
            splits.cut,
            splits.missing_left,
            splits.set_index,
            splits.left_set,
        )
        steps = write_own_steps(left_child, splits.feature, splits.cut, splits.missing_left)
        own_steps = OwnSteps(steps, splits.set_index, splits.left_set)
        return cls(trees, own, own_steps, partial.own_per_tree())

    def leaps_from(self, level: int) -> tuple[Blocks, OwnSlots]:
        """Blocks that begin at a level, and every fourth below, with the owner's slots."""
        blocks = self.trees.blocks_from(level)
        if level % LEAP not in self._slots:
            column = self._room_for_columns(len(blocks.root))
            last_lane = self.n_lanes - 1
            self._slots[level % LEAP] = list_own_slots(blocks, self.splits, last_lane, column)
        return blocks, self._slots[level % LEAP]

    def own_bits_from(self, level: int) -> NDArray[np.uint16]:
        """Return, for each block of `leaps_from`, a bit for each slot that the owner splits."""
        if level % LEAP not in self._own_bits:
            blocks, feature = self.trees.blocks_from(level), self.splits.feature
            self._own_bits[level % LEAP] = list_own_bits(self.left_child, feature, blocks.root)
        return self._own_bits[level % LEAP]

    def upper(self, n_levels: int) -> tuple[UpperNodes, UpperSplits]:
        """Return the nodes of the first levels, and the owner's splits among them."""
        nodes = self.trees.upper(n_levels)
        if n_levels not in self._upper:
            self._upper[n_levels] = list_upper_splits(nodes, self.splits)
        return nodes, self._upper[n_levels]

    @property
    def n_lanes(self) -> int:
        """Return how many lanes rows need for `OwnSlots`; the last is without a column."""
        return max(VECTOR_LANES, 2 + int(self.splits.feature.max(initial=0)))

    def _room_for_columns(self, n_blocks: int) -> NDArray[np.unsignedinteger]:
        """Return zeros for column numbers; empty if cards hold the columns themselves."""
        if self.n_lanes == VECTOR_LANES:
            return np.zeros(0, np.uint8)
        return np.zeros(n_blocks * PLACES, np.uint16 if self.n_lanes <= 2**16 else np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class OwnerRoutes(_Routes):
    """The trees as the coordinator of a prediction sees them: the owner of each node."""

    trees: FlatTrees
    owner: NDArray[np.int32]  # per node: position in `owners`; -1 at leaves
    owners: NDArray[np.int64]  # the numbers of owners that split anything
    steps: NDArray[np.uint64]
    inner_per_level: NDArray[np.int64]  # of all trees
    _slots: dict[int, OwnerSlots] = field(default_factory=dict)

    @classmethod
    def of(cls, outline: ForestOutline, trees: FlatTrees | None = None) -> "OwnerRoutes":
        """Prepare the coordinator's outline; `trees`, if given, have its shape."""
        trees = trees or FlatTrees.of(outline.shape)
        is_owner = np.bincount(outline.owner + 1, minlength=1)[1:] > 0
        position = np.concatenate([[-1], np.cumsum(is_owner) - 1]).astype(np.int32)
        owner = position[outline.owner + 1]
        return cls(
            trees,
            owner,
            np.flatnonzero(is_owner),
            write_owner_steps(trees.left_child, owner),
            count_inner_nodes(trees.left_child, trees.depth),
        )

    def leaps_from(self, level: int) -> tuple[Blocks, OwnerSlots]:
        """Blocks that begin at a level, and every fourth below, with each owner's slots."""
        blocks = self.trees.blocks_from(level)
        if level % LEAP not in self._slots:
            self._slots[level % LEAP] = list_owner_slots(
                self.left_child, self.owner, blocks, len(self.owners)
            )
        return blocks, self._slots[level % LEAP]

    def upper(self, n_levels: int) -> UpperNodes:
        """Return the nodes of the first levels."""
        return self.trees.upper(n_levels)
