"""The parties that take part in each tree, or step, of a training (k-PPD-ERT, section 3.2).

Differences between sums over different parties expose the parties in which they differ. So the
parties of a tree are the same from its root to its leaves, and between trees they change in blocks:
differences of such sums are about blocks, never about one party. Only the paper's scope "step", a
new draw for every step, draws single parties; users must choose it explicitly.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from fedforest.errors import TooFewParties
from fedforest.kernels.growth.sampling import draw_unit
from fedforest.protocol.horizontal.order import Participation
from fedforest.tree.growth.seeds import derive_seed

MOST_DRAWS = 1000  # repeated when too few are drawn; after that all parties take part


def require_enough(n_parties: int, least: int) -> None:
    """Refuse to continue if fewer parties have rows than must take part."""
    if n_parties < least:
        raise TooFewParties(
            f"{n_parties} of the parties that are there have rows, but at least {least} must take "
            "part (min_participants); wait for the others and train again"
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Trees with the same participants; `number` identifies the group to its parties."""

    number: int
    participants: tuple[str, ...]
    trees: range


@dataclass(frozen=True, slots=True)
class Participants:
    """Draws participants by the coordinator's seed (SPP) among the present parties."""

    parties: tuple[str, ...]
    participation: Participation
    seed: int
    without_rows: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        require_enough(self._count_with_rows(self.parties), self.participation.least)

    def of_trees(self, trees: range) -> list[tuple[str, ...]]:
        """Return the participants of each tree: all parties if every step draws anew.

        The drawn sets are sorted, so that trees with the same participants are consecutive and
        their nodes need no sorting. Trees are alike: which tree gets which set does not matter.
        """
        scope = self.participation.scope
        if self.participation.is_full or scope == "step":
            return [self.parties] * len(trees)
        if scope == "run":
            return [self._draw("run", 0, self._blocks())] * len(trees)
        blocks = self._blocks()
        return sorted(self._draw("tree", tree, blocks) for tree in trees)

    def of_step(self, step: int, by_tree: Sequence[tuple[str, ...]]) -> list[Group]:
        """Group trees by their participants in this step; trees of a group are consecutive."""
        if self.participation.scope == "step" and not self.participation.is_full:
            everybody = [(party,) for party in self.parties]
            return [Group(0, self._draw("step", step, everybody), range(len(by_tree)))]
        groups: list[Group] = []
        for number, (members, trees) in enumerate(groupby(by_tree)):
            first = groups[-1].trees.stop if groups else 0
            groups.append(Group(number, members, range(first, first + len(list(trees)))))
        return groups

    def _draw(self, purpose: str, index: int, blocks: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        """Draw each block with the same probability; draw again if there are too few parties."""
        for attempt in range(MOST_DRAWS):
            key = np.uint64(derive_seed(self.seed, f"participants/{purpose}/{attempt}", index))
            drawn = {
                party
                for number, block in enumerate(blocks)
                if draw_unit(key, np.uint64(number)) < self.participation.share
                for party in block
            }
            if self._count_with_rows(drawn) >= self.participation.least:
                return tuple(party for party in self.parties if party in drawn)
        return self.parties

    def _blocks(self) -> list[tuple[str, ...]]:
        """Divide the parties by the seed into blocks with the minimum of parties with rows each.

        Parties without rows do not count: adding their zeros hides no other party.
        """
        key = np.uint64(derive_seed(self.seed, "blocks", 0))
        units = [draw_unit(key, np.uint64(number)) for number in range(len(self.parties))]
        drawn = sorted(zip(units, self.parties, strict=True))
        shuffled = sorted((party for _, party in drawn), key=self.without_rows.__contains__)
        n_blocks = self._count_with_rows(self.parties) // max(1, self.participation.least)
        return [tuple(shuffled[number::n_blocks]) for number in range(max(1, n_blocks))]

    def _count_with_rows(self, parties: Collection[str]) -> int:
        return sum(party not in self.without_rows for party in parties)
