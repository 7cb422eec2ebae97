"""The party of vertical training.

Who learns what. A party sees the labels in the protection of the run, the shape of the trees, which
rows go left or right at every node, and its own splits. It never sees a column, a bin edge, a gain
or a name of another party, nor who split a node. It gives away the best gain of each open node over
its own candidate columns, and where rows go at the nodes it won.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import numpy as np
from msgspec.structs import astuple

from fedforest.errors import ProtocolError
from fedforest.kernels.prediction.walk import Leaves
from fedforest.privacy.randomized_response import Randomness
from fedforest.protocol.asking import Accepted, Message, answer, check
from fedforest.protocol.payloads import (
    EncodedLabels,
    Importances,
    NodeSums,
    OutOfBagScores,
    TableSize,
    from_bytes,
)
from fedforest.protocol.payloads import OutOfBagVotes as Votes
from fedforest.protocol.turns import MOST_SLOTS
from fedforest.protocol.vertical.labels import LabelSource, read_criterion, read_labels
from fedforest.protocol.vertical.messages import (
    ApplySplits,
    BinColumns,
    ColumnsBinned,
    ColumnsWeighed,
    FindSplits,
    FinishTrees,
    LabelsShared,
    LeafValues,
    ShareLabels,
    SplitsApplied,
    SplitsFound,
    StartTrees,
    TakeLabels,
    TreesFinished,
    TreesStarted,
    WeighColumns,
)
from fedforest.protocol.vertical.out_of_bag import AnswerKey, OutOfBagRecord
from fedforest.protocol.vertical.party_trees import MAX_ENTRIES, VerticalPartyTrees
from fedforest.tree.forest.forest import LEAF, Shape
from fedforest.tree.forest.partial import (
    ForestOutline,
    PartialForest,
    concatenate_partials,
    no_trees,
    own_importances,
)
from fedforest.tree.growth.batches import OwnRows, RowsHere
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT
from fedforest.tree.table.bins import Bins
from fedforest.tree.table.pieces import Allocate, TableSource
from fedforest.tree.workers import ALONE, Workers

Approve = Callable[[Message], None]  # asks the accountant before labels leave or trees start


@dataclass(frozen=True, slots=True, eq=False)
class PartyModel:
    """A party's portion of a trained forest: its bins and its partial trees."""

    bins: Bins
    partial: PartialForest
    out_of_bag: OutOfBagRecord | None = None  # at the label party
    outline: ForestOutline | None = None  # of leaves, at the label party of encrypted labels


