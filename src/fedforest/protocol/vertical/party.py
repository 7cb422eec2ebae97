"""The party of vertical training.

Who learns what. A party sees the labels in the protection of the run, the shape of the trees, which
rows go left or right at every node, and its own splits. It never sees a column, a bin edge, a gain
or a name of another party, nor who split a node. It gives away the best gain of each open node over
its own candidate columns, and where rows go at the nodes it won.
"""

from dataclasses import dataclass
from typing import Any, TYPE_CHECKING

import numpy as np

from fedforest.errors import ProtocolError
from fedforest.kernels.walk import Leaves
from fedforest.privacy.randomized_response import Entropy
from fedforest.protocol.asking import Accepted, Message, blame, check
from fedforest.protocol.payloads import (
    Importances,
    NodeSums,
    OutOfBagScores,
    TableSize,
    from_bytes,
    to_bytes,
)
from fedforest.protocol.payloads import OutOfBagVotes as VotesPayload
from fedforest.protocol.vertical.labels import LabelSource, read_labels
from fedforest.protocol.vertical.messages import (
    ApplySplits,
    ColumnsWeighed,
    FindSplits,
    FinishTrees,
    KeepTrees,
    LabelsShared,
    LeafValues,
    Moves,
    Prepare,
    Prepared,
    ShareLabels,
    SplitsApplied,
    SplitsFound,
    StartTrees,
    TakeLabels,
    TreesFinished,
    TreesKept,
    TreesStarted,
    WeighColumns,
)
from fedforest.protocol.vertical.out_of_bag import OutOfBagRecord
from fedforest.protocol.vertical.party_trees import PartyTrees
from fedforest.tree.bins import Bins, fit_bins
from fedforest.tree.partial import PartialForest, concatenate_partials, own_importances
from fedforest.tree.search import make_columns
from fedforest.tree.table import Table
from fedforest.tree.workers import ALONE, Workers

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from fedforest.tree.targets import TrainingTargets
    from fedforest.kernels.layout import Columns
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, eq=False)
class PartyModel:
    """What a party keeps of a trained forest: its bins and its share of the trees."""

    bins: Bins
    partial: PartialForest
    out_of_bag: OutOfBagRecord | None = None  # at the label party


