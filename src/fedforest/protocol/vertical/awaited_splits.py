"""The splits of a step, from who won which node to what the winners say they did.

Winners answer one by one, in any order and also at the same time; each answer is judged when it
comes, whatever the others say.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.gains import share_out
from fedforest.protocol.asking import blame, check
from fedforest.protocol.vertical.messages import SplitsApplied
from fedforest.protocol.vertical.moves import AwaitedBits
from fedforest.protocol.vertical.sums import LeftSums
from fedforest.tree.growth.row_sums import RowSums
from fedforest.tree.table.targets import TargetKind


class OpenRows(NamedTuple):
    """The coordinator's view of the open nodes."""

    sums: NDArray[np.int64]
    sizes: NDArray[np.int64]  # rows whose bits are asked for
    left_out_sizes: NDArray[np.int64] | None  # the same of rows that trees left out, if any
    least_rows: int  # of a child
    least_weight: NDArray[np.int64]  # of a child, where weight is limited
    row_sums: RowSums | None = None  # adds up left children, where their sums do not travel


class AwaitedSplits:
    """The owners of split nodes; then bits and sums of the left children, winner by winner."""

    def __init__(
        self,
        parties: Sequence[str],
        owner: NDArray[np.int16],
        is_split: NDArray[np.bool_],
        rows: OpenRows,
        kind: TargetKind,
    ) -> None:
        """Take the number of each open node's `owner` among `parties`; -1 if it has none."""
        self.is_split, self.owner = is_split, owner
        nodes, first, flags, places, self.owner_of_split = share_out(owner, is_split, len(parties))
        bounds = first.tolist()
        won = {
            party: (nodes[begin:end], flags[number])
            for number, (party, begin, end) in enumerate(
                zip(parties, bounds, bounds[1:], strict=False)
            )
            if begin < end
        }
        self._nodes = {party: of_party for party, (of_party, _) in won.items()}
        self.flags: dict[str, memoryview] = {party: bits.data for party, (_, bits) in won.items()}
        self._number_of = {party: number for number, party in enumerate(won)}
        own_nodes = list(self._nodes.values())
        self.bits = AwaitedBits(rows.sizes, own_nodes, rows.least_rows)
        self.left_out_bits = None
        if rows.left_out_sizes is not None:
            self.left_out_bits = AwaitedBits(rows.left_out_sizes, own_nodes)
        n_split = len(self.owner_of_split)
        self._left_sums = LeftSums(kind, places, n_split, rows.sums, rows.least_weight)
        self._row_sums = rows.row_sums
        self._received: set[str] = set()

    @property
    def left_sums(self) -> NDArray[np.int64]:
        """Return the sums of left children, in node order, once all winners have answered."""
        return self._left_sums.left

    def receive(self, party: str, applied: SplitsApplied) -> None:
        """Take a winner's answer; an error in it blames the winner."""
        nodes, number = self._nodes[party], self._number_of[party]
        self.bits.put(number, (party, nodes, applied.bits))
        if self.left_out_bits is not None:
            self.left_out_bits.put(number, (party, nodes, applied.left_out_bits))
        with blame(party):
            is_asked = self.left_out_bits is not None or not applied.left_out_bits.data
            check(is_asked, "row bits came of rows that nobody asked for")
            self._take_sums(nodes, applied)
        self._received.add(party)

    def _take_sums(self, nodes: NDArray[np.int64], applied: SplitsApplied) -> None:
        """Take the sums of a winner's left children, or add them up by its bits."""
        said = applied.left_sums
        if self._row_sums is None:
            check(said is not None, "the sums of left children are missing")
            assert said is not None
            self._left_sums.put(said, nodes, self.bits.left_rows)
            return
        check(said is None, "sums of left children came that nobody asked for")
        offsets, bits = self.bits.offsets[nodes], self.bits.bits
        sums = self._row_sums.of_left_children(nodes, offsets, bits)
        self._left_sums.put_own(sums, nodes)

    def complete(self, applied: Mapping[str, SplitsApplied]) -> None:
        """Take the answers of those winners that were not heard yet."""
        for party in self._nodes:
            if party not in self._received:
                self.receive(party, applied[party])
