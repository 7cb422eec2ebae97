"""The parties that take part in each tree, or step, of a training (k-PPD-ERT, section 3.2).

Differences between sums over different parties expose the parties in which they differ. So parties
are divided into blocks once, and take part in trees, and leave the run, by whole blocks: whatever
is computed from the sums of a run is about blocks, never about one party (docs/decisions/0032).
Only the paper's scope "step", a new draw for every step, draws single parties; users must choose it
explicitly.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from fedforest.errors import TooFewParties
from fedforest.kernels.growth.sampling import draw_unit
from fedforest.protocol.horizontal.order import Participation
from fedforest.protocol.horizontal.participation import BlockDraw, Drawn
from fedforest.tree.growth.seeds import derive_seed


def require_enough(n_parties: int, least: int) -> None:
    """Refuse to continue if fewer parties have rows than must take part."""
    if n_parties < least:
        raise TooFewParties(
            f"{n_parties} of the parties that are there have rows, but at least {least} must take "
            "part (min_participants); wait for the others and resume or train again"
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Trees with the same participants; `number` identifies the group to its parties."""

    number: int
    participants: tuple[str, ...]
    trees: range


@dataclass(frozen=True, slots=True)
class Participants:
    """Draws participants by the seed of the run (SPP) among blocks of parties."""

    parties: tuple[str, ...]  # all of the run
    participation: Participation
    seed: int
    without_rows: frozenset[str] = frozenset()
    left: frozenset[int] = frozenset()  # blocks that left the run

    def __post_init__(self) -> None:
        require_enough(self._count_with_rows(self.present), self.participation.least)

    @property
    def present(self) -> tuple[str, ...]:
        """Parties whose block did not leave the run."""
        gone = {party for number in self.left for party in self.blocks()[number]}
        return tuple(party for party in self.parties if party not in gone)

    def without(self, lost: Collection[str]) -> "Participants":
        """Return the participants after a loss: the blocks of the lost parties leave the run.

        Sums without the lost party alone would tell its numbers, by their difference to earlier
        ones.
        """
        blocks = enumerate(self.blocks())
        leaving = {number for number, block in blocks if not set(lost).isdisjoint(block)}
        return replace(self, left=self.left | leaving)

    def of_trees(self, trees: range) -> list[tuple[str, ...]]:
        """Return the participants of each tree: all parties if every step draws anew."""
        scope = self.participation.kept_for
        if scope == "step":
            return [self.present] * len(trees)
        return [self._name(drawn) for drawn in self.draw().of_trees(trees, scope, self.left)]

    def of_step(self, step: int, by_tree: Sequence[tuple[str, ...]]) -> list[Group]:
        """Group trees by their participants in this step; trees of a group are consecutive."""
        if self.participation.kept_for == "step":
            drawn = self.draw().draw("step", step, self.left)
            return [Group(0, self._name(drawn), range(len(by_tree)))]
        groups: list[Group] = []
        for number, (members, trees) in enumerate(groupby(by_tree)):
            first = groups[-1].trees.stop if groups else 0
            groups.append(Group(number, members, range(first, first + len(list(trees)))))
        return groups

    def draw(self) -> BlockDraw:
        """Return the draw that all parties can repeat."""
        with_rows = tuple(map(self._count_with_rows, self.blocks()))
        share, least = self.participation.share, self.participation.least
        return BlockDraw(self.seed, share, least, with_rows)

    def _name(self, drawn: Drawn) -> tuple[str, ...]:
        blocks = self.blocks()
        members = {party for number in drawn for party in blocks[number]}
        return tuple(party for party in self.parties if party in members)

    def blocks(self) -> list[tuple[str, ...]]:
        """Divide the parties by the seed into blocks with the minimum of parties with rows each.

        Parties without rows do not count: adding their zeros hides no other party. Where every step
        draws single parties, each is its own block.
        """
        if self.participation.kept_for == "step":
            return [(party,) for party in self.parties]
        key = np.uint64(derive_seed(self.seed, "blocks", 0))
        units = [draw_unit(key, np.uint64(number)) for number in range(len(self.parties))]
        drawn = sorted(zip(units, self.parties, strict=True))
        shuffled = sorted((party for _, party in drawn), key=self.without_rows.__contains__)
        n_blocks = self._count_with_rows(self.parties) // max(1, self.participation.least)
        return [tuple(shuffled[number::n_blocks]) for number in range(max(1, n_blocks))]

    def _count_with_rows(self, parties: Collection[str]) -> int:
        return sum(party not in self.without_rows for party in parties)
