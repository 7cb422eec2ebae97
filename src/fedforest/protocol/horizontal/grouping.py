"""Where open nodes and their pairs lie, by groups of trees with the same participants.

Trees of a group follow each other in a batch, and nodes lie in the order of their trees. So a group
is a range of nodes and a range of pairs, on both sides: questions are cut out of a level, and sums
put back, without a look at single nodes. Many small groups cost no more than a few large ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.asking import check

Ranges = list[tuple[int, int]]  # where each group begins, and where it ends


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The ranges of some groups, in ascending order."""

    nodes: Ranges
    pairs: Ranges
    is_all: bool  # there are no other nodes

    @classmethod
    def of(
        cls,
        group_of_node: NDArray[np.integer[Any]],
        numbers: Sequence[int],
        node_start: NDArray[np.int64],
    ) -> "Grouping":
        """Of the groups by these numbers; refused where one has no nodes."""
        first = np.searchsorted(group_of_node, numbers)
        last = np.searchsorted(group_of_node, numbers, side="right")
        check(bool((first < last).all()), "a question is about trees that this party does not grow")
        check(bool((last[:-1] <= first[1:]).all()), "questions are not in the order of their trees")
        pairs = zip(node_start[first].tolist(), node_start[last].tolist(), strict=True)
        is_all = int((last - first).sum()) == len(group_of_node)
        return cls(list(zip(first.tolist(), last.tolist(), strict=True)), list(pairs), is_all)

    @property
    def n_nodes(self) -> list[int]:
        """Nodes of each group."""
        return [last - first for first, last in self.nodes]

    @property
    def n_pairs(self) -> list[int]:
        """Pairs of each group."""
        return [last - first for first, last in self.pairs]


def cut_at(ends: Sequence[int]) -> Iterator[slice]:
    """What lies between two ends."""
    return (slice(first, last) for first, last in pairwise(ends))


def ends_of(sizes: Sequence[int]) -> list[int]:
    """Where parts of these sizes, laid end to end, begin, and where the last one ends."""
    return list(accumulate(sizes, initial=0))


def count_before(flags: NDArray[np.bool_], ends: Sequence[int]) -> list[int]:
    """How many flags before each end are set; nearly always none is."""
    if not flags.any():
        return [0] * len(ends)
    before: list[int] = np.concatenate([[0], np.cumsum(flags)])[ends].tolist()
    return before


def spread(parts: NDArray[Any], ranges: Ranges, length: int, nothing: float = 0) -> NDArray[Any]:
    """What was said of groups, end to end, put where they lie; of others, nothing."""
    whole = np.full(length, nothing, parts.dtype)
    ends = ends_of([last - first for first, last in ranges])
    for (first, last), part in zip(ranges, cut_at(ends), strict=True):
        whole[first:last] = parts[part]
    return whole
