"""Digests of what a party was told about each segment's trees; keys are bound to them.

The meaning of a question depends on the requests before it: each party's part of its rows, the
splits that moved them, the candidate columns. A coordinator that could tell one party of a sum
other splits than the rest would have their rows moved out of a node, and the sum would be one
party's own. So protected sums are bound to these digests: if they differ between participants,
masks do not cancel and shares do not open (docs/decisions/0032).
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.pairs import Pairs
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
        n_before = [0, *np.cumsum(is_split).tolist()]
        nodes, splits = fate << 1 | is_split, _pack_splits(table)
        fates, width = nodes.tobytes(), splits.shape[1]
        cuts = splits.tobytes()
        for segment, (first, last) in nodes_of.items():
            told = cuts[width * n_before[first] : width * n_before[last]]
            self._digests[segment] = _hash(self._digests[segment], fates[first:last], told)

    def digests(self, segments: Sequence[int], nodes_of: NodesOf, pairs: Pairs) -> list[bytes]:
        """Return, per segment, a digest of its trees and of the candidates of their open nodes."""
        start = pairs.node_start.astype("<u4")
        n_candidates, begins = np.diff(start).tobytes(), start.tolist()
        features = pairs.feature.tobytes()
        digests = []
        for segment in segments:
            first, last = nodes_of.get(segment, (0, 0))  # of other segments nothing is answered
            counts = n_candidates[4 * first : 4 * last]
            columns = features[4 * begins[first] : 4 * begins[last]]
            digests.append(_hash(self._digests.get(segment, b""), counts, columns))
        return digests


def _pack_splits(table: SplitTable) -> NDArray[np.uint8]:
    """Return one row of bytes for each split: column, cut, side of missing values, categories."""
    columns = [table.feature, table.cut, table.missing_left]
    parts = [column.reshape(-1, 1).view(np.uint8) for column in columns]
    if len(table.left_set):
        parts.append(table.left_set.view(np.uint8))
    return np.concatenate(parts, axis=1)


def _hash(*parts: bytes) -> bytes:
    """Hash parts whose lengths follow from the ones before."""
    return sha256(b"".join(parts)).digest()
