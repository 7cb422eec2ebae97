"""The coordinator's side of a batch of growing extra-trees.

It draws columns and thresholds, scores cuts by sums over all participants, and chooses splits. From
single parties it sees the points they name; about rows only the sums on each side of a cut.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import DataError
from fedforest.kernels.cuts.draws import (
    draw_category_sets,
    draw_sides,
    draw_thresholds,
    key_pairs,
)
from fedforest.kernels.cuts.pairs import Pairs, find_pairs, place_asked
from fedforest.kernels.cuts.scores import Sides, take_most_rows
from fedforest.kernels.growth.sampling import key_nodes
from fedforest.kernels.layout import NO_GROUP, Rules
from fedforest.protocol.aggregation.base import Segment
from fedforest.protocol.asking import blame, check
from fedforest.protocol.fates import pack_fates
from fedforest.protocol.horizontal.coordinator.batch_plan import BatchPlan
from fedforest.protocol.horizontal.coordinator.level_cuts import LevelCuts, find_set_pairs
from fedforest.protocol.horizontal.coordinator.participants import Group
from fedforest.protocol.horizontal.grouping import (
    begin_at,
    count_in,
    find_ranges,
    put,
    take,
    take_bytes,
    within,
)
from fedforest.protocol.horizontal.messages import CutMoves
from fedforest.protocol.horizontal.payloads import Points
from fedforest.protocol.payloads import to_bytes
from fedforest.tree.forest.forest import Forest
from fedforest.tree.growth.candidates import ranges_of_pairs
from fedforest.tree.growth.cut_choice import choose_cuts
from fedforest.tree.growth.decisions import ColumnBits, Growth
from fedforest.tree.growth.level_loop import assemble
from fedforest.tree.growth.split_record import SplitRecord
from fedforest.tree.growth.split_search import SplitTable
from fedforest.tree.table.targets import rows_of, weight_of
from fedforest.tree.workers import Workers

if TYPE_CHECKING:
    from fedforest.tree.growth.structure import GrowthStep

SET_WORDS = 4


class _Made(NamedTuple):
    """The result of the last step, with the offsets of each tree's nodes and split nodes."""

    step: "GrowthStep"
    table: SplitTable
    told: tuple[memoryview, memoryview, memoryview]  # column, cut and side of each split
    tree_start: list[int]
    split_start: list[int]


