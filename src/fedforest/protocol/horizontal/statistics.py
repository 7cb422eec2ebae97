"""What a party counts for a question, with the noise that the run demands already in it.

The exact sums never leave this module where noise is demanded. Noise is drawn from a key that is
derived anew for every question from a secret of the party.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.pairs import Cuts
from fedforest.masking.key_agreement import derive_key
from fedforest.privacy.global_dp import add_laplace_noise
from fedforest.privacy.local_dp import LocalDP, ResponseCode, add_instant_noise, permanent_responses
from fedforest.protocol.asking import check
from fedforest.protocol.horizontal.messages import AgreeOnTable, Protection
from fedforest.tree.point_search import PointSearch
from fedforest.tree.targets import TrainingTargets


class Statistics(Protocol):
    """Counts for one question; `number` is the question's, and no number comes twice."""

    def of_cuts(
        self, search: PointSearch, cuts: Cuts, number: int, *, both_sides: bool
    ) -> NDArray[np.int64]:
        """(asked cuts, integers): the left side, or both."""

    def of_nodes(
        self, search: PointSearch, nodes: NDArray[np.int64], number: int
    ) -> NDArray[np.int64]:
        """(nodes, integers): whole nodes."""

    def of_table(self, number: int) -> NDArray[np.int64]:
        """The integers of all rows together."""
