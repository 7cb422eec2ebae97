"""The coordinator of vertical training with encrypted labels: four exchanges per level.

Who learns what. The coordinator sees ciphertexts, where rows go, who split each node and which
nodes are leaves. It never sees a label, a sum, a gain, what a leaf says, or how many cuts a column
has. It alone knows the root seed and which columns were sampled.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from fedforest.protocol.aggregation.introduction import introduce_parties
from fedforest.protocol.asking import Conversation, EndEarly, ask, blame, check
from fedforest.protocol.vertical.encrypted.coordinator_trees import BlindCoordinatorTrees
from fedforest.protocol.vertical.encrypted.messages import (
    EncryptLabels,
    EndTraining,
    JudgeRoots,
    TakeCiphertexts,
)
from fedforest.protocol.vertical.labels import draw_codes
from fedforest.protocol.vertical.messages import BinColumns, FinishTrees
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
    start_request,
)
from fedforest.tree.forest.partial import ForestOutline, concatenate_outlines
from fedforest.tree.growth.decisions import ColumnBits, OpenTrees
from fedforest.tree.growth.seeds import derive_seed, derive_seeds
from fedforest.tree.table.frames import common_row_count
from fedforest.tree.workers import ALONE, Workers


def train_encrypted(
    order: VerticalOrder, run: bytes, workers: Workers = ALONE
) -> Conversation[TrainedForest]:
    """Grow a forest over the columns of all parties; the outline says nothing of leaves.

    `run` is the id of the run, to which the secrets of its parties are bound.
    """
    session = yield from _prepare(order, run, workers)
    harvest = yield from grow_trees(session, partial(_grow_batch, session))
    before = [] if order.grown is None else [order.grown]
    n_before = sum(outline.shape.n_trees for outline in before)
    grown = concatenate_outlines([*before, *harvest.outlines])
    outline = grown.first_trees(n_before + harvest.n_trees)
    yield from _end(session, outline, harvest)
    unknown = {
        party: np.full(n_columns, np.nan)
        for party, n_columns in zip(order.parties, session.columns_per_party, strict=True)
    }
    return session.conclude(outline, harvest, unknown, None)


def _others(session: VerticalSession) -> list[str]:
    """Return the parties with columns and without labels."""
    return [party for party in session.followers if party != session.order.label_party]


def _prepare(order: VerticalOrder, run: bytes, workers: Workers) -> Conversation[VerticalSession]:
    """Have columns binned, compare sizes, introduce parties, give out ciphertexts."""
    criterion = order.parameters.scored_by
    bin_seed = derive_seed(order.seed, "bins")
    request = BinColumns(bin_seed, order.parameters.max_bins, criterion.wire)
    prepared = yield from ask(dict.fromkeys(order.parties, request))
    n_rows = common_row_count({party: prepared[party].size.n_rows for party in order.parties})
    columns = count_columns(order, prepared)
    scale = read_scale(order, prepared[order.label_party])
    session = VerticalSession(order, n_rows, columns, scale, workers)
    others = _others(session)
    if others:
        everybody = [party for party in order.parties if party in {*others, order.label_party}]
        yield from introduce_parties(run, everybody, with_seeds=False)
    encrypt = EncryptLabels(draw_codes(order.seed, scale.n_classes), sum(columns))
    encrypted = yield from ask({order.label_party: encrypt})
    labels, seals = encrypted[order.label_party].labels, encrypted[order.label_party].seals
    with blame(order.label_party):
        check(len(seals) == len(others), "labels are not sealed for every other party")
    yield from ask({p: TakeCiphertexts(labels, own) for p, own in zip(others, seals, strict=True)})
    return session


def _grow_batch(
    session: VerticalSession,
    trees: range,
    curve: list[float],
    slot: int,  # noqa: ARG001 - one batch after the other: nearly all of the time is work
) -> Conversation[tuple[ForestOutline, list[float]]]:
    """Grow some trees together, level by level."""
    growing = yield from _start_trees(session, trees)
    others, label_party = _others(session), session.order.label_party
    score = {"oob_score": curve[-1]} if curve else {}  # of the batches before, for who watches
    while growing.n_open:
        place = {"level": growing.level, "step": growing.n_steps}
        note = {"trees": trees, **place, "open_nodes": growing.n_open, **score}
        offered = yield from ask(growing.offer_requests(others), note)
        chosen = yield from ask({label_party: growing.choose_request(offered)}, note)
        applied = yield from ask(growing.choose(chosen[label_party]), note)
        judged = yield from ask({label_party: growing.judge_request(applied)}, note)
        growing.advance(judged[label_party])
    session.count_steps(trees, growing)
    outline = replace(growing.assemble(), n_classes=session.scale.n_classes)
    scores = yield from _finish_trees(session, growing, outline)
    return outline, scores


def _start_trees(session: VerticalSession, trees: range) -> Conversation[BlindCoordinatorTrees]:
    plan, order = growth_plan(session), session.order
    label_party = order.label_party
    asked = dict.fromkeys([*_others(session), label_party], start_request(session, trees))
    started = yield from ask(asked)
    sizes = read_root_sizes(session, started[label_party], len(trees))
    with blame(label_party):
        check(started[label_party].root_sums is None, "sums of labels came that are a secret")
    judged = yield from ask({label_party: JudgeRoots()})
    bits = ColumnBits.of(list(session.columns_per_party))
    seeds = derive_seeds(order.seed, "features", trees.start, trees.stop)
    return BlindCoordinatorTrees(
        dict(zip(order.parties, session.columns_per_party, strict=True)),
        label_party,
        OpenTrees(plan.rules, bits, seeds, session.workers),
        sizes,
        judged[label_party],
        session.workers,
        with_left_out=plan.with_left_out,
    )


def _finish_trees(
    session: VerticalSession, growing: BlindCoordinatorTrees, outline: ForestOutline
) -> Conversation[list[float]]:
    """Have everybody keep its part, and the rows left out vote at the label party."""
    order = session.order
    requests = {party: FinishTrees(growing.moves_for(party)) for party in _others(session)}
    requests[order.label_party] = FinishTrees(None, hard_votes=order.hard_votes)
    finished = yield from ask(requests)
    return read_scores(session, finished[order.label_party].scores, outline.shape.n_trees)


def _end(session: VerticalSession, outline: ForestOutline, harvest: Harvest) -> Conversation[None]:
    """Have everybody keep the trees that remain."""
    n_dropped = sum(grown.shape.n_trees for grown in harvest.outlines) - harvest.n_trees
    request = EndTraining(outline.shape.n_trees, n_dropped, harvest.ends_early)
    everybody = [*_others(session), session.order.label_party]
    try:
        yield from ask(dict.fromkeys(everybody, request), may_lose=harvest.ends_early)
    except EndEarly:  # all trees are complete; somebody is not there to hear of it
        harvest.ends_early = True
