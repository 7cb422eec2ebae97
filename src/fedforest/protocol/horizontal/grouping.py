"""Where open nodes and their pairs lie, by groups of trees with the same participants.

Trees of a group follow each other in a batch, and nodes lie in the order of their trees. So a group
is a range of nodes and a range of pairs, on both sides: questions are cut out of a level, and sums
put back, without a look at single nodes. What one party holds rows of are a few such ranges.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.asking import check

Ranges = list[tuple[int, int]]  # where each group begins, and where it ends
NO_RANGE = (-1, -1)
Starts = NDArray[np.int64]  # where each node's pairs begin, and where the last one's end


def find_ranges(flags: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
    """Where flags are set, from where to where."""
    padded = np.concatenate([[0], flags, [0]]).astype(np.int8)
    turns = np.flatnonzero(np.diff(padded)).tolist()
    return tuple(zip(turns[::2], turns[1::2], strict=True))


def begin_at(tree: NDArray[np.int32], n_trees: int) -> list[int]:
    """Where the nodes of each tree begin, and where those of the last one end."""
    starts: list[int] = np.searchsorted(tree, np.arange(n_trees + 1, dtype=tree.dtype)).tolist()
    return starts


def within(trees: Sequence[tuple[int, int]], starts: Sequence[int]) -> Ranges:
    """Where what some ranges of trees have lies, by where it begins in each tree."""
    return [(starts[first], starts[last]) for first, last in trees]


def count_in(ranges: Ranges) -> int:
    """How much lies in these ranges."""
    return sum([last - first for first, last in ranges])


def take(array: NDArray[Any], ranges: Ranges) -> NDArray[Any]:
    """What lies in these ranges, end to end."""
    if len(ranges) == 1:
        return array[slice(*ranges[0])]
    return np.concatenate([array[first:last] for first, last in ranges])


def take_bytes(data: memoryview, size: int, ranges: Ranges) -> memoryview:
    """The same of entries of this size, as bytes."""
    pieces = [data[size * first : size * last] for first, last in ranges]
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


def put(parts: NDArray[Any], ranges: Ranges, whole: NDArray[Any]) -> None:
    """The other way round: what lies end to end, put where it belongs."""
    begin = 0
    for first, last in ranges:
        whole[first:last] = parts[begin : begin + last - first]
        begin += last - first


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The ranges of some groups, in ascending order."""

    nodes: Ranges
    pairs: Ranges
    is_all: bool  # there are no other nodes

    @classmethod
    def of(
        cls, numbers: Sequence[int], nodes_of: Mapping[int, tuple[int, int]], node_start: Starts
    ) -> "Grouping":
        """Of the groups by these numbers; refused where one has no nodes."""
        nodes = [nodes_of.get(number, NO_RANGE) for number in numbers]
        check(NO_RANGE not in nodes, "a question is about trees that this party does not grow")
        check(nodes == sorted(nodes), "questions are not in the order of their trees")
        pair_at = node_start.item  # few of many: sooner one by one
        pairs = [(pair_at(first), pair_at(last)) for first, last in nodes]
        return cls(nodes, pairs, count_in(nodes) == len(node_start) - 1)

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


def cut_bytes(data: memoryview, size: int, ends: Sequence[int]) -> list[memoryview]:
    """The bytes between two ends, counted in entries of this size; nothing is copied."""
    return [data[size * first : size * last] for first, last in pairwise(ends)]


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
    put(parts, ranges, whole)
    return whole
