"""What leaves a party where labels are encrypted; only the label party can read sums in it."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.asking import Payload, check
from fedforest.protocol.label_door import LabelStatistic
from fedforest.protocol.payloads import Count, NodeSums, RowBits


class EncryptedLabels(LabelStatistic, frozen=True):
    """A public key, and what the criterion sums of every row, encrypted under it.

    A row has `n_numbers` integers from `lowest` to `highest`. Rows without weight are named, a bit
    each, because every party draws rows among the others; nothing if all have some.
    """

    n_numbers: Count
    lowest: int
    highest: int
    key: memoryview  # a point per plaintext
    ciphertexts: memoryview
    weightless: memoryview

    @classmethod
    def pack_weightless(cls, allowed: NDArray[np.bool_]) -> memoryview:
        """Encode which rows may not be drawn."""
        return memoryview(b"") if allowed.all() else np.packbits(~allowed).data

    def read_allowed(self, n_rows: int) -> NDArray[np.bool_]:
        """Read which rows may be drawn."""
        packed = np.frombuffer(self.weightless, np.uint8)
        if not len(packed):
            return np.ones(n_rows, np.bool_)
        check(len(packed) == (n_rows + 7) // 8, "rows without weight are not of this table")
        allowed: NDArray[np.bool_] = np.unpackbits(packed, count=n_rows) == 0
        check(bool(allowed.any()), "no row has a weight")
        return allowed


class SealOfLabels(Payload, frozen=True):
    """Shows one other party that the label party encrypted these labels, and nobody else."""

    data: memoryview


class EncryptedCuts(Payload, frozen=True):
    """The sums on the left of the valid cuts of each open node, in an order of the party's own.

    Sealed for the label party: how many cuts a node has, and the rows and draws left of each. The
    seal holds for these sums alone.
    """

    counts: memoryview
    sums: memoryview


class CutChoice(Payload, frozen=True):
    """The nodes one party is to split (a bit per open node), and which of its cuts are as good.

    For each of these nodes how many, and their positions among the cuts it sent; of the label
    party's own nodes nothing.
    """

    won: memoryview
    positions: memoryview

    @classmethod
    def of(cls, is_won: NDArray[np.bool_], positions: list[NDArray[np.int64]]) -> Self:
        packed = np.packbits(is_won, bitorder="little")
        parts = [np.concatenate([[len(tied)], tied]) for tied in positions]
        flat = np.concatenate([np.zeros(0, np.int64), *parts])
        return cls(packed.data, NodeSums.of(flat).data)

    def read_positions(self, n_nodes: int, n_cuts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Read the positions at each of `n_nodes` nodes, which have so many cuts."""
        flat, at, positions = self._read_all(n_nodes, n_cuts), 0, []
        for of_node in n_cuts.tolist():
            check(at < len(flat), "chosen cuts are missing")
            tied = flat[at + 1 : at + 1 + int(flat[at])]
            is_some = 0 < int(flat[at]) == len(tied)
            check(is_some and bool(((tied >= 0) & (tied < of_node)).all()), "a chosen cut is none")
            positions.append(tied)
            at += 1 + len(tied)
        check(at == len(flat), "cuts are chosen of nodes that are not to be split")
        return positions

    def _read_all(self, n_nodes: int, n_cuts: NDArray[np.int64]) -> NDArray[np.int64]:
        data = np.frombuffer(self.positions, np.uint8)
        n_numbers = int((data < 0x80).sum())  # the last byte of each number
        check(n_numbers <= n_nodes + int(n_cuts.sum()), "more cuts are chosen than there are")
        return NodeSums(self.positions).read(n_numbers, 1)[:, 0]


class Fates(Payload, frozen=True):
    """What becomes of open nodes: three bits each (see `protocol/fates.py`)."""

    data: memoryview


MAY_LEAVE = (EncryptedLabels, SealOfLabels, EncryptedCuts, CutChoice, Fates, RowBits)
