"""Who takes part in which tree, or step, of a training (k-PPD-ERT, section 3.2).

Differences between sums over different parties expose the parties in which they differ. So the
parties of a tree are the same from its root to its leaves unless the paper's way, a new draw for
every step, is asked for by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import TooFewParties
from fedforest.kernels.sampling import draw_unit
from fedforest.protocol.horizontal.order import Participation
from fedforest.tree.seeds import derive_seed

MOST_DRAWS = 1000  # repeated when too few are drawn; after that the first so many take part


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Trees with the same participants; `number` is what their parties know the group by."""

    number: int
    participants: tuple[str, ...]
    trees: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Participants:
    """Draws participants by the coordinator's seed (SPP) among the parties that are there."""

    parties: tuple[str, ...]
    participation: Participation
    seed: int
    without_rows: frozenset[str] = frozenset()  # never only these

    def __post_init__(self) -> None:
        if len(self.parties) < self.participation.least:
            raise TooFewParties(
                f"{len(self.parties)} parties are left, but at least {self.participation.least} "
                "must take part; wait for the others and train again"
            )

    def of_trees(self, trees: range) -> list[tuple[str, ...]]:
        """The participants of each tree; where every step draws anew, everybody holds rows."""
        scope = self.participation.scope
        if self.participation.is_full or scope == "step":
            return [self.parties] * len(trees)
        if scope == "run":
            return [self._draw("run", 0)] * len(trees)
        return [self._draw("tree", tree) for tree in trees]

    def of_step(self, step: int, by_tree: Sequence[tuple[str, ...]]) -> list[Group]:
        """Trees grouped by who takes part in this step."""
        if self.participation.scope == "step" and not self.participation.is_full:
            return [Group(0, self._draw("step", step), np.ones(len(by_tree), np.bool_))]
        distinct = list(dict.fromkeys(by_tree))
        return [
            Group(number, members, np.array([own == members for own in by_tree]))
            for number, members in enumerate(distinct)
        ]

    def _draw(self, purpose: str, index: int) -> tuple[str, ...]:
        """Each party with the same probability, in the order of parties; never too few."""
        for attempt in range(MOST_DRAWS):
            key = np.uint64(derive_seed(self.seed, f"participants/{purpose}/{attempt}", index))
            drawn = tuple(
                party
                for number, party in enumerate(self.parties)
                if draw_unit(key, np.uint64(number)) < self.participation.share
            )
            if len(drawn) >= self.participation.least and not self.without_rows.issuperset(drawn):
                return drawn
        by_rows = sorted(self.parties, key=lambda party: party in self.without_rows)
        first = set(by_rows[: self.participation.least])
        return tuple(party for party in self.parties if party in first)
