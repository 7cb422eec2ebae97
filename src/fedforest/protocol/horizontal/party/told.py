"""Digests of what a party was told about each segment's trees; keys are bound to them.

The meaning of a question depends on the requests before it: each party's part of its rows, the
splits that moved them, the candidate columns. A coordinator that could tell one party of a sum
other splits than the rest would have their rows moved out of a node, and the sum would be one
party's own. So protected sums are bound to these digests: if they differ between participants,
masks do not cancel and shares do not open (docs/decisions/0032).
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.horizontal.messages import BeginTrees
from fedforest.tree.growth.split_search import SplitTable

NodesOf = Mapping[int, tuple[int, int]]  # by segment, the range of its open nodes


class Told:
    """A running digest for each segment; equal at all parties that were told the same."""

    def __init__(self, start: BeginTrees, segments: NDArray[np.uint16]) -> None:
        drawn = (start.bootstrap, start.n_draws, start.n_rows, start.left, start.first, start.total)
        numbers, n_trees = np.unique(segments, return_counts=True)
        self._digests = {
            number: sha256(msgspec.msgpack.encode((drawn, n))).digest()
            for number, n in zip(numbers.tolist(), n_trees.tolist(), strict=True)
        }

    def move(
        self,
        nodes_of: NodesOf,
        is_split: NDArray[np.bool_],
        fate: NDArray[np.uint8],
        table: SplitTable,
    ) -> None:
        """Take in the fates of the open nodes, and the splits of those that were split."""
        n_before = np.cumsum(is_split)
        fates = fate << 1 | is_split
        splits = [table.feature, table.cut, table.missing_left, table.left_set]
        for segment, (first, last) in nodes_of.items():
            begin, end = int(n_before[first - 1]) if first else 0, int(n_before[last - 1])
            told = [fates[first:last], *(column[begin:end] for column in splits)]
            self._digests[segment] = _hash(self._digests[segment], told)

    def digests(
        self, segments: Sequence[int], nodes_of: NodesOf, candidates: NDArray[np.uint8]
    ) -> list[bytes]:
        """Return, per segment, a digest of its trees and of the candidates of their open nodes.

        These are a bitmap of columns for each open node.
        """
        digests = []
        for segment in segments:
            first, last = nodes_of.get(segment, (0, 0))  # of other segments nothing is answered
            digests.append(_hash(self._digests.get(segment, b""), [candidates[first:last]]))
        return digests


def _hash(before: bytes, parts: Sequence[NDArray[Any]]) -> bytes:
    """Hash parts whose lengths follow from the ones before."""
    hashed = sha256(before)
    for part in parts:
        hashed.update(np.ascontiguousarray(part).data)
    return hashed.digest()
