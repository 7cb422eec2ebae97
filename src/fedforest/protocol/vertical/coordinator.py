"""The coordinator of vertical training: Federated Forest, a level of all trees per two exchanges.

Who learns what. The coordinator sees the labels in the protection of the run on their way to the
parties, the best gain of every party at every open node, where rows go, what leaves say, and who
split each node. It never sees a column's values, edges between bins, or names. It alone knows the
root seed and which columns were sampled.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.criteria.registry import Criterion
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.asking import Conversation, EndEarly, ask, blame, check
from fedforest.protocol.payloads import EncodedLabels, LabelScale, to_bytes
from fedforest.protocol.vertical.coordinator_trees import VerticalCoordinatorTrees
from fedforest.protocol.vertical.labels import debias_leaves, draw_codes, read_labels
from fedforest.protocol.vertical.messages import (
    BinColumns,
    FinishTrees,
    LabelsShared,
    LeafValues,
    ShareLabels,
    TakeLabels,
    WeighColumns,
)
from fedforest.protocol.vertical.order import TrainedForest, VerticalOrder
from fedforest.protocol.vertical.session import (
    Harvest,
    VerticalSession,
    count_columns,
    grow_trees,
    growth_plan,
    read_root_sizes,
    read_scale,
    read_scores,
    read_votes,
    start_request,
)
from fedforest.protocol.vertical.sums import are_short
from fedforest.tree.forest.partial import ForestOutline, concatenate_outlines
from fedforest.tree.growth.row_sums import RowSums
from fedforest.tree.growth.rows import draw_rows
from fedforest.tree.growth.seeds import derive_seed, derive_seeds
from fedforest.tree.table.frames import common_row_count
from fedforest.tree.table.targets import (
    TargetKind,
    TrainingTargets,
    encode_classes,
    encode_values,
)
from fedforest.tree.workers import ALONE, Workers


class _LabelSetting(NamedTuple):
    """The coordinator's knowledge of labels that it sees."""

    kind: TargetKind
    targets: TrainingTargets | None  # to be added up here, where sums are too long to travel


def train(order: VerticalOrder, workers: Workers = ALONE) -> Conversation[TrainedForest]:
    """Grow a forest over the columns of all parties."""
    session, setting = yield from _prepare(order, workers)
    grow_batch = partial(_grow_batch, session, setting)
    harvest = yield from grow_trees(session, grow_batch)
    before = [] if order.grown is None else [order.grown]
    n_before = sum(outline.shape.n_trees for outline in before)
    grown = concatenate_outlines([*before, *harvest.outlines])
    outline = grown.first_trees(n_before + harvest.n_trees)
    importances, votes = yield from _weigh_columns(session, outline, harvest)
    return session.conclude(outline, harvest, importances, votes)


def _prepare(
    order: VerticalOrder, workers: Workers
) -> Conversation[tuple[VerticalSession, _LabelSetting]]:
    """Bins at every party; sizes compared; labels given out."""
    criterion = order.parameters.scored_by
    bin_seed = derive_seed(order.seed, "bins")
    request = BinColumns(bin_seed, order.parameters.max_bins, criterion.wire)
    prepared = yield from ask(dict.fromkeys(order.parties, request))
    n_rows = common_row_count({party: prepared[party].size.n_rows for party in order.parties})
    columns = count_columns(order, prepared)
    scale = read_scale(order, prepared[order.label_party])
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
    session = VerticalSession(order, n_rows, columns, scale, workers)
    return session, _LabelSetting(kind, own_targets)


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


def _grow_batch(
    session: VerticalSession, setting: _LabelSetting, trees: range, curve: list[float], slot: int
) -> Conversation[tuple[ForestOutline, list[float]]]:
    """Grow some trees together, level by level: two exchanges each."""
    growing = yield from _start_trees(session, setting, trees, slot)
    score = {"oob_score": curve[-1]} if curve else {}  # of the batches before, for who watches
    while growing.n_open:
        place = {"level": growing.level, "step": growing.n_steps}
        note = {"trees": trees, **place, "open_nodes": growing.n_open, **score}
        requests = growing.search_requests(session.followers)
        found = yield from ask(requests, note, read=growing.read_gains)
        applied = yield from ask(growing.choose(found), note, read=growing.read_splits)
        growing.advance(applied)
    session.count_steps(trees, growing)
    outline = growing.assemble()
    if session.order.response is not None:
        outline = _debias(outline, session.order.response)
    scores = yield from _finish_trees(session, growing, outline)
    return outline, scores


def _start_trees(
    session: VerticalSession, setting: _LabelSetting, trees: range, slot: int
) -> Conversation[VerticalCoordinatorTrees]:
    plan, order = growth_plan(session), session.order
    request = start_request(session, trees, slot)
    asked = {*session.followers, order.label_party}
    started = yield from ask({p: request for p in order.parties if p in asked})
    read_root_sizes(session, started[order.label_party], len(trees))
    row_sums = None
    if setting.targets is not None:
        targets, workers = setting.targets, session.workers
        seeds = derive_seeds(order.seed, "rows", trees.start, trees.stop)
        rows, _ = draw_rows(seeds, targets, plan.sampling, workers)
        row_sums = RowSums(targets, rows, workers)
    return VerticalCoordinatorTrees(
        dict(zip(order.parties, session.columns_per_party, strict=True)),
        plan,
        setting.kind,
        derive_seeds(order.seed, "features", trees.start, trees.stop),
        order.label_party,
        started[order.label_party],
        session.workers,
        row_sums,
        slot,
    )


def _finish_trees(
    session: VerticalSession, growing: VerticalCoordinatorTrees, outline: ForestOutline
) -> Conversation[list[float]]:
    """Everybody keeps its share; the label party lets the rows left out vote."""
    order = session.order
    slot = growing.slot
    requests = {p: FinishTrees(growing.moves_for(p), slot=slot) for p in session.followers}
    if order.with_left_out:
        moves, leaves = growing.moves_for(order.label_party), outline.leaves
        values = LeafValues(
            to_bytes(leaves.start, "<i8"),
            to_bytes(leaves.label, "<u2"),
            to_bytes(leaves.value, "<f8"),
        )
        requests[order.label_party] = FinishTrees(moves, values, order.hard_votes, slot)
    finished = yield from ask(requests)
    scores = finished[order.label_party].scores if order.with_left_out else None
    return read_scores(session, scores, outline.shape.n_trees)


def _debias(outline: ForestOutline, response: RandomizedResponse) -> ForestOutline:
    n_classes = outline.n_classes
    leaves = debias_leaves(outline.leaves, response, n_classes)
    return ForestOutline(outline.shape, outline.owner, leaves, outline.decrease, n_classes)


def _weigh_columns(
    session: VerticalSession, outline: ForestOutline, harvest: Harvest
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
    return importances, read_votes(session, weighed[order.label_party].votes) if has_votes else None
