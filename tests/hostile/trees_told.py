"""What a coordinator hears about growing trees, put together with the rows that only a test knows.

Each class follows one run by its answered requests, and keeps what was told of every node: gains,
bits of rows, thresholds. Rows are numbered as the run numbers them.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.kernels.growth.sampling import choose_rows, count_draws
from fedforest.protocol.fates import unpack_fates, unpack_flags
from fedforest.protocol.horizontal.messages import (
    BeginTrees,
    CutMoves,
    CutsQuestion,
    ProposeThresholds,
    ThresholdsProposed,
)
from fedforest.protocol.vertical.messages import (
    ApplySplits,
    FindSplits,
    FinishTrees,
    RowMoves,
    SplitsApplied,
    SplitsFound,
    StartTrees,
)

Rows = tuple[int, ...]


class Node(NamedTuple):
    """An open node: its tree among all of the run, its turns from the root, and its rows."""

    tree: int
    turns: str
    rows: Rows
    left_out: Rows = ()

    def child(self, turn: str, rows: Rows, left_out: Rows = ()) -> "Node":
        return Node(self.tree, self.turns + turn, rows, left_out)

    @property
    def place(self) -> tuple[int, str]:
        return self.tree, self.turns


def open_after(node: Node, sides: tuple[Node, Node] | None, fate: int) -> list[Node]:
    """Return what stays open of a node: itself, or those children that its fate names."""
    if sides is None:
        return [node] if fate & STAYS else []
    return [
        child for child, flag in zip(sides, (OPEN_LEFT, OPEN_RIGHT), strict=True) if fate & flag
    ]


def _part(rows: Rows, goes_left: NDArray[np.bool_]) -> tuple[Rows, Rows]:
    chosen = np.array(rows, np.int64)
    return tuple(chosen[goes_left].tolist()), tuple(chosen[~goes_left].tolist())


class _Bits:
    """Reads bits of rows, node after node; each node starts a byte."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def of(self, rows: Rows) -> tuple[Rows, Rows]:
        end = self._at + ((len(rows) + 7) >> 3)
        packed = np.frombuffer(self._data[self._at : end], np.uint8)
        self._at = end
        return _part(rows, np.unpackbits(packed, bitorder="little")[: len(rows)].astype(np.bool_))


@dataclass
class VerticalTold:
    """The trees of one vertical run, as one party's replies describe them."""

    n_rows: int
    n_trees: int = 0
    starts: list[StartTrees] = field(default_factory=list)
    open: list[Node] = field(default_factory=list)
    gains: Counter[tuple[int, str]] = field(default_factory=Counter)  # valid ones, of each node
    sides: list[tuple[Node, Node]] = field(default_factory=list)  # of nodes split by the party
    has_split: dict[int, tuple[Node, Node]] = field(default_factory=dict)  # in this step
    found: list[bool] = field(default_factory=list)  # which open nodes have a valid gain
    n_left_out_bits: int = 0
    n_splits: int = 0  # of the party, in all trees so far
    finished: tuple[int, int] = (0, 0)  # trees, and the party's splits in them

    def hear(self, request: Any, reply: Any) -> None:
        if isinstance(request, StartTrees):
            self._start(request)
        elif isinstance(request, FindSplits):
            self._move(request.moves)
            self._find(reply)
        elif isinstance(request, ApplySplits):
            self._apply(request, reply)
        elif isinstance(request, FinishTrees):
            self._move(request.moves)
            self.open, self.found = [], []
            self.finished = self.n_trees, self.n_splits

    def _start(self, request: StartTrees) -> None:
        self.starts.append(request)
        seeds = np.frombuffer(request.row_seeds, "<u8")
        self.open, self.has_split, self.found = [], {}, []
        for number, seed in enumerate(seeds):
            counts = np.ones(self.n_rows, np.uint8)
            if request.bootstrap:
                count_draws(seed, request.n_draws, counts)
            elif request.n_draws < self.n_rows:
                choose_rows(seed, request.n_draws, counts)
            rows, others = np.flatnonzero(counts), np.flatnonzero(counts == 0)
            left_out = others.tolist() if request.with_left_out else []
            root = Node(self.n_trees + number, "", tuple(rows.tolist()), tuple(left_out))
            self.open.append(root)
        self.n_trees += len(seeds)

    def _find(self, reply: SplitsFound) -> None:
        gains = reply.gains.read(len(self.open))
        self.found = [bool(np.isfinite(gain)) for gain in gains]
        self.gains.update(
            node.place for node, is_valid in zip(self.open, self.found, strict=True) if is_valid
        )

    def _apply(self, request: ApplySplits, reply: SplitsApplied) -> None:
        bits, routed = _Bits(reply.bits.data), _Bits(reply.left_out_bits.data)
        for place in np.flatnonzero(unpack_flags(request.won, len(self.open))).tolist():
            node = self.open[place]
            left, right = bits.of(node.rows) if len(reply.bits.data) else ((), ())
            out = routed.of(node.left_out)
            self.n_left_out_bits += len(node.left_out)
            self.n_splits += 1
            self.has_split[place] = node.child("l", left, out[0]), node.child("r", right, out[1])
            if len(reply.bits.data):
                self.sides.append(self.has_split[place])

    def _move(self, moves: RowMoves | None) -> None:
        if moves is None:
            return
        is_split, fates = unpack_fates(moves.fates, len(self.open))
        bits, routed = _Bits(moves.bits.data), _Bits(moves.left_out_bits.data)
        after: list[Node] = []
        for place, node in enumerate(self.open):
            sides = self.has_split.get(place)
            if sides is None and is_split[place]:
                left, right = bits.of(node.rows) if fates[place] else ((), ())
                out = routed.of(node.left_out)
                sides = node.child("l", left, out[0]), node.child("r", right, out[1])
            after += open_after(node, sides, int(fates[place]))
        self.open, self.has_split, self.found = after, {}, []


