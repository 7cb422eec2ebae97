"""The open nodes of a level and their pairs, by groups of trees with the same participants.

Questions travel per group, but nodes are worked on in the order of their trees. Both sides divide a
level once and take all groups' parts from it: one group after the other, each with a pass over all
nodes, many small groups would cost more than their nodes do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.grouping import count_before, group_nodes


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Places of nodes and pairs, those of a group together and ascending."""

    nodes: NDArray[np.int64]
    node_ends: NDArray[np.int64]  # where each group begins, and where the last one ends
    pairs: NDArray[np.int64]
    pair_ends: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        group_of_node: NDArray[np.integer[Any]],
        numbers: Sequence[int],
        node_start: NDArray[np.int64],
    ) -> "Grouping":
        """The groups of these numbers, in this order; nodes of others are left out."""
        place = np.full(1 + max(*numbers, int(group_of_node.max(initial=0))), -1, np.int64)
        place[list(numbers)] = range(len(numbers))
        return cls(*group_nodes(group_of_node, place, len(numbers), node_start))

    @property
    def n_nodes(self) -> list[int]:
        """Nodes of each group."""
        sizes: list[int] = np.diff(self.node_ends).tolist()
        return sizes

    @property
    def n_pairs(self) -> list[int]:
        """Pairs of each group."""
        sizes: list[int] = np.diff(self.pair_ends).tolist()
        return sizes

    def count_nodes(self, flags: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many nodes before each group's end are marked, of `flags` in the order of groups."""
        return cast("NDArray[np.int64]", count_before(flags, self.node_ends))

    def count_pairs(self, flags: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The same of pairs."""
        return cast("NDArray[np.int64]", count_before(flags, self.pair_ends))


def cut_at(ends: NDArray[np.int64]) -> Iterator[slice]:
    """What lies between two ends."""
    return (slice(first, last) for first, last in pairwise(ends.tolist()))