class VerticalParty:
    """The handler of a party's requests in a vertical training, over one table."""

    def __init__(  # noqa: PLR0913 - everything that a party brings into a run
        self,
        table: TableSource,
        randomness: Randomness,
        *,
        labels: LabelSource | None = None,
        model: PartyModel | None = None,
        approve: Approve | None = None,
        max_depth: int = NO_DEPTH_LIMIT,
        workers: Workers = ALONE,
        allocate: Allocate = np.empty,
        rows: OwnRows | None = None,
    ) -> None:
        """`rows` are those of the table, where they are not in this process."""
        self._table = table
        self._rows = rows or RowsHere(table, workers, allocate)
        self._approve = approve
        self._randomness = randomness
        self._label_source = labels
        self._workers = workers
        self._max_depth = max_depth
        self._bins = model.bins if model else None
        self._finished = {0: model.partial} if model else {}  # by the number of the batch
        self._trees: dict[int, tuple[int, VerticalPartyTrees]] = {}  # batches that grow, by slot
        self._n_begun = len(self._finished)  # batches
        self._shared = b""  # digest of the labels that left, at the party that owns them
        self._all_voted = True  # no tree so far let rows that it left out go without a vote
        self._out_of_bag = model.out_of_bag.copy() if model and model.out_of_bag else None

    def _handlers(self) -> dict[type[Message], Callable[[Any], Message]]:
        # not kept: a party that refers to itself holds its memory until cycles are looked for
        return {
            BinColumns: self._prepare,
            ShareLabels: self._share_labels,
            TakeLabels: self._take_labels,
            StartTrees: self._start_trees,
            FindSplits: self._find_splits,
            ApplySplits: self._apply_splits,
            FinishTrees: self._finish_trees,
            WeighColumns: self._weigh_columns,
        }

    def handle(self, request: Message) -> Message:
        """Answer one request; a request out of place is refused and changes nothing."""
        return answer(self._handlers(), request)

    def model(self, n_trees: int | None = None) -> PartyModel:
        """Return the party's partial forest.

        A party that was away when the run ended early passes the number of trees of the forest: it
        may have finished a batch that others did not.
        """
        if self._bins is None:
            raise ProtocolError.stating("there is no model yet")
        n_dropped = 0 if n_trees is None else self._count_beyond(n_trees)
        out_of_bag = self._out_of_bag
        if out_of_bag is not None and n_dropped:
            out_of_bag = out_of_bag.copy(without_last=n_dropped)
        return PartyModel(self._bins, self._whole(self._without_last(n_dropped)), out_of_bag)

    def _whole(self, finished: list[PartialForest]) -> PartialForest:
        """Join the party's partial forests of several batches of trees."""
        return concatenate_partials(finished) if finished else no_trees(self._table.n_features)

    def _prepare(self, request: BinColumns) -> ColumnsBinned:
        bins = self._bins
        if bins is None:
            bins = self._rows.fit_bins(request.bin_seed, request.max_bins)
        self._rows.bin_columns(bins)
        size = TableSize(self._table.n_rows, self._table.n_features)
        labels = self._label_source
        if labels is not None and request.criterion is not None:
            labels = labels.scored_by(read_criterion(request.criterion))
        prepared = ColumnsBinned(size, None if labels is None else labels.scale())
        self._label_source = labels
        self._bins = bins
        return prepared

    def _share_labels(self, request: ShareLabels) -> LabelsShared:
        if self._label_source is None:
            raise ProtocolError.stating("labels are asked of a party that has none")
        # a second answer would let noise average out, or codes be compared
        check(not self._shared, "labels are asked for twice")
        shared, key = self._label_source.share(request, self._randomness)
        if self._approve is not None:
            self._approve(request)  # last: labels that are refused anyway are not paid for
        given = shared.labels or shared.noisy_labels
        assert given is not None
        self._shared = _digest(given)
        self._keep_answers(key)
        return shared

    def _keep_answers(self, key: AnswerKey) -> None:
        """Votes of rows left out are compared with these."""
        if self._out_of_bag is None or self._out_of_bag.n_rows != self._table.n_rows:
            self._out_of_bag = OutOfBagRecord(key, self._table.n_rows)
            self._all_voted = not self._finished
        self._out_of_bag.key = key

    def _take_labels(self, request: TakeLabels) -> Accepted:
        targets = read_labels(request, self._table.n_rows)
        is_own = self._label_source is None or _digest(request.labels) == self._shared
        check(is_own, "labels are not those that their owner gave out")
        self._rows.take_targets(targets)
        return Accepted()

    def _start_trees(self, request: StartTrees) -> TreesStarted:
        if not self._rows.is_ready:
            raise ProtocolError.stating("trees are started before columns and labels are there")
        votes = request.with_left_out and self._label_source is not None
        check(self._all_voted or not votes, "rows that earlier trees left out have no votes here")
        if self._approve is not None:
            self._approve(request)
        self._check_beside(request)
        trees = self._make_trees(request)
        self._trees[request.slot] = self._n_begun, trees
        self._n_begun += 1
        if self._label_source is None:
            return TreesStarted()
        if not votes and self._out_of_bag is not None:
            self._all_voted = False
            self._out_of_bag.forget()
        return TreesStarted(self._tell_roots(trees), NodeSums.of(trees.root_sizes()))

    def _make_trees(self, request: StartTrees) -> VerticalPartyTrees:
        return VerticalPartyTrees(self._rows, request, self._workers, self._max_depth)

    def _tell_roots(self, trees: VerticalPartyTrees) -> NodeSums | None:
        """Return the label sums of whole trees, at the label party."""
        return trees.root_sums()

    def _check_beside(self, request: StartTrees) -> None:
        """Batches that grow side by side are limited as one is."""
        beside = [trees for slot, (_, trees) in self._trees.items() if slot != request.slot]
        if not beside:
            return
        check(not request.with_left_out, "rows are left out of one batch at a time")
        n_entries = len(request.row_seeds) // 8 * self._table.n_rows
        n_entries += sum(trees.n_entries for trees in beside)
        check(n_entries <= MAX_ENTRIES, "batches side by side have too many trees")

    @property
    def _is_growing(self) -> bool:
        return bool(self._trees)

    def _growing(self, slot: int = 0) -> VerticalPartyTrees:
        if slot not in self._trees:
            raise ProtocolError.stating("no trees were started")
        return self._trees[slot][1]

    def _find_splits(self, request: FindSplits) -> SplitsFound:
        trees = self._growing(request.slot)
        moved = trees.read_moves(request.moves)
        candidates = trees.read_candidates(request.candidates, moved)
        trees.move(moved)
        return SplitsFound(trees.find(candidates))

    def _apply_splits(self, request: ApplySplits) -> SplitsApplied:
        return self._growing(request.slot).apply(request.won, with_bits=request.with_bits)

    def _finish_trees(self, request: FinishTrees) -> TreesFinished:
        trees = self._growing(request.slot)
        moved = trees.read_moves(request.moves)
        shape = trees.shape_after(moved)
        leaves = self._leaves_to_vote(request, shape)
        trees.move(moved)
        number, _ = self._trees.pop(request.slot)
        self._finished[number] = trees.finish(shape)
        if leaves is None or self._out_of_bag is None:
            return TreesFinished()
        leaf_of, hard = trees.leaf_of_left_out, request.hard_votes
        curve = self._out_of_bag.add(shape, leaves, leaf_of, hard=hard)
        return TreesFinished(OutOfBagScores.of(curve))

    def _leaves_to_vote(self, request: FinishTrees, shape: Shape) -> Leaves | None:
        """Return the leaves, if rows that trees of this shape left out are to vote."""
        return (
            None
            if request.leaves is None
            else self._read_leaves(request.leaves, shape, request.slot)
        )

    def _read_leaves(self, values: LeafValues, shape: Shape, slot: int) -> Leaves:
        """Read the values of leaves, for the votes on rows that trees of this shape left out."""
        check(self._out_of_bag is not None, "leaves are for the label party")
        check(self._growing(slot).routes_left_out, "leaves came, but no rows were left out")
        assert self._out_of_bag is not None
        return read_leaves(values, shape, self._out_of_bag.key.n_classes)

    def _weigh_columns(self, request: WeighColumns) -> ColumnsWeighed:
        check(not self._is_growing or request.ends_early, "trees are still growing")
        remaining = len(request.tree_totals) // 8 if request.ends_early else None
        n_dropped = self._count_dropped(request.n_dropped, remaining)
        kept = self._without_last(n_dropped)
        partial = self._whole(kept)
        n_own, n_trees = len(partial.own_nodes()), partial.shape.n_trees
        decrease = from_bytes(request.own_decrease, "<f8", n_own, "decreases")
        totals = from_bytes(request.tree_totals, "<f8", n_trees, "tree totals")
        with np.errstate(all="ignore"):  # the coordinator's numbers may be any
            importances = own_importances(partial, decrease, totals)
        check(bool(np.isfinite(importances).all()), "decreases do not fit the trees' totals")
        self._keep(kept, n_dropped)
        return ColumnsWeighed(Importances.of(importances), self._votes(request.with_votes))

    def _keep(self, kept: list[PartialForest], n_dropped: int) -> None:
        """Training is over with these trees."""
        self._finished, self._trees = dict(enumerate(kept)), {}
        if self._out_of_bag is not None:
            self._out_of_bag.close(n_dropped)

    def _count_dropped(self, n_dropped: int, n_trees: int | None) -> int:
        """Count the finished trees that are dropped, all of the last batch.

        `n_trees` remain where the run ends early.
        """
        if n_trees is not None:
            check(n_dropped == 0, "trees are dropped in two ways")
            return self._count_beyond(n_trees)
        batches = self._batches()
        last = batches[-1].shape.n_trees if batches else 0
        check(n_dropped < max(1, last), "more trees are to be dropped than there are")
        return n_dropped

    def _count_beyond(self, n_trees: int) -> int:
        """Count the finished trees of this party that the forest lacks: of the last batches."""
        sizes = [partial.shape.n_trees for partial in self._batches()]
        n_beyond = sum(sizes) - n_trees
        may_lack = accumulate(reversed(sizes[-MOST_SLOTS:]), initial=0)
        is_known = n_trees > 0 and n_beyond in set(may_lack)
        check(is_known, "the forest has other trees than those that were grown here")
        return n_beyond

    def _without_last(self, n_dropped: int) -> list[PartialForest]:
        """Return the finished trees without the last ones."""
        kept = self._batches()
        while n_dropped:
            last = kept.pop()
            n_kept = max(0, last.shape.n_trees - n_dropped)
            n_dropped -= last.shape.n_trees - n_kept
            if n_kept:
                kept.append(last.first_trees(n_kept))
        return kept

    def _batches(self) -> list[PartialForest]:
        """Return the finished batches in the order in which they were begun."""
        return [self._finished[number] for number in sorted(self._finished)]

    def _votes(self, with_votes: bool) -> Votes | None:
        if self._out_of_bag is None or not with_votes:
            return None
        return Votes.of(self._out_of_bag.means())


