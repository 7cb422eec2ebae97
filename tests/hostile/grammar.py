"""The requests that a coordinator can make of a party, valid in form, with contents of its choice.

Each class speaks about one run. In `honest` mode it asks what an honest coordinator could ask next,
with labels, cuts and moves of its own choice. Otherwise it asks anything at any time, and may say
other numbers than were declared.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedforest.kernels.growth.partition import OPEN_LEFT, OPEN_RIGHT, STAYS
from fedforest.privacy.global_dp import GlobalDP, TargetGrid
from fedforest.protocol.aggregation.messages import Count, CountNoisily, Part
from fedforest.protocol.asking import Request
from fedforest.protocol.fates import pack_fates, pack_flags
from fedforest.protocol.horizontal.contract import (
    count_losses,
    count_queries,
    describe_protection,
)
from fedforest.protocol.horizontal.messages import (
    AgreeOnTable,
    BeginTrees,
    CutMoves,
    DeclareTable,
    ProposeThresholds,
    Protection,
)
from fedforest.protocol.linear.messages import (
    Measure,
    Propose,
    Settle,
    ShareWeights,
    StandardiseColumns,
)
from fedforest.protocol.payloads import Curvatures, EncodedLabels, Residuals, RowBits, to_bytes
from fedforest.protocol.scoring.messages import ScoreOwnVotes, ScoreVotes
from fedforest.protocol.vertical.messages import (
    ApplySplits,
    BinColumns,
    FindSplits,
    FinishTrees,
    RowMoves,
    ShareLabels,
    StartTrees,
    TakeLabels,
    WeighColumns,
)
from fedforest.runtime.messages.roles import ScoringRole
from fedforest.tree.growth.decisions import NO_DEPTH_LIMIT
from tests.hostile.oracle import RunTold, Table
from tests.hostile.trees_told import HorizontalTold, Node, VerticalTold
from tests.protocol.horizontal.asking_one import ask_cuts, describe, pack_candidates

Drawn = TypeVar("Drawn")
Draw = Callable[[st.SearchStrategy[Any]], Any]
NOTHING = memoryview(b"")
SEEDS = st.integers(0, 3)
LABELS = ("y", "z")  # columns that are labels and nothing else
YES, NO = (True,), (False,)  # instead of a flag that was declared


class Speaker:
    """Base of the speakers about one run: draws contents, and bends declared numbers."""

    names: ClassVar[dict[type, str]]  # the method that makes a request
    after: ClassVar[dict[str, tuple[str, ...]]]  # what an honest run may ask next; "" before all

    def __init__(self, draw: Draw, told: RunTold, table: Table) -> None:
        self.draw, self.told, self.table = draw, told, table
        named = (told.role.label, told.role.weight, *LABELS)
        self.features = [name for name in table if name not in named]
        self.is_honest = True

    def next(self) -> Request[Any] | None:
        """Ask what may come next in an honest run; None if there is nothing."""
        names = [name for name in self.after.get(self._last(), ()) if self.is_possible(name)]
        return getattr(self, self.draw(st.sampled_from(names)))() if names else None

    def next_bent(self) -> Request[Any] | None:
        """Ask what may come next, with other numbers than were declared."""
        self.is_honest = False
        return self.next()

    def again(self) -> Request[Any] | None:
        """Ask one of the last requests as it was."""
        last = self.told.exchanges[-3:]
        request: Request[Any] | None = self.draw(st.sampled_from(last))[0] if last else None
        return request

    def more(self) -> Request[Any] | None:
        """Ask once more what was asked last, with other contents."""
        last = self._last()
        return getattr(self, last)() if last else None

    def anything(self) -> Request[Any]:
        """Ask anything that the run's protocol knows."""
        self.is_honest = False
        names = sorted({name for names in self.after.values() for name in names})
        request: Request[Any] = getattr(self, self.draw(st.sampled_from(names)))()
        return request

    def _last(self) -> str:
        return self.names[type(self.told.exchanges[-1][0])] if self.told.exchanges else ""

    def is_possible(self, name: str) -> bool:
        """Tell whether the trees are where this request comes."""
        return bool(name)

    def bend(self, declared: Drawn, *others: Any) -> Drawn:
        """Return what was declared, or something else where the coordinator does not mind."""
        if self.is_honest:
            return declared
        chosen: Drawn = self.draw(st.sampled_from([declared] * 3 + list(others)))
        return chosen

    def flags(self, n: int) -> NDArray[np.bool_]:
        bits = self.draw(st.integers(0, 2**n - 1)) if n else 0
        return np.array([bits >> place & 1 for place in range(n)], np.bool_)

    def is_chosen(self) -> bool:
        return bool(self.draw(st.booleans()))


