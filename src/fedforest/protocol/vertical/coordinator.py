"""The coordinator of vertical training: Federated Forest, a level of all trees per two exchanges.

Who learns what. The coordinator sees the labels in the protection of the run on their way to the
parties, the best gain of every party at every open node, where rows go, what leaves say, and who
split each node. It never sees a column's values, edges between bins, or names. It alone knows the
root seed and which columns were sampled.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.kernels.criteria.registry import Criterion
from fedforest.kernels.layout import NO_GROUP
from fedforest.kernels.prediction.walk import MAX_WALK_COLUMNS
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.asking import Conversation, EndEarly, ask, blame, check
from fedforest.protocol.payloads import EncodedLabels, LabelScale, to_bytes
from fedforest.protocol.vertical.coordinator_trees import VerticalCoordinatorTrees
from fedforest.protocol.vertical.labels import debias_leaves, draw_codes, read_labels
from fedforest.protocol.vertical.messages import (
    BinColumns,
    ColumnsBinned,
    ColumnsWeighed,
    FinishTrees,
    LabelsShared,
    LeafValues,
    ShareLabels,
    StartTrees,
    TakeLabels,
    TreesStarted,
    WeighColumns,
)
from fedforest.protocol.vertical.order import TrainedForest, VerticalOrder
from fedforest.protocol.vertical.sums import are_short
from fedforest.tree.forest.partial import ForestOutline, concatenate_outlines
from fedforest.tree.growth.level_loop import GrowthPlan, batches
from fedforest.tree.growth.row_sums import RowSums
from fedforest.tree.growth.rows import draw_rows
from fedforest.tree.growth.seeds import derive_seed, derive_seeds
from fedforest.tree.table.frames import common_row_count
from fedforest.tree.table.targets import (
    MAX_CLASSES,
    TARGET_BITS,
    TargetKind,
    TrainingTargets,
    encode_classes,
    encode_values,
)
from fedforest.tree.workers import ALONE, Workers


@dataclass(slots=True)
class _VerticalSession:
    """The facts that the coordinator learned at the start."""

    order: VerticalOrder
    n_rows: int
    columns_per_party: tuple[int, ...]
    scale: LabelScale
    kind: TargetKind
    targets: TrainingTargets | None  # to be added up here, where sums are too long to travel
    workers: Workers
    n_steps: list[int] = field(default_factory=list)
    smallest_group: int = NO_GROUP
    n_extra_steps: list[int] = field(default_factory=list)

    @property
    def followers(self) -> list[str]:
        """Parties that must know where rows are."""
        order = self.order
        return [
            party
            for party, n_columns in zip(order.parties, self.columns_per_party, strict=True)
            if n_columns or (order.with_left_out and party == order.label_party)
        ]


@dataclass(slots=True)
class _Harvest:
    """Complete batches of trees, and what they say of rows they left out."""

    outlines: list[ForestOutline] = field(default_factory=list)
    curve: list[float] = field(default_factory=list)
    n_trees: int = 0  # to be kept of the new ones
    ends_early: bool = False


def train(order: VerticalOrder, workers: Workers = ALONE) -> Conversation[TrainedForest]:
    """Grow a forest over the columns of all parties."""
    session = yield from _prepare(order, workers)
    harvest = yield from _grow_trees(session)
    before = [] if order.grown is None else [order.grown]
    n_before = sum(outline.shape.n_trees for outline in before)
    grown = concatenate_outlines([*before, *harvest.outlines])
    outline = grown.first_trees(n_before + harvest.n_trees)
    importances, votes = yield from _weigh_columns(session, outline, harvest)
    return TrainedForest(
        outline,
        session.columns_per_party,
        importances,
        np.array(harvest.curve[: harvest.n_trees]) if order.with_left_out else None,
        votes,
        tuple(session.n_steps[: len(harvest.outlines)]),
        tuple(session.n_extra_steps[: len(harvest.outlines)]),
        harvest.ends_early,
        session.n_rows,
        None if session.smallest_group == NO_GROUP else session.smallest_group,
    )


def _grow_trees(session: _VerticalSession) -> Conversation[_Harvest]:
    """Batch after batch, until there are enough, they do not get better, or the operator says so.

    A batch that is not complete then is given up: its trees are all about as far from their end.
    """
    harvest, stopping = _Harvest(), session.order.early_stopping
    try:
        for trees in _plan_batches(session):
            outline, scores = yield from _grow_batch(session, trees, harvest.curve)
            harvest.outlines.append(outline)
            harvest.n_trees += len(trees)
            harvest.curve.extend(scores)
            stop = stopping.stop_after(harvest.curve) if stopping else None
            if stop is not None:
                harvest.n_trees = stop
                break
    except EndEarly:
        if not harvest.outlines:
            raise
        harvest.ends_early = True
    return harvest


def _prepare(order: VerticalOrder, workers: Workers) -> Conversation[_VerticalSession]:
    """Bins at every party; sizes compared; labels given out."""
    criterion = order.parameters.scored_by
    bin_seed = derive_seed(order.seed, "bins")
    request = BinColumns(bin_seed, order.parameters.max_bins, criterion.wire)
    prepared = yield from ask(dict.fromkeys(order.parties, request))
    n_rows = common_row_count({party: prepared[party].size.n_rows for party in order.parties})
    columns = _count_columns(order, prepared)
    scale = _read_scale(order, prepared[order.label_party])
    code_of_class = draw_codes(order.seed, scale.n_classes)
    epsilon = order.response.epsilon if order.response else None
    shared = yield from ask({order.label_party: ShareLabels(code_of_class, epsilon)})
    labels = _labels_of(order, shared[order.label_party])
    take = TakeLabels(scale.n_classes, criterion.wire, labels)
    with blame(order.label_party):
        targets = read_labels(take, n_rows)  # what is wrong is the label party's fault, not ours
    yield from ask(dict.fromkeys(order.parties, take))
    kind = _describe(scale, criterion, code_of_class, is_weighted=len(labels.weights) > 0)
    own_targets = None if are_short(targets) else targets
    return _VerticalSession(order, n_rows, columns, scale, kind, own_targets, workers)


def _count_columns(order: VerticalOrder, prepared: Mapping[str, ColumnsBinned]) -> tuple[int, ...]:
    columns = tuple(prepared[party].size.n_columns for party in order.parties)
    for party, n_columns in zip(order.parties, columns, strict=True):
        with blame(party):
            check(n_columns <= MAX_WALK_COLUMNS, "it has more columns than a forest can use")
    if sum(columns) == 0:
        raise DataError.stating("No party has a column; there is nothing to learn from.")
    return columns


def _read_scale(order: VerticalOrder, prepared: ColumnsBinned) -> LabelScale:
    """Read the scale of the labels; refuse one that does not suit the task."""
    scale = prepared.scale
    with blame(order.label_party):
        check(prepared.size.n_rows > 0, "the table has no rows")
        check(scale is not None, "the label party has no labels")
        assert scale is not None
        is_regression = order.parameters.task == "regression"
        check(is_regression == (scale.n_classes == 0), "the labels are of another task")
        check(scale.n_classes <= MAX_CLASSES, "there are too many classes")
        unit, offset = scale.target_unit, scale.target_offset
        largest = unit * 2.0 ** (TARGET_BITS - 1)
        check(unit > 0.0 and math.isfinite(largest), "the unit of the targets is none")
        check(math.isfinite(offset), "the origin of the targets is not a number")
    return scale


def _labels_of(order: VerticalOrder, shared: LabelsShared) -> EncodedLabels:
    """Return the labels, in the protection that was asked for and no other."""
    labels = shared.labels if order.response is None else shared.noisy_labels
    with blame(order.label_party):
        check(labels is not None, "the labels are not protected as the run demands")
    assert labels is not None
    return labels


def _describe(
    scale: LabelScale, criterion: Criterion, code_of_class: tuple[int, ...], *, is_weighted: bool
) -> TargetKind:
    """Describe sums over labels, by the same rules as at the parties."""
    weights = np.ones(1, np.int64) if is_weighted else None
    if scale.n_classes == 0:
        return encode_values(
            np.zeros(1, np.int64), weights, scale.target_unit, scale.target_offset, criterion
        ).kind
    kind = encode_classes(np.zeros(1, np.int64), scale.n_classes, weights, criterion).kind
    return kind.with_codes(code_of_class)


def _plan_batches(session: _VerticalSession) -> Iterator[range]:
    order, n_classes = session.order, session.kind.n_classes
    first, last = order.first_tree, order.parameters.n_estimators
    for trees in batches(_growth_plan(session), session.n_rows, n_classes, first, last):
        size = order.early_stopping.patience if order.early_stopping else len(trees)
        for start in range(trees.start, trees.stop, size):
            yield range(start, min(trees.stop, start + size))


def _growth_plan(session: _VerticalSession) -> GrowthPlan:
    order = session.order
    return GrowthPlan(
        order.parameters.growth_rules(session.n_rows, sum(session.columns_per_party)),
        order.parameters.sampling(session.n_rows),
        order.seed,
        with_left_out=order.with_left_out,
        batch_bytes=order.batch_bytes,
    )


def _grow_batch(
    session: _VerticalSession, trees: range, curve: list[float]
) -> Conversation[tuple[ForestOutline, list[float]]]:
    """Grow some trees together, level by level: two exchanges each."""
    growing = yield from _start_trees(session, trees)
    score = {"oob_score": curve[-1]} if curve else {}  # of the batches before, for who watches
    while growing.n_open:
        place = {"level": growing.level, "step": growing.n_steps}
        note = {"trees": trees, **place, "open_nodes": growing.n_open, **score}
        requests = growing.search_requests(session.followers)
        found = yield from ask(requests, note, read=growing.read_gains)
        applied = yield from ask(growing.choose(found), note, read=growing.read_splits)
        growing.advance(applied)
    session.n_steps.append(growing.n_steps)
    session.n_extra_steps.append(growing.n_steps - growing.n_levels)
    session.smallest_group = min(session.smallest_group, growing.smallest_group)
    outline = growing.assemble()
    if session.order.response is not None:
        outline = _debias(outline, session.order.response)
    scores = yield from _finish_trees(session, growing, outline)
    return outline, scores


def _start_trees(session: _VerticalSession, trees: range) -> Conversation[VerticalCoordinatorTrees]:
    plan, order = _growth_plan(session), session.order
    seeds = derive_seeds(order.seed, "rows", trees.start, trees.stop)
    request = StartTrees(
        to_bytes(seeds, "<u8"),
        plan.sampling.bootstrap,
        plan.sampling.n_draws,
        plan.rules.min_rows_leaf,
        plan.with_left_out,
        plan.rules.min_weight_share,
    )
    asked = {*session.followers, order.label_party}
    started = yield from ask({p: request for p in order.parties if p in asked})
    _check_root_sizes(session, started[order.label_party], len(trees))
    row_sums = None
    if session.targets is not None:
        targets, workers = session.targets, session.workers
        rows, _ = draw_rows(seeds, targets, plan.sampling, workers)
        row_sums = RowSums(targets, rows, workers)
    return VerticalCoordinatorTrees(
        dict(zip(order.parties, session.columns_per_party, strict=True)),
        plan,
        session.kind,
        derive_seeds(order.seed, "features", trees.start, trees.stop),
        order.label_party,
        started[order.label_party],
        session.workers,
        row_sums,
    )


def _check_root_sizes(session: _VerticalSession, started: TreesStarted, n_trees: int) -> None:
    """A tree has and leaves out no more rows than there are: space is set aside for their bits."""
    with blame(session.order.label_party):
        check(started.root_sizes is not None, "the sizes of trees are missing")
        assert started.root_sizes is not None
        drawn, left_out = started.root_sizes.read(2, n_trees)
        fits = (drawn > 0) & (left_out >= 0) & (drawn <= session.n_rows - left_out)
        check(bool(fits.all()), "a tree has no rows, or more than the table")


def _finish_trees(
    session: _VerticalSession, growing: VerticalCoordinatorTrees, outline: ForestOutline
) -> Conversation[list[float]]:
    """Everybody keeps its share; the label party lets the rows left out vote."""
    order = session.order
    requests = {party: FinishTrees(growing.moves_for(party)) for party in session.followers}
    if order.with_left_out:
        moves, leaves = growing.moves_for(order.label_party), outline.leaves
        values = LeafValues(
            to_bytes(leaves.start, "<i8"),
            to_bytes(leaves.label, "<u2"),
            to_bytes(leaves.value, "<f8"),
        )
        requests[order.label_party] = FinishTrees(moves, values, order.hard_votes)
    finished = yield from ask(requests)
    if not order.with_left_out:
        return []
    scores = finished[order.label_party].scores
    with blame(order.label_party):
        check(scores is not None, "out-of-bag scores are missing")
        assert scores is not None
        return [float(score) for score in scores.read(outline.shape.n_trees)]


def _debias(outline: ForestOutline, response: RandomizedResponse) -> ForestOutline:
    n_classes = outline.n_classes
    leaves = debias_leaves(outline.leaves, response, n_classes)
    return ForestOutline(outline.shape, outline.owner, leaves, outline.decrease, n_classes)


def _weigh_columns(
    session: _VerticalSession, outline: ForestOutline, harvest: _Harvest
) -> Conversation[tuple[dict[str, NDArray[np.float64]], NDArray[np.float64] | None]]:
    """Each party hears what its own splits were worth and answers for its own columns.

    The label party adds the out-of-bag votes where they are asked for.
    """
    order, totals = session.order, to_bytes(outline.tree_totals(), "<f8")
    n_dropped = sum(grown.shape.n_trees for grown in harvest.outlines) - harvest.n_trees
    requests = {
        party: WeighColumns(
            to_bytes(outline.decrease_of(order.parties.index(party)), "<f8"),
            totals,
            n_dropped,
            order.out_of_bag and party == order.label_party,
            harvest.ends_early,
        )
        for party in session.followers
    }
    try:
        weighed = yield from ask(requests, may_lose=harvest.ends_early)
    except EndEarly as end:  # all trees are complete; somebody is not there to weigh columns
        weighed, harvest.ends_early = end.replies, True
    importances = {}
    for party, n_columns in zip(order.parties, session.columns_per_party, strict=True):
        importances[party] = np.full(n_columns, np.nan)
        if party in weighed:
            with blame(party):
                importances[party] = weighed[party].importances.read(n_columns)
    has_votes = order.out_of_bag and order.label_party in weighed
    return importances, _read_votes(session, weighed) if has_votes else None


def _read_votes(
    session: _VerticalSession, weighed: Mapping[str, ColumnsWeighed]
) -> NDArray[np.float64]:
    label_party = session.order.label_party
    with blame(label_party):
        votes = weighed[label_party].votes
        check(votes is not None, "out-of-bag votes are missing")
        assert votes is not None
        return votes.read(session.n_rows, max(1, session.kind.n_classes))