class VerticalParty:
    """Answers the coordinator of a vertical training with one table."""

    def __init__(
        self,
        table: Table,
        entropy: Entropy,
        *,
        labels: LabelSource | None = None,
        model: PartyModel | None = None,
        workers: Workers = ALONE,
    ) -> None:
        self._table = table
        self._entropy = entropy
        self._label_source = labels
        self._workers = workers
        self._bins = model.bins if model else None
        self._finished = [model.partial] if model else []
        self._columns: Columns | None = None
        self._targets: TrainingTargets | None = None
        self._trees: PartyTrees | None = None
        self._out_of_bag = model.out_of_bag.copy() if model and model.out_of_bag else None
        self._handlers: dict[type[Message], Callable[[Any], Message]] = {
            Prepare: self._prepare,
            ShareLabels: self._share_labels,
            TakeLabels: self._take_labels,
            StartTrees: self._start_trees,
            FindSplits: self._find_splits,
            ApplySplits: self._apply_splits,
            FinishTrees: self._finish_trees,
            KeepTrees: self._keep_trees,
            WeighColumns: self._weigh_columns,
        }

    def handle(self, request: Message) -> Message:
        """Answer one request; a request out of place is refused and changes nothing."""
        with blame("coordinator"):
            return self._handlers[type(request)](request)

    def model(self) -> PartyModel:
        """The party's share of the forest."""
        if self._bins is None:
            raise ProtocolError("there is no model yet")
        return PartyModel(self._bins, concatenate_partials(self._finished), self._out_of_bag)

    def _prepare(self, request: Prepare) -> Prepared:
        if self._bins is None:
            self._bins = fit_bins(
                self._table,
                seed=request.bin_seed,
                max_bins=request.max_bins,
                workers=self._workers,
            )
        binned = self._bins.transform(self._table, self._workers)
        self._columns = make_columns(binned, self._bins.n_bins, self._bins.is_categorical)
        size = TableSize(self._table.n_rows, self._table.n_features)
        return Prepared(size, self._label_source.scale() if self._label_source else None)

    def _share_labels(self, request: ShareLabels) -> LabelsShared:
        if self._label_source is None:
            raise ProtocolError("labels are asked of a party that has none")
        shared, key = self._label_source.share(request, self._entropy)
        if self._out_of_bag is None or self._out_of_bag.n_rows != self._table.n_rows:
            self._out_of_bag = OutOfBagRecord(key, self._table.n_rows)
        self._out_of_bag.key = key
        return shared

    def _take_labels(self, request: TakeLabels) -> Accepted:
        self._targets = read_labels(request, self._table.n_rows)
        return Accepted()

    def _start_trees(self, request: StartTrees) -> TreesStarted:
        if self._columns is None or self._targets is None:
            raise ProtocolError("trees are started before columns and labels are there")
        self._trees = PartyTrees(self._columns, self._targets, request, self._workers)
        if self._label_source is None:
            return TreesStarted()
        sizes = NodeSums.of(self._trees.root_sizes())
        return TreesStarted(self._trees.root_sums(), sizes)

    def _growing(self) -> PartyTrees:
        if self._trees is None:
            raise ProtocolError("no trees were started")
        return self._trees

    def _find_splits(self, request: FindSplits) -> SplitsFound:
        self._follow(request.moves)
        return SplitsFound(self._growing().find(request.candidates))

    def _follow(self, moves: Moves | None) -> None:
        if moves is not None:
            self._growing().follow(moves)

    def _apply_splits(self, request: ApplySplits) -> SplitsApplied:
        return self._growing().apply(request.won, with_bits=request.with_bits)

    def _finish_trees(self, request: FinishTrees) -> TreesFinished:
        self._follow(request.moves)
        trees = self._growing()
        partial = trees.finish()
        scores = None
        if request.leaves is not None and self._out_of_bag is not None:
            leaves = _read_leaves(request.leaves, partial.shape.n_nodes)
            leaf_of, hard = trees.leaf_of_left_out, request.hard_votes
            curve = self._out_of_bag.add(partial.shape, leaves, leaf_of, hard=hard)
            scores = OutOfBagScores.of(curve)
        self._finished.append(partial)
        self._trees = None
        return TreesFinished(scores)

    def _keep_trees(self, request: KeepTrees) -> TreesKept:
        whole = concatenate_partials(self._finished)
        check(request.n_trees <= whole.shape.n_trees, "more trees are to be kept than there are")
        self._finished = [whole.first_trees(request.n_trees)]
        if self._out_of_bag is None:
            return TreesKept()
        self._out_of_bag.close(whole.shape.n_trees - request.n_trees)
        votes = VotesPayload(to_bytes(self._out_of_bag.means(), "<f8"))
        return TreesKept(votes if request.with_votes else None)

    def _weigh_columns(self, request: WeighColumns) -> ColumnsWeighed:
        partial = concatenate_partials(self._finished)
        n_own, n_trees = len(partial.own_nodes()), partial.shape.n_trees
        decrease = from_bytes(request.own_decrease, "<f8", n_own, "decreases")
        totals = from_bytes(request.tree_totals, "<f8", n_trees, "tree totals")
        return ColumnsWeighed(Importances.of(own_importances(partial, decrease, totals)))


def _read_leaves(values: LeafValues, n_nodes: int) -> Leaves:
    start = from_bytes(values.start, "<i8", n_nodes + 1, "leaf starts")
    check(bool((np.diff(start) >= 0).all()) and start[0] == 0, "leaf starts are out of order")
    value: NDArray[np.float64] = from_bytes(values.value, "<f8", int(start[-1]), "leaf values")
    label = from_bytes(values.label, "<u2", len(values.label) // 2, "leaf labels")
    check(len(label) in (0, len(value)), "leaf labels and values differ in number")
    return Leaves(start, label, value)
