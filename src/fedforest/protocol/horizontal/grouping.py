"""The places of open nodes and their pairs, by groups of trees with the same participants.

Trees of a group are consecutive in a batch, and nodes are in the order of their trees. So a group
is a range of nodes and a range of pairs, at the coordinator and at parties: a question is a slice
of a level, and no single node is looked at. A party holds rows of a few such ranges.
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
    """Return the ranges in which flags are set."""
    padded = np.concatenate([[0], flags, [0]]).astype(np.int8)
    turns = np.flatnonzero(np.diff(padded)).tolist()
    return tuple(zip(turns[::2], turns[1::2], strict=True))


def begin_at(tree: NDArray[np.int32], n_trees: int) -> list[int]:
    """Return where the nodes of each tree begin, and where those of the last one end."""
    starts: list[int] = np.searchsorted(tree, np.arange(n_trees + 1, dtype=tree.dtype)).tolist()
    return starts


def within(trees: Sequence[tuple[int, int]], starts: Sequence[int]) -> Ranges:
    """Turn ranges of trees into ranges of their entries, given where each tree's begin."""
    return [(starts[first], starts[last]) for first, last in trees]


def count_in(ranges: Ranges) -> int:
    """Count the entries of these ranges."""
    return sum([last - first for first, last in ranges])


def take(array: NDArray[Any], ranges: Ranges) -> NDArray[Any]:
    """Concatenate the entries of these ranges."""
    if len(ranges) == 1:
        return array[slice(*ranges[0])]
    return np.concatenate([array[first:last] for first, last in ranges])


def take_bytes(data: memoryview, size: int, ranges: Ranges) -> memoryview:
    """Concatenate the bytes of these ranges; each entry has `size` bytes."""
    pieces = [data[size * first : size * last] for first, last in ranges]
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


def put(parts: NDArray[Any], ranges: Ranges, whole: NDArray[Any]) -> None:
    """Copy concatenated entries back into their ranges of `whole`."""
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
        """Look up the groups with these numbers; refuse one without nodes."""
        nodes = [nodes_of.get(number, NO_RANGE) for number in numbers]
        check(NO_RANGE not in nodes, "a question is about trees that this party does not grow")
        check(nodes == sorted(nodes), "questions are not in the order of their trees")
        pair_at = node_start.item  # faster than indexing by an array for few nodes
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
    """Return the slices between consecutive ends."""
    return (slice(first, last) for first, last in pairwise(ends))


def cut_bytes(data: memoryview, size: int, ends: Sequence[int]) -> list[memoryview]:
    """Slice bytes between consecutive ends, counted in entries of this size, without a copy."""
    return [data[size * first : size * last] for first, last in pairwise(ends)]


def ends_of(sizes: Sequence[int]) -> list[int]:
    """Return where concatenated parts of these sizes begin, and where the last one ends."""
    return list(accumulate(sizes, initial=0))


def count_before(flags: NDArray[np.bool_], ends: Sequence[int]) -> list[int]:
    """Count the flags that are set before each end; usually none is."""
    if not flags.any():
        return [0] * len(ends)
    before: list[int] = np.concatenate([[0], np.cumsum(flags)])[ends].tolist()
    return before


def spread(parts: NDArray[Any], ranges: Ranges, length: int, nothing: float = 0) -> NDArray[Any]:
    """Copy concatenated entries into their ranges of an array filled with `nothing`."""
    whole = np.full(length, nothing, parts.dtype)
    put(parts, ranges, whole)
    return whole
