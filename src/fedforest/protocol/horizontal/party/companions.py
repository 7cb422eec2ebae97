"""A party's check of the participants of each sum, independent of the coordinator.

If the participants of two sums differ in one party, the sums differ by that party's own numbers,
and masks do not help. So all parties agree, once and before the first sum, on blocks of parties
that take part only together (docs/decisions/0032). Every set of participants is made of whole
blocks, in all trees, steps and restarts: any combination of sums treats the parties of a block
alike, so it is about a whole block or about nobody. Plain sums name no participants.

Which blocks take part in a tree, or a step, parties draw themselves from the seed that they agreed
on (docs/decisions/0050): a coordinator cannot choose it by what it saw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedforest.protocol.aggregation.base import LEAST_PARTICIPANTS
from fedforest.protocol.asking import check
from fedforest.protocol.horizontal.messages import AgreeOnTable
from fedforest.protocol.horizontal.order import Scope
from fedforest.protocol.horizontal.participation import BlockDraw, Drawn, number_groups

Block = frozenset[str]


@dataclass(frozen=True, slots=True)
class Companions:
    """The blocks of a run as agreed on, and the participants of growing trees."""

    party: str | None = None  # None: sums are plain
    scope: Scope = "run"  # how long a sum keeps its participants, as declared
    least: int = LEAST_PARTICIPANTS  # the fewest parties with rows in a block
    blocks: tuple[Block, ...] = ()
    left: frozenset[int] = frozenset()  # numbers of blocks that left the run
    draw: BlockDraw | None = None  # None: only the coordinator knows it
    drawn: tuple[Drawn, ...] = ()  # of the growing trees, by segment
    n_trees: int = 0  # drawn so far, those without this party included
    # participants of the growing trees, by segment, as first named; of a run, all under 0
    of_segment: Mapping[int | None, tuple[str, ...]] = field(default_factory=dict)

    def agree(self, agreed: AgreeOnTable, *, has_rows: bool) -> "Companions":
        """Return the state with the blocks of a run; refuse blocks that hide too few parties.

        Blocks of other parties are checked as well: all parties were told the same, or they share
        no keys.
        """
        if self.party is None:
            return self
        blocks = tuple(map(frozenset, agreed.blocks))
        named = [party for block in agreed.blocks for party in block]
        check(len(set(named)) == len(named), "a party is in two blocks")
        check(self.party in named, "this party is in no block of parties")
        is_empty = self.party in agreed.without_rows
        check(is_empty != has_rows, "whether this party has rows is not as it declared")
        if self.scope != "step":  # there the run declared that single parties change
            sizes = [len(block.difference(agreed.without_rows)) for block in blocks]
            is_hidden = min(sizes) >= self.least
            check(is_hidden, "a block has fewer than {least} parties with rows", least=self.least)
        if agreed.draw is None:
            return replace(self, blocks=blocks)
        with_rows = tuple(len(block.difference(agreed.without_rows)) for block in blocks)
        seed = int.from_bytes(agreed.draw.seed, "little")
        least = agreed.draw.least
        check(least >= self.least, "fewer than {least} parties are to be drawn", least=self.least)
        draw = BlockDraw(seed, agreed.draw.share, least, with_rows)
        return replace(self, blocks=blocks, draw=draw)

    def join(self, segment: int | None, participants: Sequence[str], step: int = 0) -> "Companions":
        """Return the state after one more sum, over a segment's trees or over whole tables."""
        if self.draw is not None and segment is not None:
            self._check_drawn(self.draw, segment, frozenset(participants), step)
        place = None if segment is None or self.scope == "step" else self._place(segment)
        if place in self.of_segment:
            what = "tree" if self.scope == "tree" else "run"
            is_kept = self.of_segment[place] == tuple(participants)
            check(is_kept, "a {what} is counted by other participants than before", what=what)
            return self  # the blocks were checked at the first sum
        self._check_blocks(frozenset(participants))
        if place is None:
            return self
        return replace(self, of_segment={**self.of_segment, place: tuple(participants)})

    def _check_drawn(self, draw: BlockDraw, segment: int, together: Block, step: int) -> None:
        """Refuse participants other than those that the seed draws."""
        if self.scope == "step":
            drawn = draw.draw("step", step - 1, self.left)  # points were named one step before
        else:
            check(segment < len(self.drawn), "a sum is over trees that were not begun")
            drawn = self.drawn[segment]
        expected = frozenset[str]().union(*(self.blocks[number] for number in drawn))
        check(together == expected, "a sum is over other parties than the seed of the run draws")

    def begin_trees(
        self, left: frozenset[int], trees: range, segments: Sequence[int]
    ) -> "Companions":
        """Return the state for new trees of the whole run; `segments` are those of this party."""
        begun = self.begin_batch(left)
        if self.draw is None:
            return begun
        check(len(trees) > 0, "it is not told which trees are begun")
        if left == self.left:  # else the trees that were growing are begun anew
            check(trees.start >= self.n_trees, "trees are begun twice")
            skipped = range(self.n_trees, trees.start)
            check(not self._own_segments(skipped, left)[1], "trees of this party were left out")
        drawn, own = self._own_segments(trees, left)
        is_same = own == [*segments] or self.scope == "step"
        check(is_same, "trees have other participants than the seed of the run draws")
        return replace(begun, drawn=tuple(drawn), n_trees=trees.stop)

    def _own_segments(self, trees: range, left: frozenset[int]) -> tuple[list[Drawn], list[int]]:
        """Return the draws of a batch, and the number of that of each tree of this party."""
        assert self.draw is not None
        if self.scope == "step":
            return [], []
        by_tree = self.draw.of_trees(trees, self.scope, left)
        groups = number_groups(by_tree)
        own = {number for number, block in enumerate(self.blocks) if self.party in block}
        return groups, [groups.index(drawn) for drawn in by_tree if not own.isdisjoint(drawn)]

    def _place(self, segment: int) -> int:
        """Return where the participants of a segment are kept: a run has one place."""
        return segment if self.scope == "tree" else 0

    def _check_blocks(self, together: Block) -> None:
        known = frozenset[str]().union(*self.blocks)
        check(together <= known, "a sum is over parties that are in no block")
        for number, block in enumerate(self.blocks):
            is_part = not together.isdisjoint(block)
            check(not is_part or number not in self.left, "a party that left the run takes part")
            check(not is_part or block <= together, "a sum is over a part of a block of parties")

    def begin_batch(self, left: frozenset[int]) -> "Companions":
        """Return the state for new trees; blocks that left the run do not come back."""
        check(left >= self.left, "parties that left the run are to take part again")
        if self.party is None:
            return replace(self, left=left)
        check(max(left, default=0) < len(self.blocks), "there is no such block")
        gone = frozenset[str]().union(*(self.blocks[number] for number in left))
        check(self.party not in gone, "this party's block left the run")
        kept = self.of_segment if self.scope == "run" else {}
        present = {
            place: tuple(name for name in together if name not in gone)
            for place, together in kept.items()
        }
        return replace(self, left=left, of_segment=present)
