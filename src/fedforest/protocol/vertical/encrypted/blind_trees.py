"""A party's part in a batch of growing trees whose labels it cannot read."""

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fedforest.kernels.criteria.registry import Criterion
from fedforest.kernels.layout import NO_SPLIT
from fedforest.protocol.payloads import RowBits
from fedforest.protocol.vertical.encrypted.cut_search import CutSearch
from fedforest.protocol.vertical.encrypted.payloads import CutChoice, EncryptedCuts
from fedforest.protocol.vertical.messages import SplitsApplied, StartTrees
from fedforest.protocol.vertical.party_trees import VerticalPartyTrees
from fedforest.tree.growth.batches import OwnRows
from fedforest.tree.workers import Workers


class BlindTrees(VerticalPartyTrees):
    """Follows a batch of trees step by step, and offers cuts instead of gains."""

    _search: CutSearch

    def __init__(
        self,
        own: OwnRows,
        start: StartTrees,
        workers: Workers,
        max_depth: int,
        criterion: Criterion,
    ) -> None:
        """`own` rows make a `CutSearch`."""
        # The label party alone knows weights and targets: it rules out cuts that are too light, and
        # those with a side of zeros where that has no score.
        self._may_be_ruled_out = start.min_weight_share > 0.0 or criterion.scores.from_zero
        any_weight = replace(start, min_weight_share=0.0)
        super().__init__(own, any_weight, workers, max_depth)

    def offer(self, candidates: NDArray[np.uint8], secret: bytes) -> EncryptedCuts:
        """Return the cuts of every open node; `secret` are 32 bytes for this call only."""
        self._has_searched = True
        cuts = self._search.offer(candidates, secret)
        if self._may_be_ruled_out:  # nodes may be asked about again, though they had cuts
            self._search.found.score[:] = NO_SPLIT
        return cuts

    def apply_choice(self, choice: CutChoice) -> SplitsApplied:
        """Split the nodes this party won, each at the first of the cuts that are as good."""
        nodes = self.read_won(choice.won)
        n_cuts = self._search.n_cuts[nodes]
        self._search.take(nodes, choice.read_positions(len(nodes), n_cuts))
        split = self.split(nodes, with_sums=False)
        return SplitsApplied(None, RowBits.of(split.bits), RowBits.of(split.routed))
