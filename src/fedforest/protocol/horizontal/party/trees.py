"""One party's side of a batch of growing extra-trees: its rows, followed from node to node.

It knows every split, as all parties will, and the nodes of its own rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.cuts.draws import place_pairs
from fedforest.kernels.cuts.pairs import Cuts, Pairs, judge_pairs
from fedforest.kernels.cuts.points import has_infinite
from fedforest.kernels.growth.children import follow_tried
from fedforest.kernels.growth.split_checks import (
    NO_COLUMN,
    NO_NUMBER,
    NO_SIDE,
    find_wrong_split,
)
from fedforest.kernels.splits.random import Values
from fedforest.protocol.asking import check
from fedforest.protocol.fates import (
    count_open_each,
    find_flagged,
    unpack_fates,
    unpack_flags,
)
from fedforest.protocol.horizontal.messages import CutMoves, CutsQuestion
from fedforest.protocol.horizontal.party.together import (
    QuestionedTogether,
    read_sets_of_pairs,
    read_together,
)
from fedforest.protocol.horizontal.party.told import Told
from fedforest.protocol.payloads import from_bytes
from fedforest.tree.growth.candidates import list_placed
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT
from fedforest.tree.growth.point_search import PointSearch
from fedforest.tree.growth.rows import NodeRows
from fedforest.tree.growth.split_search import SplitTable
from fedforest.tree.growth.structure import Structure
from fedforest.tree.table.targets import TrainingTargets
from fedforest.tree.workers import Workers

WordsAt = Callable[[NDArray[np.uint64]], NDArray[np.uint64]]  # two for each place of a pair

SET_WORDS = 4
NO_FLAGS = np.zeros(0, np.bool_)
MAX_ENTRIES = 2**28  # rows and values of a batch: limit of a party's memory


@dataclass(frozen=True, slots=True)
class DeclaredLimits:
    """The agreed limits of the run, which the party enforces."""

    candidates_per_node: int
    max_depth: int
    least_rows: int
    asks_once: bool  # labels of a node are counted for at most so many candidates in all
    rows_apart: bool


@dataclass(frozen=True, slots=True, eq=False)
class HorizontalMoved:
    """Moves that were read and checked, but not made yet."""

    is_split: NDArray[np.bool_]
    fate: NDArray[np.uint8]
    table: SplitTable


class Candidates(NamedTuple):
    """Candidates that were read and checked; flags are a bitmap of columns per open node."""

    pairs: Pairs | None  # None where the party takes no part in the step
    flags: NDArray[np.uint8]
    tried: NDArray[np.uint8]  # flags of earlier candidates, which gave no valid cut


class Questioned(NamedTuple):
    """A decoded question: the cuts of the searched nodes, and the nodes to count whole."""

    search: PointSearch
    cuts: Cuts
    wholes: NDArray[np.int64]


class HorizontalPartyTrees:
    """The party's rows of a batch of trees."""

    def __init__(  # noqa: PLR0913, PLR0917 - what the party brings along
        self,
        columns: Values,
        targets: TrainingTargets,
        rows: NodeRows,
        segments: NDArray[np.uint16],
        limits: DeclaredLimits,
        workers: Workers,
        told: Told | None = None,
    ) -> None:
        self._columns = columns
        self._told = told  # None: sums are plain
        self._has_categories = bool(columns.is_categorical.any())
        self._segments = segments
        self._first_trees = np.flatnonzero(np.diff(segments, prepend=-1)).astype(np.int32)
        self._numbers: list[int] = segments[self._first_trees].tolist()  # of the segments
        self._limits = limits
        self._workers = workers
        self._structure = Structure(len(segments))
        self._search = PointSearch(columns, targets, rows, workers, rows_apart=limits.rows_apart)
        self._has_begun, self._has_proposed = False, False
        width = (self._n_columns + 7) >> 3
        self._tried = np.zeros((len(segments), width), np.uint8)
        self._flags = self._tried  # of the last candidates
        self.counted: frozenset[int] = frozenset()  # segments whose sums were asked in this step
        self.n_asked = np.zeros(len(segments), np.int64)  # candidates counted, per open node

    @property
    def n_trees(self) -> int:
        """Trees of the batch that this party grows."""
        return len(self._segments)

    @property
    def search(self) -> PointSearch:
        """The search over the rows of all open nodes."""
        return self._search

    def read_moves(self, moves: CutMoves | None) -> HorizontalMoved | None:
        """Read the fates of the open nodes; move no rows yet, so that a refusal changes nothing."""
        if moves is None:
            check(not self._has_begun, "a step begins before the last one ended")
            return None
        is_split, fate = unpack_fates(moves.fates, len(self._structure.open))
        n_split = int(np.count_nonzero(is_split))
        feature = from_bytes(moves.feature, "<i4", n_split, "split columns")
        threshold = from_bytes(moves.threshold, "<f4", n_split, "thresholds")
        missing_left = from_bytes(moves.missing_left, "u1", n_split, "sides of missing values")
        wrong = find_wrong_split(feature, threshold, missing_left, self._n_columns)
        check(wrong != NO_COLUMN, "a split has no such column")
        check(wrong != NO_NUMBER, "a threshold is no number")
        check(wrong != NO_SIDE, "a side of missing values is none")
        sets = self._read_sets(moves.left_set, self._are_categorical(feature))
        self._check_depth(is_split, fate)
        return HorizontalMoved(is_split, fate, SplitTable(feature, threshold, missing_left, sets))

    def _check_depth(self, is_split: NDArray[np.bool_], fate: NDArray[np.uint8]) -> None:
        if self._limits.max_depth >= NO_DEPTH_LIMIT:
            return
        has_children = (fate > 0) & is_split
        depth = self._structure.open.depth[has_children].max(initial=-1) + 1
        check(int(depth) < self._limits.max_depth, "a tree is deeper than the run agreed on")

    @property
    def _n_columns(self) -> int:
        return len(self._columns.is_categorical)

    def _are_categorical(self, feature: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which of these columns are categorical; empty if no column is."""
        if not self._has_categories:
            return NO_FLAGS
        return self._columns.is_categorical[feature]

    def _read_sets(self, data: memoryview, by_set: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """Read a set for each split, empty for thresholds; none without categorical columns."""
        n_sets = int(np.count_nonzero(by_set))
        given = from_bytes(data, "<u8", n_sets * SET_WORDS, "sets").reshape(-1, SET_WORDS)
        if not self._has_categories:
            return given
        sets = np.zeros((len(by_set), SET_WORDS), np.uint64)
        sets[by_set] = given
        return sets

    def read_candidates(self, data: memoryview, moved: HorizontalMoved | None) -> Candidates:
        """Read the candidates of each node open after the moves."""
        tried = self._tried
        if moved is not None:
            tried = follow_tried(moved.fate, tried, self._flags)
        if len(data) == 0:
            return Candidates(None, np.zeros_like(tried), tried)
        bitmap = from_bytes(data, "u1", tried.size, "candidates").reshape(tried.shape)
        node_start, most, are_columns, are_new = judge_pairs(bitmap, tried, self._n_columns)
        check(are_columns, "a candidate is no column")
        is_agreed = most <= self._limits.candidates_per_node
        check(is_agreed, "a node has more candidate columns than the run agreed on")
        check(are_new, "a column of a node is tried again")
        return Candidates(list_placed(bitmap, node_start, self._workers), bitmap, tried)

    @staticmethod
    def _follow(moved: HorizontalMoved, per_node: NDArray[Any]) -> NDArray[Any]:
        """Carry per-node values over to the nodes open after the moves; 0 for children."""
        known = per_node.copy()
        known[moved.is_split] = 0
        return np.repeat(known, count_open_each(moved.fate), axis=0)

    def move(self, moved: HorizontalMoved | None) -> None:
        """Split nodes and move rows to the children that stay open."""
        if moved is None:
            return
        if self._told is not None:
            self._told.move(self._nodes_of(), moved.is_split, moved.fate, moved.table)
        step = self._structure.advance(moved.is_split, moved.fate)
        if not step.nothing_left:
            self._search.move(step, moved.table)
        if self._limits.asks_once:
            self.n_asked = self._follow(moved, self.n_asked)
        self._has_proposed = False

    def propose(self, candidates: Candidates, words_at: WordsAt) -> NDArray[np.float32]:
        """Draw a random point for each candidate of each open node."""
        pairs = candidates.pairs
        self._flags, self._tried = candidates.flags, candidates.tried
        self._has_begun, self.counted = True, frozenset()
        if pairs is None:
            return np.zeros(0, np.float32)
        self._has_proposed = True
        opened = self._structure.open

        def draw_words(first: int, last: int) -> NDArray[np.uint64]:
            return words_at(place_pairs(pairs, opened.tree, opened.node, first, last))

        return self._search.propose(pairs, draw_words, self._limits.least_rows)

    def count_once(self, segments: Sequence[int]) -> None:
        """Refuse to count a segment twice in one step."""
        counted = self.counted.union(segments)
        is_new = len(counted) == len(self.counted) + len(segments)
        check(is_new, "the sums of trees are asked for twice in one step")
        self.counted = counted

    def read_question(self, question: CutsQuestion) -> Questioned:
        """Decode the question of one segment."""
        check(self._has_proposed, "cuts are asked for before points were named")
        opened = self._structure.open
        nodes = self._list_nodes(question.segment)
        check(len(nodes) > 0, "a question is about trees that this party does not grow")
        is_all = len(nodes) == len(opened)
        search = self._search if is_all else self._search.within(nodes)
        pairs = search.pairs
        n_pairs = len(pairs.feature)
        wholes = find_flagged(question.wholes, len(nodes))
        threshold = from_bytes(question.threshold, "<f4", n_pairs, "thresholds")
        check(not has_infinite(threshold), "a threshold is infinite")
        missing_left = np.zeros(n_pairs, np.uint8)
        if len(question.missing_left):
            missing_left[:] = unpack_flags(question.missing_left, n_pairs)
        are_categorical = self._are_categorical(pairs.feature)
        set_index, sets = read_sets_of_pairs(question.left_set, are_categorical, threshold)
        if self._limits.asks_once:
            self._count_along(nodes, pairs.node_start, threshold, wholes)
        return Questioned(search, Cuts(threshold, missing_left, set_index, sets), wholes)

    def _list_nodes(self, segment: int) -> NDArray[np.int64]:
        """Return the open nodes of a segment; fast if the batch has one segment, as is usual."""
        tree = self._structure.open.tree
        if self._numbers == [segment]:
            return np.arange(len(tree))
        return np.flatnonzero(self._segments[tree] == segment)

    def read_questions(self, questions: Sequence[CutsQuestion]) -> QuestionedTogether:
        """Decode the questions of several segments, for sums without noise."""
        check(self._has_proposed, "cuts are asked for before points were named")
        is_categorical = self._columns.is_categorical[: None if self._has_categories else 0]
        return read_together(questions, self._nodes_of(), self._search.pairs, is_categorical)

    def digests_told(self, segments: Sequence[int]) -> list[bytes]:
        """Return, per segment, a digest of all that its participants were told of its trees."""
        assert self._told is not None
        return self._told.digests(segments, self._nodes_of(), self._flags)

    def _nodes_of(self) -> dict[int, tuple[int, int]]:
        """Return the range of open nodes of each segment that has some."""
        tree = self._structure.open.tree
        ends = [*tree.searchsorted(self._first_trees).tolist(), len(tree)]
        own = zip(self._numbers, pairwise(ends), strict=True)
        return {number: nodes for number, nodes in own if nodes[0] < nodes[1]}

    def _count_along(
        self,
        nodes: NDArray[np.int64],
        node_start: NDArray[np.int64],
        threshold: NDArray[np.float32],
        wholes: NDArray[np.int64],
    ) -> None:
        """Refuse to count the labels of a node more often than agreed; only under noise."""
        ends = np.concatenate([[0], np.cumsum(~np.isnan(threshold))])
        asked = self.n_asked.copy()
        asked[nodes] += np.diff(ends[node_start])
        asked[nodes[wholes]] += 1
        check(
            bool((asked <= self._limits.candidates_per_node).all()),
            "labels of a node are asked for more often than the run agreed on",
        )
        self.n_asked = asked
