"""The bits of split nodes' rows, on their way from those who split them to everybody else."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.bit_ranges import SPARE_BYTES, locate_bits, take_bits
from fedforest.kernels.partition import STAYS
from fedforest.protocol.asking import blame, check
from fedforest.protocol.payloads import RowBits, view_bytes
from fedforest.tree.structure import Step
from fedforest.tree.workers import ALONE, Workers


class NodeBits:
    """The bits of the split nodes of a step, which came owner by owner and stay in that order.

    Those of an open node start at byte `offsets[node]`; `left_rows[node]` of them are set.
    """

    def __init__(
        self,
        sizes: NDArray[np.int64],
        parts: Sequence[tuple[str, NDArray[np.int64], RowBits]] = (),
        least_rows: int = 0,
        workers: Workers = ALONE,
    ) -> None:
        """`parts`: for each owner which nodes it split and their bits, in node order.

        A child with fewer than `least_rows` is its owner's fault.
        """
        self._sizes, self._least_rows = sizes, least_rows
        self.offsets = np.zeros(len(sizes), np.int64)
        self.left_rows = np.zeros(len(sizes), np.int64)
        n_bytes = sum(len(packed.data) for _, _, packed in parts)
        self.bits = np.zeros(n_bytes + SPARE_BYTES, np.uint8)
        ends = accumulate(len(packed.data) for _, _, packed in parts)
        workers.run(lambda part: self._put(part[0], *part[1]), zip(ends, parts, strict=True))

    def _put(self, end: int, owner: str, nodes: NDArray[np.int64], packed: RowBits) -> None:
        """The bits of an owner's nodes, which end at byte `end`."""
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
        """The bits of some split nodes, one node after the other."""
        taken: NDArray[np.uint8] = take_bits(self.bits, nodes, self._sizes, self.offsets)
        return taken


def follow_sizes(
    sizes: NDArray[np.int64], left_rows: NDArray[np.int64], step: Step
) -> NDArray[np.int64]:
    """Rows of the nodes that are open after a step."""
    source = step.source
    of_child = np.where(step.is_right, sizes[source] - left_rows[source], left_rows[source])
    return np.where(step.fate[source] == STAYS, sizes[source], of_child)