class HorizontalCoordinatorTrees:
    """Grows a batch of trees step by step."""

    def __init__(
        self, plan: BatchPlan, holders: Mapping[str, NDArray[np.bool_]], workers: Workers
    ) -> None:
        self._plan = plan
        # per party: ranges of the trees that it holds rows of
        self._held = {party: find_ranges(holds) for party, holds in holders.items()}
        self._number_of = {party: number for number, party in enumerate(holders)}
        self._workers = workers
        n_trees = len(plan.feature_seeds)
        column_bits = ColumnBits.of([plan.columns.n_columns])
        unknown = np.full((n_trees, plan.kind.n_sums), 2**30)  # until they are counted
        if plan.kind.is_regression:
            unknown[:, 3] = 0
        self._growth = Growth(
            plan.rules, plan.kind, column_bits, plan.feature_seeds, unknown, workers
        )
        self._splits = SplitRecord(plan.columns.is_categorical)
        self._last: _Made | None = None
        self._tree_start = list(range(n_trees + 1))  # where each tree's open nodes begin
        self._pair_start = self._tree_start  # where each tree's pairs begin
        self._pairs = Pairs(np.zeros(1, np.int64), np.zeros(0, np.int32))
        self._node_keys = np.zeros(0, np.uint64)  # per node, the key of its random draws
        self._missing_left = np.zeros(0, np.uint8)  # empty if no value is missing anywhere
        self._bitmap = np.zeros((0, 0), np.uint8)
        self._points = np.zeros((0, 0), np.float32)  # (parties, pairs)
        self._cuts: LevelCuts | None = None  # once points were merged
        self.n_steps = 0
        self.n_levels = 0
        self.smallest_group = NO_GROUP  # rows of a child, so far

    @property
    def parties(self) -> list[str]:
        """Parties that hold rows of some tree."""
        return list(self._held)

    def trees_of(self, party: str) -> tuple[tuple[int, int], ...]:
        """Return the ranges of trees that a party holds rows of."""
        return self._held[party]

    @property
    def level(self) -> int:
        """The depth of the deepest open nodes; shallower ones try further candidates."""
        return int(self._growth.structure.open.depth.max(initial=0))

    @property
    def n_open(self) -> int:
        """Open nodes of all trees."""
        return self._growth.n_open

    @property
    def n_asked(self) -> int:
        """(node, candidate) pairs whose sides are counted in this step."""
        return self.cuts.n_asked

    @property
    def cuts(self) -> LevelCuts:
        """The cuts that this step asks about."""
        assert self._cuts is not None, "points come before cuts"
        return self._cuts

    def still_growing(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups that have trees with open nodes."""
        start = self._tree_start
        return [group for group in groups if start[group.trees.start] < start[group.trees.stop]]

    def draw(self) -> None:
        """Draw the candidate columns of every open node, and the side of missing values."""
        nodes, has_missing = self._growth.structure.open, self._plan.columns.has_missing
        self._bitmap, self._pairs = self._growth.draw_pairs()
        self._pair_start = self._pairs.node_start[self._tree_start].tolist()
        self._node_keys = key_nodes(self._plan.threshold_seeds, nodes.tree, nodes.node)
        if has_missing.any():
            self._missing_left = draw_sides(self._node_keys, self._pairs, has_missing)
        self._points = np.empty((len(self._held), len(self._pairs.feature)), np.float32)

    def candidates_for(self, party: str, *, takes_part: bool) -> memoryview:
        """Return the candidates at the nodes that a party holds rows of."""
        if not takes_part:
            return memoryview(b"")
        bitmap = take(self._bitmap, within(self._held[party], self._tree_start))
        return np.ascontiguousarray(bitmap).reshape(-1).data

    def moves_for(self, party: str) -> CutMoves | None:
        """Return the fates and splits of the last step at the nodes a party holds rows of."""
        if self._last is None:
            return None
        step, table, told, tree_start, split_start = self._last
        nodes = within(self._held[party], tree_start)
        splits = within(self._held[party], split_start)
        feature, cut, missing_left = told
        sets = table.left_set
        if len(sets):
            by_set = self._plan.columns.is_categorical[take(table.feature, splits)]
            sets = take(sets, splits)[by_set]
        return CutMoves(
            pack_fates(take(step.is_split, nodes), take(step.fate, nodes)),
            take_bytes(feature, 4, splits),
            take_bytes(cut, 4, splits),
            take_bytes(missing_left, 1, splits),
            to_bytes(sets, "<u8"),
        )

    def read_points(self, party: str, named: Points) -> None:
        """Take the points that a participant names; safe to call from several threads."""
        own = self._points[self._number_of[party]]
        held = within(self._held[party], self._pair_start)
        with blame(party):
            points = named.read(count_in(held))
        if len(points) < len(own):
            own.fill(np.nan)
        put(points, held, own)

    def merge(self, participants: Sequence[str]) -> None:
        """Draw thresholds between the named points, and sets for categorical columns."""
        n_pairs, pairs, points = len(self._pairs.feature), self._pairs, self._points
        if len(participants) < len(points):
            points = points[[self._number_of[party] for party in participants]]
        keys, threshold = self._node_keys, np.empty(n_pairs, np.float32)
        self._workers.run(
            lambda nodes: draw_thresholds(points, keys, pairs, threshold, *nodes),
            ranges_of_pairs(pairs, self._workers),
        )
        asked_start = place_asked(pairs.node_start, threshold)
        chosen = find_set_pairs(self._plan, pairs, threshold)
        left_set = np.empty((len(chosen), SET_WORDS), np.uint64)
        n_categories = self._plan.columns.n_categories[pairs.feature[chosen]]
        draw_category_sets(key_pairs(keys, pairs, chosen), n_categories, left_set)
        self._cuts = LevelCuts(
            self._plan,
            self._tree_start,
            pairs,
            threshold,
            asked_start,
            self._missing_left,
            left_set,
            self._choose_wholes(asked_start),
            self._find_heaviest(),
        )

    def _find_heaviest(self) -> int:
        """Return the weight, or the rows, of the heaviest open node; the limit if not known."""
        plan, opened = self._plan, self._growth.structure.open
        is_known = plan.are_counts and not (plan.both_sides or plan.totals_anew)
        if not is_known or (opened.node == 0).any():
            return plan.largest_sum
        sums = self._growth.sums
        return int(max(own(sums, plan.kind).max(initial=0) for own in (weight_of, rows_of)))

    def _choose_wholes(self, asked_start: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the nodes whose totals must be asked for, as no other answer gives them."""
        is_root: NDArray[np.bool_] = self._growth.structure.open.node == 0
        if not (self._plan.both_sides or self._plan.totals_anew):
            is_root &= self._growth.tried == 0
            return is_root
        has_cuts = np.diff(asked_start) > 0
        is_root &= ~has_cuts & ~self._growth.has_columns_left
        # the node's total and one side of each cut give the other sides
        return is_root | has_cuts if self._plan.totals_anew else is_root

    def questions(self, groups: Sequence[Group]) -> list[Segment]:
        """Return one question for each group of trees with the same participants."""
        return self.cuts.questions(groups)

    def advance(
        self,
        groups: Sequence[Group],
        sums: Sequence[NDArray[np.int64]],
    ) -> None:
        """Score the cuts by the sums over participants, choose, and settle every node's fate."""
        cuts, layout = self.cuts, self._plan.counting.layout
        sides, wholes = cuts.collect(groups, sums, self._workers)
        scores, best, resigned, totals = self._score(sides, wholes)
        n_asked = np.diff(cuts.asked_start)
        resigned = resigned | self._cannot_answer(groups, n_asked, totals)
        if self._plan.asks_once:
            resigned |= n_asked > 0
        is_split = self._growth.choose(scores)
        nodes = np.flatnonzero(is_split)
        node_start, threshold, asked_start = cuts.pairs.node_start, cuts.threshold, cuts.asked_start
        chosen = find_pairs(node_start, threshold, asked_start, nodes, best)
        chosen_left = layout.take(sides, best[nodes])
        rows_at = layout.n_classes or 2
        larger_left, smallest = take_most_rows(nodes, chosen_left, totals, rows_at)
        self.smallest_group = min(self.smallest_group, smallest)
        table = cuts.tabulate(chosen, larger_left)
        self.n_levels = max(self.n_levels, 1 + self.level)
        step = self._growth.advance(is_split, scores, chosen_left, resigned)
        self._splits.add(*self._growth.structure.last_split(), table)
        split_start = np.searchsorted(nodes, self._tree_start).tolist()
        self._last = _Made(step, table, _tell(table), self._tree_start, split_start)
        self._tree_start = begin_at(self._growth.structure.open.tree, len(split_start) - 1)
        self.n_steps += 1

    def _score(
        self, sides: NDArray[np.int64], wholes: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
        """Return (scores, best cuts, nodes that try no further columns, totals of nodes)."""
        cuts, layout, both = self.cuts, self._plan.counting.layout, self._plan.both_sides
        anew = self._plan.totals_anew
        is_news = both or anew or bool(cuts.wholes.any())  # else totals follow from the parents'
        totals = self._growth.sums.copy() if is_news else self._growth.sums
        if is_news:
            totals[cuts.wholes] = layout.expand(wholes)
        if both and self._plan.rules.min_weight_share:  # a root's weight decides which are valid
            known, shown = self._choose_shown(np.full(self.n_open, -1), cuts.asked_start)
            totals[known] = layout.expand(_add_sides(sides[shown]))
        least_weight = self._growth.least_weight(totals)
        rules = Rules(self._plan.kind.scores.formula, self._plan.rules.min_rows_leaf, least_weight)
        known_sides = Sides(cuts.asked_start, sides, totals, layout.width)
        scores, best, resigned, fits = choose_cuts(layout, known_sides, rules, self._workers)
        check(both or bool(fits.all()), "parties count more rows on a side than in its node")
        if both:  # the total of a node is the sum over its present participants
            known, shown = self._choose_shown(best, cuts.asked_start)
            totals[known] = layout.expand(_add_sides(sides[shown]))
        elif anew:  # likewise; a node without a valid cut keeps its earlier total
            is_silent = (best < 0) & (self._growth.structure.open.node > 0)
            totals[is_silent] = self._growth.sums[is_silent]
        if is_news:
            if not weight_of(totals, self._plan.kind).all():
                raise DataError.stating(
                    "no participant of a tree has a row; let more parties take part"
                )
            is_leaf = self._growth.know_totals(totals)
            scores[is_leaf] = -np.inf
            resigned = is_leaf | resigned
        return scores, best, resigned, totals

    def _choose_shown(
        self, best: NDArray[np.int64], asked_start: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (nodes, cuts): the nodes whose total is the sum of the two sides of a cut.

        For a root without a valid cut any cut is used, as its total has no other source.
        """
        is_root = self._growth.structure.open.node == 0
        known = np.flatnonzero((best >= 0) | (is_root & (np.diff(asked_start) > 0)))
        return known, np.where(best[known] >= 0, best[known], asked_start[known])

    def _cannot_answer(
        self, groups: Sequence[Group], n_asked: NDArray[np.int64], totals: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return nodes with so few rows that probably no participant can name a point.

        They are a third of all nodes of fully grown trees, and would try one column after another
        in vain. A node is also closed if one party has all its rows but names no point: the rows
        are equal in the columns tried so far.
        """
        most = np.zeros(len(self._plan.feature_seeds), np.int64)
        for group in groups:
            most[group.trees.start : group.trees.stop] = len(group.participants) * (
                self._plan.least_rows - 1
            )
        is_hopeless, silent = np.zeros(len(n_asked), np.bool_), np.flatnonzero(n_asked == 0)
        rows = rows_of(totals[silent], self._plan.kind)
        is_hopeless[silent] = rows <= most[self._growth.structure.open.tree[silent]]
        return is_hopeless

    def assemble(self) -> Forest:
        """Return the grown batch."""
        return assemble(self._growth, self._splits, self._workers)


def _add_sides(cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add up the left and right sides in (cuts, 2 * width)."""
    width = cuts.shape[1] // 2
    return cuts[:, :width] + cuts[:, width:]


def _tell(table: SplitTable) -> tuple[memoryview, memoryview, memoryview]:
    """Encode the column, cut and missing-value side of each split for parties."""
    feature, cut = to_bytes(table.feature, "<i4"), to_bytes(table.cut, "<f4")
    return feature, cut, to_bytes(table.missing_left, "u1")
