"""One party's part in a batch of growing extra-trees: its rows, followed from node to node.

It knows every split, as everybody will know the finished forest, and where its own rows are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.pair_draws import place_pairs
from fedforest.kernels.pairs import Cuts, Pairs
from fedforest.kernels.points import has_infinite
from fedforest.kernels.random_split import Values
from fedforest.protocol.asking import check
from fedforest.protocol.fates import (
    count_open,
    count_open_each,
    unpack_fates,
    unpack_flags,
)
from fedforest.protocol.horizontal.grouping import Grouping, cut_at
from fedforest.protocol.horizontal.messages import CutsQuestion, Moves
from fedforest.protocol.payloads import from_bytes, view_bytes
from fedforest.tree.candidates import list_candidates
from fedforest.tree.point_search import PointSearch
from fedforest.tree.rows import NodeRows
from fedforest.tree.search import SplitTable
from fedforest.tree.structure import Structure
from fedforest.tree.targets import TrainingTargets
from fedforest.tree.workers import Workers

UnitsAt = Callable[[NDArray[np.uint64]], NDArray[np.float64]]  # by the places of pairs

SET_WORDS = 4
MAX_ENTRIES = 2**28  # rows, and values of rows, of a batch: what a stranger may have a party hold


@dataclass(frozen=True, slots=True)
class Limits:
    """What the run has promised to stay within; a party counts along."""

    candidates_per_node: int
    max_depth: int
    least_rows: int
    asks_once: bool  # labels of a node are counted for at most so many candidates in all
    rows_apart: bool


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Moves that were read and found right, but not made yet."""

    is_split: NDArray[np.bool_]
    fate: NDArray[np.uint8]
    table: SplitTable


class Questioned(NamedTuple):
    """What is to be counted: cuts of the pairs of the nodes searched, and some of these whole."""

    search: PointSearch
    cuts: Cuts
    wholes: NDArray[np.int64]


class QuestionedTogether(NamedTuple):
    """What several segments are asked about; which cuts and whole nodes are whose."""

    cuts: Cuts  # of all pairs
    asked: NDArray[np.int64]  # places of the asked pairs among all asked ones, segment by segment
    asked_ends: NDArray[np.int64]
    wholes: NDArray[np.int64]  # nodes, segment by segment
    whole_ends: NDArray[np.int64]