@dataclass
class HorizontalTold:
    """The trees of one horizontal run, as one party's replies describe them."""

    X: NDArray[np.float64]
    n_trees: int = 0
    starts: list[BeginTrees] = field(default_factory=list)
    open: list[Node] = field(default_factory=list)
    candidates: list[list[int]] = field(default_factory=list)  # of each open node
    points: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    n_points: Counter[tuple[int, str, int]] = field(default_factory=Counter)
    cuts: Counter[tuple[int, str, int]] = field(default_factory=Counter)  # counted, by column
    asked: Counter[tuple[int, str]] = field(default_factory=Counter)  # cuts and whole nodes
    queries: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # by row
    tried: dict[tuple[int, str], set[int]] = field(default_factory=dict)  # columns of a node
    deepest: int = -1

    def __post_init__(self) -> None:
        self.queries = np.zeros(len(self.X), np.int64)

    def propose(self, request: ProposeThresholds, reply: ThresholdsProposed) -> None:
        if request.start is not None:
            self._start(request.start)
        self._move(request.moves)
        self.deepest = max([self.deepest, *(len(node.turns) for node in self.open)])
        self.candidates = self._read_candidates(request.candidates)
        for node, own in zip(self.open, self.candidates, strict=True):
            self.tried.setdefault(node.place, set()).update(own)
        self.points = np.frombuffer(reply.points.data, "<f4")
        pairs = [(n, c) for n, own in zip(self.open, self.candidates, strict=True) for c in own]
        for (node, column), point in zip(pairs, self.points, strict=True):
            if not np.isnan(point):
                self.n_points[*node.place, column] += 1

    def _start(self, start: BeginTrees) -> None:
        self.starts.append(start)
        everybody = tuple(range(len(self.X)))
        n_new = len(start.segments) // 2
        self.open = [Node(self.n_trees + tree, "", everybody) for tree in range(n_new)]
        self.n_trees += n_new

    def _move(self, moves: CutMoves | None) -> None:
        if moves is None:
            return
        is_split, fates = unpack_fates(moves.fates, len(self.open))
        feature = iter(np.frombuffer(moves.feature, "<i4").tolist())
        threshold = iter(np.frombuffer(moves.threshold, "<f4"))
        after: list[Node] = []
        for place, node in enumerate(self.open):
            sides = None
            if is_split[place]:
                values = self.X[list(node.rows), next(feature)].astype(np.float32)
                left, right = _part(node.rows, values <= next(threshold))
                sides = node.child("l", left), node.child("r", right)
            after += open_after(node, sides, int(fates[place]))
        self.open = after

    def _read_candidates(self, data: memoryview) -> list[list[int]]:
        if not len(data):
            return [[] for _ in self.open]
        width = (self.X.shape[1] + 7) >> 3
        bitmap = np.frombuffer(data, np.uint8).reshape(len(self.open), width)
        flags = np.unpackbits(bitmap, axis=1, bitorder="little")
        return [np.flatnonzero(row).tolist() for row in flags]

    def count(self, question: CutsQuestion) -> int:
        """Note what one question counts; return how many queries it is."""
        thresholds = np.frombuffer(question.threshold, "<f4")
        wholes = unpack_flags(question.wholes, len(self.open))
        pairs = [(n, c) for n, own in zip(self.open, self.candidates, strict=True) for c in own]
        n_asked = 0
        for (node, column), threshold in zip(pairs, thresholds, strict=True):
            if not np.isnan(threshold):
                self.cuts[*node.place, column] += 1
                n_asked += self._note(node)
        for node, is_whole in zip(self.open, wholes, strict=True):
            n_asked += self._note(node) if is_whole else 0
        return n_asked

    def _note(self, node: Node) -> int:
        self.asked[node.place] += 1
        self.queries[list(node.rows)] += 1
        return 1
