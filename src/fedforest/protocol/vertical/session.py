"""The coordinator's conversation in any vertical training, with any protection of labels.

It counts columns, divides trees into batches, grows batch after batch and stops early if asked to.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, takewhile

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.kernels.layout import NO_GROUP
from fedforest.kernels.prediction.walk import MAX_WALK_COLUMNS
from fedforest.protocol.asking import Conversation, EndEarly, blame, check
from fedforest.protocol.payloads import LabelScale, OutOfBagScores, OutOfBagVotes, to_bytes
from fedforest.protocol.turns import take_turns
from fedforest.protocol.vertical.messages import ColumnsBinned, StartTrees, TreesStarted
from fedforest.protocol.vertical.order import TrainedForest, VerticalOrder
from fedforest.protocol.vertical.routed_trees import RoutedTrees
from fedforest.tree.forest.partial import ForestOutline
from fedforest.tree.growth.level_loop import GrowthPlan, batches
from fedforest.tree.growth.seeds import derive_seeds
from fedforest.tree.table.targets import MAX_CLASSES, TARGET_BITS
from fedforest.tree.workers import Workers


@dataclass(slots=True)
class VerticalSession:
    """The facts that the coordinator learned at the start."""

    order: VerticalOrder
    n_rows: int
    columns_per_party: tuple[int, ...]
    scale: LabelScale
    workers: Workers
    smallest_group: int = NO_GROUP
    # by the first tree of each batch: its steps, and how many of them were extra
    n_steps: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def followers(self) -> list[str]:
        """Return the parties that must know where rows are."""
        order = self.order
        return [
            party
            for party, n_columns in zip(order.parties, self.columns_per_party, strict=True)
            if n_columns or (order.with_left_out and party == order.label_party)
        ]

    @property
    def n_slots(self) -> int:
        """Count the batches that grow side by side."""
        return self.order.count_slots(self.n_rows, self.scale.n_classes)

    def count_steps(self, trees: range, growing: RoutedTrees) -> None:
        """Note the steps of a batch that is complete."""
        self.n_steps[trees.start] = growing.n_steps, growing.n_steps - growing.n_levels
        self.smallest_group = min(self.smallest_group, growing.smallest_group)

    def conclude(
        self,
        outline: ForestOutline,
        harvest: "Harvest",
        importances: Mapping[str, NDArray[np.float64]],
        votes: NDArray[np.float64] | None,
    ) -> TrainedForest:
        """Return the result of the training."""
        steps = [self.n_steps[first] for first in sorted(self.n_steps)[: len(harvest.outlines)]]
        return TrainedForest(
            outline,
            self.columns_per_party,
            importances,
            np.array(harvest.curve[: harvest.n_trees]) if self.order.with_left_out else None,
            votes,
            tuple(n_steps for n_steps, _ in steps),
            tuple(n_extra for _, n_extra in steps),
            harvest.ends_early,
            self.n_rows,
            None if self.smallest_group == NO_GROUP else self.smallest_group,
        )


@dataclass(slots=True)
class Harvest:
    """Complete batches of trees, and what they say of rows they left out."""

    outlines: list[ForestOutline] = field(default_factory=list)
    curve: list[float] = field(default_factory=list)
    n_trees: int = 0  # to be kept of the new ones
    ends_early: bool = False

    def add(self, outline: ForestOutline, scores: list[float]) -> None:
        """Add the next batch."""
        self.outlines.append(outline)
        self.n_trees += outline.shape.n_trees
        self.curve.extend(scores)


Batch = tuple[ForestOutline, list[float]]  # and the out-of-bag curve over its trees
GrowBatch = Callable[[range, list[float], int], Conversation[Batch]]  # (trees, curve, slot)


def grow_trees(session: VerticalSession, grow_batch: GrowBatch) -> Conversation[Harvest]:
    """Grow batches until there are enough, they do not get better, or the operator says so.

    A batch that is not complete then is given up: its trees are all about as far from their end.
    """
    harvest, grow = Harvest(), _grow_in_turns if session.n_slots > 1 else _grow_in_a_row
    try:
        yield from grow(session, grow_batch, harvest)
    except EndEarly:
        if not harvest.outlines:
            raise
        harvest.ends_early = True
    return harvest


def _grow_in_a_row(
    session: VerticalSession, grow_batch: GrowBatch, harvest: Harvest
) -> Conversation[None]:
    """Grow batch after batch, as long as the curve says so."""
    stopping = session.order.early_stopping
    for trees in plan_batches(session):
        outline, scores = yield from grow_batch(trees, harvest.curve, 0)
        harvest.add(outline, scores)
        stop = stopping.stop_after(harvest.curve) if stopping else None
        if stop is not None:
            harvest.n_trees = stop
            return


def _grow_in_turns(
    session: VerticalSession, grow_batch: GrowBatch, harvest: Harvest
) -> Conversation[None]:
    """Grow batches side by side: the bits of one travel while parties work on another."""
    grown: dict[int, Batch] = {}

    def begin(trees: range, slot: int) -> Conversation[Batch]:
        return grow_batch(trees, [], slot)

    try:
        yield from take_turns(plan_batches(session), begin, session.n_slots, grown)
    finally:
        for number in takewhile(grown.__contains__, count()):  # complete, and all before them
            harvest.add(*grown[number])


def count_columns(order: VerticalOrder, prepared: Mapping[str, ColumnsBinned]) -> tuple[int, ...]:
    columns = tuple(prepared[party].size.n_columns for party in order.parties)
    for party, n_columns in zip(order.parties, columns, strict=True):
        with blame(party):
            check(n_columns <= MAX_WALK_COLUMNS, "it has more columns than a forest can use")
    if sum(columns) == 0:
        raise DataError.stating("No party has a column; there is nothing to learn from.")
    return columns


def read_scale(order: VerticalOrder, prepared: ColumnsBinned) -> LabelScale:
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


def plan_batches(session: VerticalSession) -> Iterator[range]:
    order, n_classes = session.order, session.scale.n_classes
    first, last = order.first_tree, order.parameters.n_estimators
    even = -(-(last - first) // session.n_slots)  # so that every slot has its part
    for trees in batches(growth_plan(session), session.n_rows, n_classes, first, last):
        size = order.early_stopping.patience if order.early_stopping else min(even, len(trees))
        for start in range(trees.start, trees.stop, size):
            yield range(start, min(trees.stop, start + size))


def growth_plan(session: VerticalSession) -> GrowthPlan:
    order = session.order
    return GrowthPlan(
        order.parameters.growth_rules(session.n_rows, sum(session.columns_per_party)),
        order.parameters.sampling(session.n_rows),
        order.seed,
        with_left_out=order.with_left_out,
        batch_bytes=order.batch_bytes // session.n_slots,
    )


def start_request(session: VerticalSession, trees: range, slot: int = 0) -> StartTrees:
    """Make the request that begins these trees."""
    plan = growth_plan(session)
    return StartTrees(
        to_bytes(derive_seeds(session.order.seed, "rows", trees.start, trees.stop), "<u8"),
        plan.sampling.bootstrap,
        plan.sampling.n_draws,
        plan.rules.min_rows_leaf,
        plan.with_left_out,
        plan.rules.min_weight_share,
        slot,
    )


def read_root_sizes(
    session: VerticalSession, started: TreesStarted, n_trees: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read how many rows each tree draws and leaves out.

    A tree has and leaves out no more rows than there are: space is set aside for their bits.
    """
    with blame(session.order.label_party):
        check(started.root_sizes is not None, "the sizes of trees are missing")
        assert started.root_sizes is not None
        drawn, left_out = started.root_sizes.read(2, n_trees)
        fits = (drawn > 0) & (left_out >= 0) & (drawn <= session.n_rows - left_out)
        check(bool(fits.all()), "a tree has no rows, or more than the table")
        return drawn, left_out


def read_scores(
    session: VerticalSession, scores: OutOfBagScores | None, n_trees: int
) -> list[float]:
    """Read the out-of-bag curve over the trees of a batch; empty if not asked for."""
    if not session.order.with_left_out:
        return []
    with blame(session.order.label_party):
        check(scores is not None, "out-of-bag scores are missing")
        assert scores is not None
        return [float(score) for score in scores.read(n_trees)]


def read_votes(session: VerticalSession, votes: OutOfBagVotes | None) -> NDArray[np.float64]:
    """Read the votes of the rows that trees left out."""
    with blame(session.order.label_party):
        check(votes is not None, "out-of-bag votes are missing")
        assert votes is not None
        return votes.read(session.n_rows, max(1, session.scale.n_classes))
