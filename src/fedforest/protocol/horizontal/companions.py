"""A party's check of the participants of each sum, independent of the coordinator.

If the participants of two sums over the same rows differ in one party, the sums differ by that
party's own numbers, and masks do not help (docs/decisions/0007). So a tree keeps its participants
from root to leaves, and no two sets of a run may isolate a single party. Plain sums name no
participants.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedforest.protocol.aggregation.base import LEAST_PARTICIPANTS
from fedforest.protocol.asking import check

Block = frozenset[str]


@dataclass(frozen=True, slots=True)
class Companions:
    """The sets of parties that this party's numbers were added up with, since the last loss."""

    blocks: tuple[Block, ...] = ()  # each block: parties that are in the same sets
    # participants of the growing trees, by segment, as first named
    of_segment: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    least: int = LEAST_PARTICIPANTS  # the fewest parties that a block may have

    def join(self, segment: int | None, participants: Sequence[str]) -> "Companions":
        """Return the state after one more sum: of a segment's trees, or of whole tables."""
        if not participants:
            return self
        if segment is not None and segment in self.of_segment:
            named = self.of_segment[segment]
            as_before = named == participants or set(named) == set(participants)
            check(as_before, "a tree is counted by other participants than before")
            return self  # the blocks were checked when the tree began
        together = frozenset(participants)
        blocks = divide_blocks(self.blocks, together)
        is_hidden = all(len(block) >= self.least for block in blocks)
        whom = "a single party" if self.least == LEAST_PARTICIPANTS else "too few parties"
        check(is_hidden, "the participants of this sum and of others tell {whom} apart", whom=whom)
        if segment is None:
            return replace(self, blocks=blocks)
        return replace(
            self, blocks=blocks, of_segment={**self.of_segment, segment: tuple(participants)}
        )

    def begin_anew(self) -> "Companions":
        """Return the state after a loss: other rows are counted from now on."""
        return Companions(least=self.least)

    def begin_batch(self) -> "Companions":
        """Return the state for a new batch: its trees may have other participants."""
        return replace(self, of_segment={})


def divide_blocks(blocks: Iterable[Block], together: Block) -> tuple[Block, ...]:
    """Divide blocks into parts inside and outside a set; its new parties form one more block."""
    blocks = tuple(blocks)
    known = frozenset[str]().union(*blocks)
    parts = [part for block in blocks for part in (block & together, block - together)]
    return tuple(part for part in (*parts, together - known) if part)