def pack_rows(sides: list[NDArray[np.bool_]]) -> RowBits:
    packed = [np.packbits(goes_left, bitorder="little") for goes_left in sides]
    return RowBits.of(np.concatenate([np.zeros(0, np.uint8), *packed]))


class VerticalSpeaker(Speaker):
    """Grows trees at one party: its columns are searched for labels of the coordinator's choice."""

    names: ClassVar = {
        BinColumns: "bin",
        ShareLabels: "share",
        TakeLabels: "take",
        StartTrees: "start",
        FindSplits: "find",
        ApplySplits: "apply",
        FinishTrees: "finish",
        WeighColumns: "weigh",
    }
    after: ClassVar = {
        "": ("bin",),
        "bin": ("share", "take"),
        "share": ("take",),
        "take": ("start",),
        "start": ("find",),
        "find": ("apply", "find", "finish"),
        "apply": ("find", "find", "finish"),
        "finish": ("start", "weigh"),
    }

    @property
    def trees(self) -> VerticalTold:
        assert self.told.vertical is not None
        return self.told.vertical

    @property
    def forest(self) -> Any:
        return self.told.terms.forest

    def is_possible(self, name: str) -> bool:
        if name == "share":
            return self.told.role.label is not None
        if name == "take":
            return self.told.role.label is None or bool(self.told.count(ShareLabels))
        if name == "start":
            return bool(self.trees.n_trees < self.forest.n_estimators)
        return any(self.trees.found) if name == "apply" else name != "find" or bool(self.trees.open)

    def bin(self) -> BinColumns:
        bins = self.bend(self.forest.max_bins, 2)
        return BinColumns(self.draw(SEEDS), bins, self.forest.scored_by.wire)

    def share(self) -> ShareLabels:
        epsilon = self.bend(self.told.terms.label_epsilon, None, 0.5, 8.0)
        n_classes = 0 if self.told.role.is_regression else self._count_classes()
        return ShareLabels(tuple(self.draw(st.permutations(range(n_classes)))), epsilon)

    def _count_classes(self) -> int:
        label = self.told.role.label
        return 2 if label is None else len(np.unique(self.table[label][self.told.rows]))

    def take(self) -> TakeLabels:
        n_classes = 0 if self.told.role.is_regression else self._count_classes()
        made_up = self._make_up_labels(n_classes)
        shared = [reply.labels or reply.noisy_labels for reply in self._shared()]
        labels = self.bend(shared[0], made_up) if shared else made_up
        return TakeLabels(n_classes, self.forest.scored_by.wire, labels)

    def _shared(self) -> list[Any]:
        return [reply for asked, reply in self.told.exchanges if isinstance(asked, ShareLabels)]

    def _make_up_labels(self, n_classes: int) -> EncodedLabels:
        chosen = self.flags(self.trees.n_rows)
        if n_classes == 0:
            return EncodedLabels(NOTHING, to_bytes(chosen.astype(np.int64), "<i8"), NOTHING)
        return EncodedLabels(memoryview(chosen.astype("u1").tobytes()), NOTHING, NOTHING)

    def start(self) -> StartTrees:
        n_left = max(1, self.forest.n_estimators - self.trees.n_trees)
        n_trees = self.draw(st.integers(1, min(3, n_left + (not self.is_honest))))
        seeds = np.array([self.draw(st.integers(0, 99)) for _ in range(n_trees)], "<u8")
        sampling = self.forest.sampling(self.trees.n_rows)
        return StartTrees(
            memoryview(seeds.tobytes()),
            self.bend(sampling.bootstrap, not sampling.bootstrap),
            self.bend(sampling.n_draws, 1, max(1, self.trees.n_rows // 2)),
            self.bend(self.forest.min_rows_leaf(self.trees.n_rows), 1),
            self.bend(self.told.terms.votes_left_out, *YES),
        )

    def find(self) -> FindSplits | FinishTrees:
        searched = bool(self.trees.found)
        moves, n_open = self._move(may_stay=True) if searched else (None, len(self.trees.open))
        if self.is_honest and n_open == 0:
            return FinishTrees(moves)
        columns = [np.flatnonzero(self.flags(len(self.features))).tolist() for _ in range(n_open)]
        return FindSplits(moves, pack_candidates(columns, len(self.features)))

    def apply(self) -> ApplySplits:
        found = np.array(self.trees.found or [False] * len(self.trees.open), np.bool_)
        won = self.flags(len(found)) & found
        return ApplySplits(pack_flags(won), with_bits=self.draw(st.integers(0, 4)) > 0)

    def finish(self) -> FinishTrees:
        return FinishTrees(self._move(may_stay=False)[0])

    def _move(self, *, may_stay: bool) -> tuple[RowMoves, int]:
        """Move rows along own splits, and along splits that the coordinator makes up."""
        is_split, fates, sides, routed = [], [], [], []
        for place, node in enumerate(self.trees.open):
            own = self.trees.has_split.get(place)
            foreign = None if own else self._make_up_split(node)
            is_split.append(bool(own) or foreign is not None)
            fates.append(self._choose_fate(place, node, is_split=is_split[-1], may_stay=may_stay))
            if foreign is not None:
                sides += [foreign] if fates[-1] else []  # rows of closed children do not move
                routed.append(self.flags(len(node.left_out)))
        n_open = sum(bin(fate).count("1") for fate in fates)
        packed = pack_fates(np.array(is_split, np.bool_), np.array(fates, np.uint8))
        return RowMoves(packed, pack_rows(sides), pack_rows(routed)), n_open

    def _make_up_split(self, node: Node) -> NDArray[np.bool_] | None:
        least = self.bend(self.forest.min_rows_leaf(self.trees.n_rows), 1)
        if len(node.rows) < 2 * least or not self.is_chosen():
            return None
        order = np.array(self.draw(st.permutations(range(len(node.rows)))))
        goes_left = np.zeros(len(node.rows), np.bool_)
        goes_left[order[: self.draw(st.integers(least, len(node.rows) - least))]] = True
        return goes_left

    def _choose_fate(self, place: int, node: Node, *, is_split: bool, may_stay: bool) -> int:
        own = self.trees.has_split.get(place)
        is_unknown = own is not None and not own[0].rows  # split without bits
        if not may_stay or is_unknown:
            return 0
        if not is_split:
            has_gain = bool(self.trees.found) and self.trees.found[place]
            return STAYS if self.bend(not has_gain, *YES) and self.is_chosen() else 0
        if self.bend(len(node.turns) + 1 >= self.forest.depth_limit, *NO):
            return 0
        chosen: int = self.draw(st.sampled_from([0, OPEN_LEFT, OPEN_RIGHT, 3]))
        return chosen

    def weigh(self) -> WeighColumns:
        n_trees, n_splits = self.trees.finished
        decrease, totals = np.zeros(n_splits), np.ones(n_trees)
        with_votes = self.bend(self.told.terms.tells_votes, *YES)
        encoded = to_bytes(decrease, "<f8"), to_bytes(totals, "<f8")
        return WeighColumns(*encoded, with_votes=with_votes, ends_early=True)


class HorizontalSpeaker(Speaker):
    """Grows extra-trees at one party: labels are counted at cuts of the coordinator's choice."""

    names: ClassVar = {
        DeclareTable: "declare",
        AgreeOnTable: "agree",
        ProposeThresholds: "propose",
        Count: "count",
        CountNoisily: "count",
    }
    after: ClassVar = {
        "": ("declare",),
        "declare": ("agree",),
        "agree": ("start",),
        "propose": ("count", "count", "count", "propose"),
        "count": ("propose", "propose", "propose", "start"),
    }

    @property
    def trees(self) -> HorizontalTold:
        assert self.told.horizontal is not None
        return self.told.horizontal

    @property
    def forest(self) -> Any:
        return self.told.terms.forest

    @property
    def _n_columns(self) -> int:
        return len(self.features)

    @property
    def _candidates(self) -> int:
        n: int = self.forest.growth_rules(len(self.trees.X), self._n_columns).features_per_node
        return n

    def is_possible(self, name: str) -> bool:
        if name == "start":
            return bool(self.trees.n_trees < self.forest.n_estimators)
        return bool(self.trees.open) or name not in ("count", "propose")

    def declare(self) -> DeclareTable:
        return DeclareTable(self.told.role.is_regression, self.forest.scored_by.wire)

    def agree(self) -> AgreeOnTable:
        noise, role = self.told.terms.noise(), self.told.role
        label = role.label or "y"
        classes = () if role.is_regression else tuple(np.unique(self.table[label]).tolist())
        rules = self.forest.growth_rules(len(self.trees.X), self._n_columns)
        queries = count_queries(self.forest, rules)
        is_endless = queries.count is None and getattr(noise, "epsilon", None) is not None
        noise = GlobalDP(epsilon_query=0.25) if is_endless else noise  # nothing could be agreed on
        protection = describe_protection(noise, len(classes), queries)
        grid = None if noise is None else getattr(noise, "target_bounds", None)
        target = (
            (1.0, 0.0) if grid is None else (TargetGrid.of(grid).unit, TargetGrid.of(grid).offset)
        )
        losses = count_losses(self.told.terms.n_parties, noise)
        return describe(
            self._n_columns,
            len(classes),
            names=tuple(self.features),
            class_dtype="int64" if classes else "",
            classes=classes,
            target_unit=target[0],
            target_offset=target[1],
            protection=self.bend(protection, Protection(), _weaker(protection)),
            n_trees=self.bend(self.forest.n_estimators, 50),
            max_depth=self.bend(min(rules.max_depth, NO_DEPTH_LIMIT), 9),
            candidates_per_node=self.bend(self._candidates, self._n_columns),
            both_sides=noise is not None,
            rows_apart=noise is not None,
            most_losses=self.bend(losses, 9),
        )

    def start(self) -> ProposeThresholds:
        n_left = max(1, self.forest.n_estimators - self.trees.n_trees)
        n_trees = self.draw(st.integers(1, min(2, n_left)))
        bootstrap = self.forest.bootstrap
        n_draws = self.forest.sampling(len(self.trees.X)).n_draws
        left = self.trees.starts[-1].left if self.trees.starts else ()
        one_more = (*left, len(left))
        start = BeginTrees(
            memoryview(np.zeros(n_trees, "<u2").tobytes()),
            self.bend(bootstrap, not bootstrap),
            self.bend(n_draws, 1),
            len(self.trees.X),
            self.bend(left, one_more, one_more),
        )
        return ProposeThresholds(self._step(), start, None, self._choose_columns([None] * n_trees))

    def propose(self) -> ProposeThresholds:
        moves, after = self._move()
        return ProposeThresholds(self._step(), None, moves, self._choose_columns(after))

    def _step(self) -> int:
        steps = [request.step for request, _ in self.told.exchanges if hasattr(request, "step")]
        last = max(steps, default=0)
        return self.bend(last + 1, last, max(0, last - 1))

    def _choose_columns(self, nodes: list[Node | None]) -> memoryview:
        """Choose candidates of open nodes; None stands for a new node."""
        columns = []
        for node in nodes:
            tried = set() if node is None else self.trees.tried.get(node.place, set())
            known = self.bend(tried, set())
            new = [column for column in range(self._n_columns) if column not in known]
            order = self.draw(st.permutations(new)) if new else []
            columns.append(order[: self.bend(self._candidates, self._n_columns)])
        return pack_candidates(columns, self._n_columns)

    def _move(self) -> tuple[CutMoves, list[Node | None]]:
        is_split, fates, chosen, after = [], [], [], list[Node | None]()
        for node in self.trees.open:
            is_split.append(self.is_chosen())
            if not is_split[-1]:
                fates.append(STAYS if self.is_chosen() else 0)
                after += [node] if fates[-1] else []
                continue
            is_deep = len(node.turns) + 1 >= self.forest.depth_limit
            fates.append(0 if self.bend(is_deep, *NO) else self.draw(st.integers(0, 3)))
            after += [None] * bin(fates[-1]).count("1")
            column = self.draw(st.integers(0, self._n_columns - 1))
            chosen.append((column, self._choose_cut(node, column)))
        split_columns = np.array([column for column, _ in chosen], "<i4")
        cuts = np.array([cut for _, cut in chosen], "<f4")
        packed = pack_fates(np.array(is_split, np.bool_), np.array(fates, np.uint8))
        feature, threshold = memoryview(split_columns.tobytes()), memoryview(cuts.tobytes())
        return CutMoves(packed, feature, threshold, memoryview(bytes(len(chosen))), NOTHING), after

    def _choose_cut(self, node: Node, column: int) -> float:
        """Choose a value of a row, or the middle of two."""
        values = np.unique(self.trees.X[list(node.rows), column])
        if len(values) < 2:
            return 0.0
        at = self.draw(st.integers(0, len(values) - 2))
        between = (values[at] + values[at + 1]) / 2
        return float(self.draw(st.sampled_from([values[at], between])))

    def count(self) -> Count | CountNoisily:
        is_noisy = self.told.terms.privacy is not None
        cuts: list[float] = []
        wholes = []
        for node, own in zip(self.trees.open, self.trees.candidates, strict=True):
            is_whole = self.is_chosen()
            room = self._candidates - self.trees.asked[node.place] - is_whole
            may_ask = self.bend(max(0, room) if is_noisy else len(own), len(own))
            wholes.append(is_whole and (room >= 0 or not is_noisy or not self.is_honest))
            asked = [self._choose_cut(node, column) for column in own[:may_ask]]
            cuts += asked + [np.nan] * (len(own) - len(asked))
        kind = self.bend(CountNoisily if is_noisy else Count, Count, CountNoisily)
        return kind(self._step(), (Part((), ask_cuts(cuts, wholes)),))


def _weaker(protection: Protection) -> Protection:
    return msgspec.structs.replace(
        protection, epsilon_query=8.0 * protection.epsilon_query, keep=protection.keep * 0.999
    )


class LinearSpeaker(Speaker):
    """Asks one party of a linear model for directions and residuals."""

    names: ClassVar = {
        ShareWeights: "weigh",
        StandardiseColumns: "standardise",
        Measure: "measure",
        Propose: "propose",
        Settle: "settle",
    }
    after: ClassVar = {
        "": ("weigh", "standardise"),
        "weigh": ("standardise",),
        "standardise": ("measure", "propose"),
        "measure": ("propose", "measure"),
        "propose": ("measure", "propose", "settle"),
    }

    def is_possible(self, name: str) -> bool:
        if name == "propose":
            return self.told.count(Propose) < self.told.terms.most_steps
        return self.told.role.label is not None or name not in ("weigh", "measure")

    @property
    def _n_rows(self) -> int:
        return len(self.told.rows)

    def weigh(self) -> ShareWeights:
        return ShareWeights()

    def standardise(self) -> StandardiseColumns:
        return StandardiseColumns(1.0)

    def measure(self) -> Measure:
        return Measure(to_bytes(self.flags(self._n_rows), "<f8"))

    def propose(self) -> Propose:
        coefficients = to_bytes(np.zeros(self.told.count(Propose)), "<f8")
        residuals = Residuals.of(self.flags(self._n_rows).astype(np.float64))
        return Propose(residuals, coefficients, Curvatures.of(np.ones(self._n_rows)))

    def settle(self) -> Settle:
        return Settle(to_bytes(np.zeros(self.told.count(Propose)), "<f8"))


class ScoringSpeaker(Speaker):
    """Asks for scores of votes of the coordinator's choice, or of a baseline."""

    names: ClassVar = {ScoreVotes: "score", ScoreOwnVotes: "score_own"}
    after: ClassVar = {"": ("score", "score_own")}

    def is_possible(self, name: str) -> bool:
        is_sent = isinstance(self.told.role, ScoringRole) and not self.told.role.has_model
        return (name == "score") == is_sent

    def score(self) -> ScoreVotes:
        label = self.told.role.label or "y"
        n_outputs = 1 if self.told.role.is_regression else len(np.unique(self.table[label]))
        votes = np.zeros((len(self.told.rows), n_outputs))
        chosen = self.flags(len(votes)).astype(np.int64)
        votes[np.arange(len(votes)), chosen % n_outputs] = 1.0
        return ScoreVotes(to_bytes(votes, "<f8"))

    def score_own(self) -> ScoreOwnVotes:
        return ScoreOwnVotes()