class PartyTrees:
    """The party's rows of a batch of trees."""

    def __init__(  # noqa: PLR0913, PLR0917 - what the party brings along
        self,
        columns: Values,
        targets: TrainingTargets,
        rows: NodeRows,
        segments: NDArray[np.uint16],
        limits: Limits,
        workers: Workers,
    ) -> None:
        self._columns = columns
        self._segments = segments
        self._limits = limits
        self._workers = workers
        self._structure = Structure(len(segments))
        self._search = PointSearch(columns, targets, rows, workers, rows_apart=limits.rows_apart)
        self._has_proposed = False
        self.n_asked = np.zeros(len(segments), np.int64)  # candidates counted, per open node

    @property
    def n_trees(self) -> int:
        """Trees of the batch that this party grows."""
        return len(self._segments)

    @property
    def search(self) -> PointSearch:
        """What looks at the rows of all open nodes."""
        return self._search

    def read_moves(self, moves: Moves | None) -> Moved | None:
        """What became of the open nodes; nothing moves yet, so that a refusal changes nothing."""
        if moves is None:
            return None
        is_split, fate = unpack_fates(moves.fates, len(self._structure.open))
        n_split = int(np.count_nonzero(is_split))
        feature = from_bytes(moves.feature, "<i4", n_split, "split columns")
        check(
            bool(((feature >= 0) & (feature < self._n_columns)).all()), "a split has no such column"
        )
        threshold = from_bytes(moves.threshold, "<f4", n_split, "thresholds")
        check(not np.isnan(threshold).any(), "a threshold is no number")
        missing_left = from_bytes(moves.missing_left, "u1", n_split, "sides of missing values")
        check(bool((missing_left <= 1).all()), "a side of missing values is none")
        sets = self._read_sets(moves.left_set, self._columns.is_categorical[feature])
        has_children = (fate > 0) & is_split
        depth = self._structure.open.depth[has_children].max(initial=-1) + 1
        check(int(depth) < self._limits.max_depth, "a tree is deeper than the run agreed on")
        return Moved(is_split, fate, SplitTable(feature, threshold, missing_left, sets))

    @property
    def _n_columns(self) -> int:
        return len(self._columns.is_categorical)

    def _read_sets(self, data: memoryview, by_set: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """A set for each split, empty where it is by threshold; none without categories."""
        n_sets = int(np.count_nonzero(by_set))
        given = from_bytes(data, "<u8", n_sets * SET_WORDS, "sets").reshape(-1, SET_WORDS)
        if not self._columns.is_categorical.any():
            return given
        sets = np.zeros((len(by_set), SET_WORDS), np.uint64)
        sets[by_set] = given
        return sets

    def read_candidates(self, data: memoryview, moved: Moved | None) -> Pairs | None:
        """The candidates of each node that is open after the moves; None where none is asked."""
        if len(data) == 0:
            return None
        n_open = len(self._structure.open) if moved is None else count_open(moved.fate)
        width = (self._n_columns + 7) >> 3
        bitmap = from_bytes(data, "u1", n_open * width, "candidates").reshape(n_open, width)
        spare = 8 * width - self._n_columns
        check(int(bitmap[:, -1].max(initial=0)) < 256 >> spare, "a candidate is no column")
        pairs = list_candidates(bitmap, self._workers)
        most = int(np.diff(pairs.node_start).max(initial=0))
        is_agreed = most <= self._limits.candidates_per_node
        check(is_agreed, "a node has more candidate columns than the run agreed on")
        return pairs

    @staticmethod
    def _follow(moved: Moved, per_node: NDArray[Any]) -> NDArray[Any]:
        """What is known of open nodes, for those open after the moves; of children, nothing."""
        known = per_node.copy()
        known[moved.is_split] = 0
        return np.repeat(known, count_open_each(moved.fate), axis=0)

    def move(self, moved: Moved | None) -> None:
        """Split nodes and move rows to the children that stay open."""
        if moved is None:
            return
        step = self._structure.advance(moved.is_split, moved.fate)
        if not step.nothing_left:
            self._search.move(step, moved.table)
        if self._limits.asks_once:
            self.n_asked = self._follow(moved, self.n_asked)
        self._has_proposed = False

    def propose(self, pairs: Pairs | None, units_at: UnitsAt) -> NDArray[np.float32]:
        """A random point for each candidate of each open node."""
        if pairs is None:
            return np.zeros(0, np.float32)
        self._has_proposed = True
        opened = self._structure.open

        def draw_units(first: int, last: int) -> NDArray[np.float64]:
            return units_at(place_pairs(pairs, opened.tree, opened.node, first, last))

        return self._search.propose(pairs, draw_units, self._limits.least_rows)

    def read_question(self, question: CutsQuestion) -> Questioned:
        """What one segment is asked about."""
        check(self._has_proposed, "cuts are asked for before points were named")
        opened = self._structure.open
        nodes = np.flatnonzero(self._segments[opened.tree] == question.segment)
        check(len(nodes) > 0, "a question is about trees that this party does not grow")
        is_all = len(nodes) == len(opened)
        search = self._search if is_all else self._search.within(nodes)
        pairs = search.pairs
        n_pairs = len(pairs.feature)
        wholes = np.flatnonzero(unpack_flags(question.wholes, len(nodes)))
        threshold = from_bytes(question.threshold, "<f4", n_pairs, "thresholds")
        check(not has_infinite(threshold), "a threshold is infinite")
        missing_left = np.zeros(n_pairs, np.uint8)
        if len(question.missing_left):
            missing_left[:] = unpack_flags(question.missing_left, n_pairs)
        set_index, sets = self._read_question_sets(question.left_set, pairs.feature, threshold)
        self._count_along(nodes, pairs.node_start, threshold, wholes)
        return Questioned(search, Cuts(threshold, missing_left, set_index, sets), wholes)

    def read_questions(self, questions: Sequence[CutsQuestion]) -> QuestionedTogether:
        """What different segments are asked about, to be counted in one pass over their rows.

        For sums without noise, which nobody counts along with.
        """
        check(self._has_proposed, "cuts are asked for before points were named")
        pairs, opened = self._search.pairs, self._structure.open
        numbers = [question.segment for question in questions]
        check(len(set(numbers)) == len(numbers), "a segment is asked twice in one request")
        groups = Grouping.of(self._segments[opened.tree], numbers, pairs.node_start)
        is_own = all(groups.n_nodes)
        check(is_own, "a question is about trees that this party does not grow")
        parts = [
            self._read_part(question, n_nodes, n_pairs)
            for question, n_nodes, n_pairs in zip(
                questions, groups.n_nodes, groups.n_pairs, strict=True
            )
        ]
        given, sides, flags = (np.concatenate(column) for column in zip(*parts, strict=True))
        feature = pairs.feature[groups.pairs]
        set_index, sets = self._read_parts_sets(questions, groups, feature, given)
        n_pairs = len(pairs.feature)
        cuts = Cuts(
            np.full(n_pairs, np.nan, np.float32),
            np.zeros(n_pairs, np.uint8),
            np.full(n_pairs, -1, np.int32),
            sets,
        )
        for column, values in zip(cuts[:3], (given, sides, set_index), strict=True):
            column[groups.pairs] = values
        is_asked = ~np.isnan(given)
        place = np.cumsum(~np.isnan(cuts.threshold)) - 1
        return QuestionedTogether(
            cuts,
            place[groups.pairs[is_asked]],
            groups.count_pairs(is_asked),
            groups.nodes[flags],
            groups.count_nodes(flags),
        )

    @staticmethod
    def _read_part(
        question: CutsQuestion, n_nodes: int, n_pairs: int
    ) -> tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.bool_]]:
        """(thresholds, sides of missing values, whole nodes) of one segment."""
        threshold = view_bytes(question.threshold, "<f4", n_pairs, "thresholds")
        check(not has_infinite(threshold), "a threshold is infinite")
        missing_left = np.zeros(n_pairs, np.uint8)
        if len(question.missing_left):
            missing_left[:] = unpack_flags(question.missing_left, n_pairs)
        return threshold, missing_left, unpack_flags(question.wholes, n_nodes)

    def _read_parts_sets(
        self,
        questions: Sequence[CutsQuestion],
        groups: Grouping,
        feature: NDArray[np.int32],
        threshold: NDArray[np.float32],
    ) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
        """(which set belongs to which pair, sets), segment by segment."""
        if not self._columns.is_categorical.any():
            empty = all(len(question.left_set) == 0 for question in questions)
            check(empty, "sets are given for columns of numbers")
            return np.full(len(feature), -1, np.int32), np.zeros((0, SET_WORDS), np.uint64)
        parts = [
            self._read_question_sets(question.left_set, feature[part], threshold[part])
            for question, part in zip(questions, cut_at(groups.pair_ends), strict=True)
        ]
        by_set = np.concatenate([index for index, _ in parts]) >= 0
        set_index = np.where(by_set, np.cumsum(by_set, dtype=np.int32) - 1, np.int32(-1))
        return set_index.astype(np.int32), np.concatenate([sets for _, sets in parts])

    def _read_question_sets(
        self, data: memoryview, feature: NDArray[np.int32], threshold: NDArray[np.float32]
    ) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
        """(which set belongs to which pair, sets)."""
        set_index = np.full(len(threshold), -1, np.int32)
        n_sets = 0
        if self._columns.is_categorical.any():
            by_set = self._columns.is_categorical[feature]
            by_set &= ~np.isnan(threshold)
            n_sets = int(np.count_nonzero(by_set))
            set_index[by_set] = np.arange(n_sets)
        sets = from_bytes(data, "<u8", n_sets * SET_WORDS, "sets")
        return set_index, sets.reshape(-1, SET_WORDS)

    def _count_along(
        self,
        nodes: NDArray[np.int64],
        node_start: NDArray[np.int64],
        threshold: NDArray[np.float32],
        wholes: NDArray[np.int64],
    ) -> None:
        """With noise, a label is counted no more often than its owner was told."""
        if not self._limits.asks_once:
            return
        ends = np.concatenate([[0], np.cumsum(~np.isnan(threshold))])
        asked = self.n_asked.copy()
        asked[nodes] += np.diff(ends[node_start])
        asked[nodes[wholes]] += 1
        check(
            bool((asked <= self._limits.candidates_per_node).all()),
            "labels of a node are asked for more often than the run agreed on",
        )
        self.n_asked = asked