def _digest(labels: EncodedLabels) -> bytes:
    """Hash labels as they travel."""
    digest = blake2b(digest_size=32)
    for content in astuple(labels):
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()


def read_leaves(values: LeafValues, shape: Shape, n_classes: int) -> Leaves:
    """Read leaves that rows can vote by; refuse empty leaves and unknown classes."""
    start = from_bytes(values.start, "<i8", shape.n_nodes + 1, "leaf starts")
    in_order = start[0] == 0 and bool((start[:-1] <= start[1:]).all())
    check(in_order, "leaf starts are out of order")
    value = from_bytes(values.value, "<f8", len(values.value) // 8, "leaf values")
    check(int(start[-1]) == len(value), "leaf values are not as many as their starts say")
    label = from_bytes(values.label, "<u2", len(value) if n_classes else 0, "leaf labels")
    is_leaf, count = shape.left_child == LEAF, np.diff(start)
    most = max(1, n_classes)
    speaks = np.where(is_leaf, (count >= 1) & (count <= most), count == 0)
    check(bool(speaks.all()), "leaf values are not those of the leaves")
    check(bool((label < most).all()), "a leaf speaks of a class that there is not")
    check(bool(np.isfinite(value).all()), "a leaf value is not a number")
    return Leaves(start, label, value)
