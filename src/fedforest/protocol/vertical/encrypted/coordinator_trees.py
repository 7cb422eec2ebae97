"""The coordinator's part in a batch of growing trees whose labels it cannot read.

It draws candidates, carries cuts to the label party and bits to everybody, and hears what becomes
of every node. It knows how many rows a node has and who split it, and no sum, gain or leaf value.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.layout import NO_GROUP
from fedforest.protocol.asking import blame, check
from fedforest.protocol.fates import unpack_fates, unpack_flags
from fedforest.protocol.payloads import RowBits
from fedforest.protocol.vertical.encrypted.messages import (
    ApplyCuts,
    ChooseCuts,
    CutsChosen,
    CutsOffered,
    JudgeChildren,
    NodesJudged,
    OfferCuts,
)
from fedforest.protocol.vertical.messages import SplitsApplied
from fedforest.protocol.vertical.moves import AwaitedBits, NodeBits, follow_sizes
from fedforest.protocol.vertical.routed_trees import RoutedTrees
from fedforest.tree.forest.forest import Shape
from fedforest.tree.forest.partial import NOBODY, ForestOutline, no_leaves
from fedforest.tree.growth.decisions import OpenTrees
from fedforest.tree.workers import Workers

Sizes = tuple[NDArray[np.int64], NDArray[np.int64]]


class BlindCoordinatorTrees(RoutedTrees):
    """Carries a batch of trees step by step to those who decide and those who split."""

    def __init__(  # noqa: PLR0913, PLR0917 - what the coordinator knows at the start of a batch
        self,
        columns_of: Mapping[str, int],
        label_party: str,
        opened: OpenTrees,
        root_sizes: Sizes,
        judged: NodesJudged,
        workers: Workers,
        *,
        with_left_out: bool,
    ) -> None:
        """`root_sizes` are the rows that trees drew, and those that they left out."""
        self._sizes, left_out = root_sizes
        super().__init__(columns_of, opened, left_out if with_left_out else None, workers)
        self._label_party = label_party
        nobody = np.full(len(left_out), NOBODY, np.int16)
        bits, left_out_bits = NodeBits(self._sizes), NodeBits(left_out)
        self._settle(judged, np.zeros(len(left_out), np.bool_), nobody, bits, left_out_bits)
        opened.forget_tries()

    def offer_requests(self, parties: Iterable[str]) -> dict[str, OfferCuts]:
        """Tell each party without labels the last step, and candidates of its columns."""
        moves, self._candidates = self.tell_step(parties)
        return {p: OfferCuts(moves[p], self.candidates_of(p, self._candidates)) for p in moves}

    def choose_request(self, offered: Mapping[str, CutsOffered]) -> ChooseCuts:
        """Collect all cuts for the label party."""
        self._offering = [party for party in self._parties if party in offered]
        cuts = tuple(offered[party].cuts for party in self._offering)
        parties = tuple(p for p in self._parties if p in offered or p == self._label_party)
        return ChooseCuts(self.candidates_of(self._label_party, self._candidates), cuts, parties)

    def choose(self, chosen: CutsChosen) -> dict[str, ApplyCuts]:
        """Read who splits which nodes; return what the winners are asked."""
        choosers = [*self._offering, self._label_party]
        with blame(self._label_party):
            check(len(chosen.choices) == len(choosers), "choices are not of all parties with cuts")
            flags = [unpack_flags(choice.won, self.n_open) for choice in chosen.choices]
            n_owners = np.sum(flags, axis=0)
            check(bool((n_owners <= 1).all()), "a node is to be split by two parties")
        self._is_split = n_owners > 0
        self._owner_now = np.full(self.n_open, NOBODY, np.int16)
        for party, is_won in zip(choosers, flags, strict=True):
            self._owner_now[is_won] = self._parties.index(party)
        nodes = {p: np.flatnonzero(won) for p, won in zip(choosers, flags, strict=True)}
        self._nodes = {party: of_party for party, of_party in nodes.items() if len(of_party)}
        own_nodes, least = list(self._nodes.values()), self._opened.rules.min_rows_leaf
        self._awaited = AwaitedBits(self._sizes, own_nodes, least)
        self._awaited_left_out = None
        if self._left_out_sizes is not None:
            self._awaited_left_out = AwaitedBits(self._left_out_sizes, own_nodes)
        if self._label_party in self._nodes:
            self._take(self._label_party, chosen.bits, chosen.left_out_bits)
        choice_of = dict(zip(choosers, chosen.choices, strict=True))
        return {p: ApplyCuts(choice_of[p]) for p in self._nodes if p != self._label_party}

    def _take(self, party: str, bits: RowBits, left_out_bits: RowBits) -> None:
        number, nodes = list(self._nodes).index(party), self._nodes[party]
        self._awaited.put(number, (party, nodes, bits))
        if self._awaited_left_out is not None:
            self._awaited_left_out.put(number, (party, nodes, left_out_bits))
        with blame(party):
            is_asked = self._awaited_left_out is not None or not left_out_bits.data
            check(is_asked, "row bits came of rows that nobody asked for")

    def judge_request(self, applied: Mapping[str, SplitsApplied]) -> JudgeChildren:
        """Collect where rows go, for the label party."""
        for party, splits in applied.items():
            self._take(party, splits.bits, splits.left_out_bits)
        own = self._parties.index(self._label_party)
        foreign = np.flatnonzero(self._is_split & (self._owner_now != own))
        left_out = np.zeros(0, np.uint8)
        if self._awaited_left_out is not None:
            left_out = self._awaited_left_out.take(foreign)
        return JudgeChildren(RowBits.of(self._awaited.take(foreign)), RowBits.of(left_out))

    def advance(self, judged: NodesJudged) -> None:
        """Make the step."""
        bits = self._awaited
        self._count_step(bits.smallest_side if self._nodes else NO_GROUP)
        owner = self._owner_now
        self._settle(judged, self._is_split, owner, bits, self._awaited_left_out)
        self._owners.append((*self._opened.structure.last_split(), owner[self._is_split]))

    def _settle(
        self,
        judged: NodesJudged,
        is_split: NDArray[np.bool_],
        owner: NDArray[np.int16],
        bits: NodeBits,
        left_out_bits: NodeBits | None,
    ) -> None:
        """Do with every node what the label party says."""
        opened = self._opened
        with blame(self._label_party):
            was_split, fate = unpack_fates(judged.fates.data, opened.n_open)
            check(bool((was_split == is_split).all()), "other nodes were split than were chosen")
            self._check_depth(is_split, fate)
        step = opened.follow(is_split, fate)
        self._sizes = follow_sizes(self._sizes, bits.left_rows, step)
        self._remember(step, owner, bits, left_out_bits)

    def _check_depth(self, is_split: NDArray[np.bool_], fate: NDArray[np.uint8]) -> None:
        depth = self._opened.structure.open.depth
        deepest = int(depth[is_split & (fate > 0)].max(initial=-1)) + 1
        check(deepest < self._opened.rules.max_depth, "a tree is deeper than the run agreed on")

    def assemble(self) -> ForestOutline:
        """Return the shape of the trees and the owner of each node; no leaf and no gain."""
        structure = self._opened.structure
        shape = Shape(structure.tree_offsets(), structure.flat_children())
        owner, decrease = self._flat_owners(shape.tree_start), np.zeros(shape.n_nodes)
        return ForestOutline(shape, owner, no_leaves(shape.n_nodes), decrease, 0)
