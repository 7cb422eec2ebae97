"""The label party's decisions about a batch of growing trees.

It decrypts what others' cuts leave on the left, scores them and its own by the same formula, and
follows the rows of every node, so that it knows what its labels add up to there.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.gains import outbid
from fedforest.kernels.growth.partition import STAYS
from fedforest.kernels.layout import NO_SPLIT
from fedforest.kernels.prediction.walk import Leaves
from fedforest.kernels.splits.binary import weigh_nodes
from fedforest.protocol.asking import blame, check
from fedforest.protocol.fates import pack_fates
from fedforest.protocol.payloads import RowBits
from fedforest.protocol.vertical.encrypted.cut_lists import CutReader, Unseal, refuse_spoiled
from fedforest.protocol.vertical.encrypted.cut_scores import (
    describe_left,
    keep_best_of_columns,
    order_categories,
    score_cuts,
)
from fedforest.protocol.vertical.encrypted.messages import ChooseCuts, CutsChosen, JudgeChildren
from fedforest.protocol.vertical.encrypted.payloads import CutChoice, EncryptedCuts
from fedforest.protocol.vertical.messages import StartTrees
from fedforest.protocol.vertical.moves import NodeBits
from fedforest.protocol.vertical.party_trees import (
    SplitNodes,
    VerticalMoved,
    VerticalPartyTrees,
)
from fedforest.tree.forest.forest import Shape
from fedforest.tree.forest.partial import NOBODY, ForestOutline
from fedforest.tree.growth.batches import OwnRows
from fedforest.tree.growth.decisions import ColumnBits, Growth, GrowthRules
from fedforest.tree.growth.structure import GrowthStep
from fedforest.tree.table.targets import TargetKind, rows_of
from fedforest.tree.workers import Workers

UnsealOf = Callable[[int, memoryview, bytes], bytes]


class OfferedCuts(NamedTuple):
    """A party's cuts as the label party reads and orders them (`cut_scores.py`)."""

    first: NDArray[np.int64]  # cut of each node, and last the number of cuts
    left: NDArray[np.int64]  # (cuts, sums) as those that describe nodes
    score: NDArray[np.float64]
    place: NDArray[np.int64]  # of each cut in the party's list
    column: NDArray[np.int64]  # the first category of the cut's column; of numbers the cut itself

    def best(self, n_nodes: int) -> NDArray[np.float64]:
        """Return the best score of each node."""
        best = np.full(n_nodes, NO_SPLIT)
        has_cuts = np.flatnonzero(np.diff(self.first))
        if len(has_cuts):
            best[has_cuts] = np.maximum.reduceat(self.score, self.first[has_cuts])
        return best

    def tied(self, node: int, score: float) -> NDArray[np.int64]:
        """Return the cuts of a node that score so much."""
        first, last = self.first[node], self.first[node + 1]
        tied: NDArray[np.int64] = first + np.flatnonzero(self.score[first:last] == score)
        return tied

    def positions(self, node: int, score: float) -> NDArray[np.int64]:
        """Return where a node's cuts that score so much are in its list, or what goes left."""
        spans = [self.place[self.column[cut] : cut + 1] for cut in self.tied(node, score).tolist()]
        places = np.concatenate([np.zeros(0, np.int64), *spans])
        positions: NDArray[np.int64] = places - self.first[node]
        return positions


