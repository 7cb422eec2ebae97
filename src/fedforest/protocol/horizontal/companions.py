"""Whom a party lets its numbers be added up with, whatever the coordinator asks for.

Sums over the same rows by sets that differ in one party differ by that party's own numbers, and no
mask helps (docs/decisions/0007). So a tree keeps its participants from root to leaves, and no two
sets of a run may tell a single party apart. Sums that travel in the clear name no participants.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedforest.protocol.aggregation.base import LEAST_PARTICIPANTS
from fedforest.protocol.asking import check

Block = frozenset[str]


@dataclass(frozen=True, slots=True)
class Companions:
    """The sets of parties that this party's numbers were added up with, since the last loss."""

    blocks: tuple[Block, ...] = ()  # parties that these sets do not tell apart
    # of the trees growing now, as they were named
    of_segment: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    least: int = LEAST_PARTICIPANTS  # parties that no combination of sums may tell apart

    def join(self, segment: int | None, participants: Sequence[str]) -> "Companions":
        """After one sum more, of a segment's trees or, without one, of whole tables."""
        if not participants:
            return self
        if segment is not None and segment in self.of_segment:
            named = self.of_segment[segment]
            as_before = named == participants or set(named) == set(participants)
            check(as_before, "a tree is counted by other participants than before")
            return self  # what they tell apart was looked at when the tree began
        together = frozenset(participants)
        blocks = divide_blocks(self.blocks, together)
        is_hidden = all(len(block) >= self.least for block in blocks)
        whom = "a single party" if self.least == LEAST_PARTICIPANTS else "too few parties"
        check(is_hidden, f"the participants of this sum and of others tell {whom} apart")
        if segment is None:
            return replace(self, blocks=blocks)
        return replace(
            self, blocks=blocks, of_segment={**self.of_segment, segment: tuple(participants)}
        )

    def begin_anew(self) -> "Companions":
        """After a loss: other rows are counted from now on."""
        return Companions(least=self.least)

    def begin_batch(self) -> "Companions":
        """Other trees, whose participants may be others."""
        return replace(self, of_segment={})


def divide_blocks(blocks: Iterable[Block], together: Block) -> tuple[Block, ...]:
    """Blocks divided into those inside and outside a set; who is new in it is a block, too."""
    blocks = tuple(blocks)
    known = frozenset[str]().union(*blocks)
    parts = [part for block in blocks for part in (block & together, block - together)]
    return tuple(part for part in (*parts, together - known) if part)
