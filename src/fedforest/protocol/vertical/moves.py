"""The bits of split nodes' rows, on their way from those who split them to everybody else."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bits.ranges import (
    SPARE_BYTES,
    count_bytes,
    find_smallest,
    locate_bits,
    take_bits,
)
from fedforest.kernels.growth.partition import STAYS
from fedforest.kernels.layout import NO_GROUP
from fedforest.protocol.asking import blame, check
from fedforest.protocol.payloads import RowBits, view_bytes
from fedforest.tree.growth.structure import GrowthStep

Part = tuple[str, NDArray[np.int64], RowBits]  # an owner, the nodes it split, and their bits


class NodeBits:
    """The bits of the split nodes of a step, owner by owner.

    Those of an open node start at byte `offsets[node]`; `left_rows[node]` of them are set.
    """

    def __init__(
        self, sizes: NDArray[np.int64], parts: Sequence[Part] = (), least_rows: int = 0
    ) -> None:
        """`parts`: for each owner which nodes it split and their bits, in node order.

        A child with fewer than `least_rows` is its owner's fault.
        """
        self._sizes, self._least_rows = sizes, least_rows
        self.offsets = np.zeros(len(sizes), np.int64)
        self.left_rows = np.zeros(len(sizes), np.int64)
        self._make_room([len(packed.data) for _, _, packed in parts])
        for number, part in enumerate(parts):
            self._put(number, part)

    def _make_room(self, lengths: Sequence[int]) -> None:
        """For so many bytes of each owner."""
        self._ends = list(accumulate(lengths))
        n_bytes = sum(lengths)
        self.bits = np.empty(n_bytes + SPARE_BYTES, np.uint8)
        self.bits[n_bytes:] = 0

    def _put(self, number: int, part: Part) -> None:
        """The bits of the owner with this number."""
        owner, nodes, packed = part
        end = self._ends[number]
        begin = end - len(packed.data)
        self.bits[begin:end] = view_bytes(packed.data, "u1", end - begin, "row bits")
        with blame(owner):
            self._locate(nodes, begin, end)

    def _locate(self, nodes: NDArray[np.int64], begin: int, end: int) -> None:
        bits, span, sizes, least = self.bits, (begin, end), self._sizes, self._least_rows
        found = int(locate_bits(bits, span, nodes, sizes, least, self.offsets, self.left_rows))
        check(found != -2, "row bits are padded with ones")
        check(found != -3, "a child has fewer rows than min_samples_leaf allows")
        check(found == end, "row bits are not as many as the nodes have rows")

    def take(self, nodes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the bits of some split nodes, one node after the other."""
        taken: NDArray[np.uint8] = take_bits(self.bits, nodes, self._sizes, self.offsets)
        return taken


class AwaitedBits(NodeBits):
    """The bits of owners whose nodes are known and whose bits come one by one, in any order."""

    def __init__(
        self, sizes: NDArray[np.int64], nodes: Sequence[NDArray[np.int64]], least_rows: int = 0
    ) -> None:
        super().__init__(sizes, (), least_rows)
        self._lengths = [int(count_bytes(sizes, of_owner)) for of_owner in nodes]
        self._make_room(self._lengths)
        self._smallest = [NO_GROUP] * len(nodes)  # child of each owner

    @property
    def smallest_side(self) -> int:
        """Different rows of the smallest child so far."""
        return min(self._smallest, default=NO_GROUP)

    def put(self, number: int, part: Part) -> None:
        """The bits of the owner with this number, once; owners may come at the same time."""
        owner, nodes, packed = part
        with blame(owner):
            fits = len(packed.data) == self._lengths[number]
            check(fits, "row bits are not as many as the nodes have rows")
        self._put(number, part)
        self._smallest[number] = int(find_smallest(nodes, self._sizes, self.left_rows))


def follow_sizes(
    sizes: NDArray[np.int64], left_rows: NDArray[np.int64], step: GrowthStep
) -> NDArray[np.int64]:
    """Return the rows of the nodes that are open after a step."""
    source = step.source
    of_child = np.where(step.is_right, sizes[source] - left_rows[source], left_rows[source])
    return np.where(step.fate[source] == STAYS, sizes[source], of_child)