class LabelTrees(VerticalPartyTrees):
    """Follows a batch of trees with the labels, and decides."""

    def __init__(  # noqa: PLR0913, PLR0917 - those of every party, rules, and keys
        self,
        own: OwnRows,
        start: StartTrees,
        workers: Workers,
        rules: GrowthRules,
        kind: TargetKind,
        n_columns: int,
        reader: CutReader,
    ) -> None:
        """`kind` as that of `own`, with the codes of classes; `n_columns` of all parties."""
        super().__init__(own, start, workers, rules.max_depth)
        self._reader = reader
        roots = self._search.root_sums()
        seeds = np.zeros(len(roots), np.uint64)  # the coordinator draws candidates
        bits = ColumnBits.of([n_columns])
        self._growth = Growth(rules, kind, bits, seeds, roots, workers)
        self._has_roots = False
        self._best = np.zeros(0)
        self._owner = np.zeros(0, np.int16)
        self._offered: list[OfferedCuts] = []
        self._own: SplitNodes | None = None  # in a step that is chosen and not judged

    def judge_roots(self) -> memoryview:
        """Tell which roots stay open."""
        check(not self._has_roots, "roots are judged twice")
        step = self._growth.root_step
        if not (step.fate == STAYS).all():
            self._advance(step, NodeBits(self._rows.sizes), None)
        self._has_roots = True
        return pack_fates(step.is_split, step.fate)

    def choose(self, request: ChooseCuts, n_before: int, unseal: UnsealOf) -> CutsChosen:
        """Choose the best cut of every open node among those of others and of own columns.

        `n_before` of the others come before the label party; `unseal` takes their number first.
        """
        check(self._has_roots and self._own is None, "cuts are to be chosen out of turn")
        n_nodes, n_others = self._growth.n_open, len(request.offers)
        own_candidates = self.read_candidates(request.candidates, None)
        offers = enumerate(request.offers)
        offered = [self._read(cuts, partial(unseal, number)) for number, cuts in offers]
        self._has_searched = True
        own_scores = self._search.find(own_candidates, self._structure.open)
        best, owner = np.full(n_nodes, NO_SPLIT), np.full(n_nodes, NOBODY, np.int16)
        for number in range(n_others + 1):
            if number == n_before:
                outbid(own_scores, n_others, best, owner)
            if number < n_others:
                outbid(offered[number].best(n_nodes), number, best, owner)
        is_split = self._growth.choose(best)
        owner[~is_split] = NOBODY
        self._best, self._owner, self._offered = best, owner, offered
        self._own = self.split(np.flatnonzero(owner == n_others), with_sums=True)
        choices = [self._tell(number) for number in range(n_others)]
        own_choice = CutChoice.of(owner == n_others, [])
        bits, routed = RowBits.of(self._own.bits), RowBits.of(self._own.routed)
        return CutsChosen((*choices, own_choice), bits, routed)

    def _tell(self, number: int) -> CutChoice:
        is_won = self._owner == number
        cuts = self._offered[number]
        nodes = np.flatnonzero(is_won).tolist()
        return CutChoice.of(is_won, [cuts.positions(node, self._best[node]) for node in nodes])

    def _read(self, cuts: EncryptedCuts, unseal: Unseal) -> OfferedCuts:
        """Decrypt and score the cuts of a party."""
        sums, kind = self._growth.sums, self._growth.kind
        with refuse_spoiled():
            counts, numbers = self._reader.open(cuts, self._node_draws(), unseal)
        is_weighted = len(self._search.targets.kernel.weights) > 0
        left = describe_left(counts, numbers, kind, is_weighted=is_weighted)
        totals = sums[counts.node]
        fits = (left >= 0) & (left <= totals) if not kind.is_regression else np.ones(1, np.bool_)
        is_real = bool(fits.all()) and bool((counts.rows <= rows_of(totals, kind)).all())
        check(is_real, "an encrypted sum is more than its node has: it was spoiled")
        ordered = order_categories(counts, left, sums, kind)
        first = np.concatenate([[0], np.cumsum(counts.n_cuts)])
        rules = self._search._rules_at(self._structure.open)
        score = score_cuts(first, ordered.left, sums, kind, rules)
        keep_best_of_columns(ordered, score)
        return OfferedCuts(first, ordered.left, score, ordered.place, ordered.column)

    def _node_draws(self) -> NDArray[np.int64]:
        """Count the rows of every open node as often as they were drawn."""
        sums = np.zeros((self._growth.n_open, 3), np.int64)
        weigh_nodes(self._rows.order, sums, 0, len(sums))
        return sums[:, 0] + sums[:, 1]

    def judge_children(self, request: JudgeChildren) -> memoryview:
        """Follow the rows of all split nodes; tell the fates of their children."""
        own = self._own
        check(own is not None, "children are to be judged out of turn")
        assert own is not None
        is_split = self._owner != NOBODY
        nodes = np.flatnonzero(is_split & (self._owner != len(self._offered)))
        parts = [("coordinator", nodes, request.bits), ("here", own.nodes, RowBits.of(own.bits))]
        with blame("coordinator"):
            bits = NodeBits(self._rows.sizes, parts, self._min_rows_leaf)
            routed = self._route(nodes, request.left_out_bits)
        split = np.flatnonzero(is_split)
        left = self._search._sums.of_left_children(split, bits.offsets[split], bits.bits)
        self._check_sums(split, left)
        step = self._growth.advance(is_split, self._best, left)
        self._advance(step, bits, routed)
        self._own = None
        return pack_fates(step.is_split, step.fate)

    def _route(self, foreign: NDArray[np.int64], packed: RowBits) -> NodeBits | None:
        if self._routing is None:
            check(not packed.data, "row bits came of rows that trees did not leave out")
            return None
        ours = ("here", self._own_nodes, RowBits.of(self._own_routed))
        return NodeBits(self._routing.rows.sizes, [("coordinator", foreign, packed), ours])

    def _check_sums(self, split: NDArray[np.int64], left: NDArray[np.int64]) -> None:
        """Refuse rows of a node that others split if they do not add up to the chosen cut."""
        kind = self._growth.kind
        columns = [0, 1, 2] if kind.is_regression else list(range(kind.n_sums))
        for node, found in zip(split.tolist(), left, strict=True):
            number = int(self._owner[node])
            if number == len(self._offered):
                continue
            cuts = self._offered[number]
            tied = cuts.left[cuts.tied(node, self._best[node])]
            said = (tied[:, columns] == found[columns]).all(axis=1)
            check(
                bool(said.any()), "the rows of a split do not add up to the sums it was chosen by"
            )

    def _advance(self, step: GrowthStep, bits: NodeBits, routed: NodeBits | None) -> None:
        n_open = len(step.source)
        places = bits.offsets, bits.left_rows
        if self._routing is not None and routed is None:  # roots that are leaves at once
            routed = NodeBits(self._routing.rows.sizes)
        self.move(VerticalMoved(step.is_split, step.fate, n_open, bits.bits, *places, routed))

    def outline(self, shape: Shape) -> ForestOutline:
        """Return leaves and the decrease of each split; the coordinator knows the owners."""
        growth, offsets = self._growth, shape.tree_start
        leaves = Leaves(*growth.leaves.assemble(offsets))
        nobody, decrease = np.full(shape.n_nodes, NOBODY, np.int16), growth.flat_decrease()
        return ForestOutline(shape, nobody, leaves, decrease, growth.kind.n_classes)
