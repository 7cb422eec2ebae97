"""The party of horizontal training.

Who learns what. A party sees the candidate columns, the thresholds and the chosen splits of every
tree it takes part in, and in the end the whole forest, as all parties do. About other parties it
learns only what the forest says. It reveals its declaration, random points inside its ranges, and
label sums in the protection of the run.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b, sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.errors import FederationError, ProtocolError
from fedforest.kernels.splits.random import Values
from fedforest.masking.key_agreement import derive_key
from fedforest.masking.keystream import Scrambler, expand
from fedforest.privacy.randomized_response import Randomness
from fedforest.protocol.aggregation.base import (
    LEAST_PARTICIPANTS,
    Aggregator,
    Answers,
)
from fedforest.protocol.aggregation.messages import CountParts
from fedforest.protocol.aggregation.steps import StepMemory
from fedforest.protocol.asking import Accepted, Message, answer, check
from fedforest.protocol.horizontal.grouping import cut_at
from fedforest.protocol.horizontal.labels import PartyLabels
from fedforest.protocol.horizontal.messages import (
    AgreeOnTable,
    BeginTrees,
    CutsQuestion,
    DeclareTable,
    ProposeThresholds,
    TableDeclared,
    TakeForest,
    ThresholdsProposed,
)
from fedforest.protocol.horizontal.order import Scope
from fedforest.protocol.horizontal.party.agreement import check_agreement, read_model
from fedforest.protocol.horizontal.party.companions import Companions
from fedforest.protocol.horizontal.party.own_rows import choose_sampling
from fedforest.protocol.horizontal.party.statistics import (
    RowKeys,
    Statistics,
    choose_statistics,
)
from fedforest.protocol.horizontal.party.told import Told
from fedforest.protocol.horizontal.party.trees import (
    MAX_ENTRIES,
    DeclaredLimits,
    HorizontalPartyTrees,
)
from fedforest.protocol.horizontal.payloads import DeclaredColumns, Points
from fedforest.protocol.horizontal.tables import declare_columns, make_bins
from fedforest.protocol.payloads import TableSize, from_bytes
from fedforest.tree.files.forests import OpenedForest, StoredForest
from fedforest.tree.growth.rows import draw_rows
from fedforest.tree.table.pieces import Allocate, TableSource
from fedforest.tree.workers import ALONE, Workers

if TYPE_CHECKING:
    from fedforest.tree.table.targets import TrainingTargets

_QUESTION = msgspec.msgpack.Decoder(CutsQuestion)


def _read_question(encoded: memoryview) -> CutsQuestion:
    try:
        return _QUESTION.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ProtocolError.stating("a question cannot be read") from None


class HorizontalParty:
    """Answers the coordinator of a horizontal training with the rows of one table."""

    def __init__(  # noqa: PLR0913 - all inputs of a party
        self,
        table: TableSource,
        labels: PartyLabels,
        randomness: Randomness,
        aggregator: Aggregator,
        *,
        least_participants: int = LEAST_PARTICIPANTS,
        scope: Scope = "run",
        declared: bytes = b"",
        response_key: bytes = b"",
        row_keys: RowKeys | None = None,
        approve: Callable[[AgreeOnTable], None] | None = None,
        target_bounds: tuple[float, float] | None = None,
        workers: Workers = ALONE,
        allocate: Allocate = np.empty,
    ) -> None:
        self._table = table
        self._allocate = allocate
        self._columns: DeclaredColumns | None = None
        self._labels = labels
        self._workers = workers
        self._approve = approve
        self._bounds = target_bounds  # declared by the run; targets then have no size of their own
        self._response_key, self._row_keys = response_key, row_keys
        # one secret per purpose, drawn first, so that protections do not change the drawn rows
        self._point_secret, self._row_secret, self._noise_secret = (
            randomness(32) for _ in range(3)
        )
        self._steps = StepMemory()
        self._agreed: AgreeOnTable | None = None
        self._values: Values | None = None
        self._targets: TrainingTargets | None = None
        self._statistics: Statistics | None = None
        self._trees: HorizontalPartyTrees | None = None
        self._n_batches = 0
        self._words: Scrambler | None = None  # for the points of the current batch
        self._n_trees = 0  # begun since the last loss
        self._companions = Companions(aggregator.party, scope, least_participants)
        self._declared = declared  # what else all parties of a run must have in common
        self._n_questions = 0
        self._heard = b""  # digest of all that noisy answers depend on
        self._opened: OpenedForest | None = None
        self._model: StoredForest | None = None
        self._model_file: memoryview | None = None
        self._aggregator = aggregator
        self._sums = aggregator.handlers()

    def _handlers(self) -> dict[type[Message], Callable[[Any], Message]]:
        """The handlers by request: not kept, as a party that held its methods would hold itself."""
        return {
            DeclareTable: self._prepare,
            AgreeOnTable: self._agree,
            ProposeThresholds: self._propose,
            TakeForest: self._take_forest,
            self._aggregator.counts: self._count,
            **self._sums,
        }

    def handle(self, request: Message) -> Message:
        """Answer one request; refuse a request out of sequence, which then changes nothing."""
        n_questions, trees, companions = self._n_questions, self._trees, self._companions
        asked = None if trees is None else (trees.n_asked, trees.counted)
        heard = self._heard
        try:
            return answer(self._handlers(), request)
        except FederationError:  # questions answered before the error were not sent: undo
            self._n_questions, self._companions, self._heard = n_questions, companions, heard
            if trees is not None and asked is not None:
                trees.n_asked, trees.counted = asked
            raise

    def _prepare(self, request: DeclareTable) -> TableDeclared:
        check(request.is_regression == self._labels.is_regression, "labels are of another task")
        size = TableSize(self._table.n_rows, self._table.n_features)
        labels = self._labels.declare(request.criterion, self._bounds)
        return TableDeclared(size, self._declare(), labels)

    def _declare(self) -> DeclaredColumns:
        """Describe the columns, which takes a pass over all rows, once."""
        if self._columns is None:
            self._columns = declare_columns(self._table)
        return self._columns

    def _agree(self, request: AgreeOnTable) -> Accepted:
        check(self._agreed is None, "what was agreed on cannot be changed")
        check_agreement(request, self._declare(), self._labels)
        bins = make_bins(request.names, request.categories, has_names=self._table.has_names)
        values = bins.raw_values(self._table, self._workers, self._allocate)
        targets = self._labels.encode(request)
        statistics = choose_statistics(request, targets, self._response_key, self._row_keys)
        companions = self._companions.agree(request, has_rows=self._table.n_rows > 0)
        encoded = msgspec.msgpack.encode((self._declared, request))
        self._aggregator.bind(sha256(encoded).digest())
        if self._approve is not None:
            self._approve(request)  # last, so that a refused proposal spends nothing
        self._values = Values(
            values.reshape(-1), np.uint64(self._table.n_rows), bins.is_categorical
        )
        self._targets, self._statistics, self._agreed = targets, statistics, request
        self._companions = companions
        self._note(msgspec.structs.replace(request, blocks=(), without_rows=(), draw=None))
        return Accepted()

    def _note(self, asked: Message | list[memoryview]) -> None:
        """Bind noise to what is asked, since exact answers depend on it and all before it.

        The protection of sums is not part of it: noise is the same under any.
        """
        if self._agreement().protection.kind:
            encoded = msgspec.msgpack.encode(asked)
            self._heard = blake2b(self._heard + encoded, digest_size=32).digest()

    def _agreement(self) -> AgreeOnTable:
        if self._agreed is None:
            raise ProtocolError.stating("nothing was agreed on yet")
        return self._agreed

    def _running(self) -> AgreeOnTable:
        """Return the agreement; refuse after the end of training."""
        check(self._model_file is None, "the training is over")
        return self._agreement()

    def _propose(self, request: ProposeThresholds) -> ThresholdsProposed:
        # answer each question once: further points would reveal the range
        return self._steps.answer(request.step, 0, request, lambda: self._name_points(request))

    def _name_points(self, request: ProposeThresholds) -> ThresholdsProposed:
        self._running()
        self._note(request)
        trees = self._trees if request.start is None else self._start(request.start)
        if trees is None:
            raise ProtocolError.stating("no trees were started")
        moved = trees.read_moves(request.moves)
        candidates = trees.read_candidates(request.candidates, moved)
        if request.start is not None:
            self._begin(trees, request.start)
        trees.move(moved)
        # a random word depends on (tree, node, column) only, under a key that only this party knows
        assert self._words is not None
        points = trees.propose(candidates, self._words.scramble)
        return ThresholdsProposed(Points.of(points))

    def _begin(self, trees: HorizontalPartyTrees, start: BeginTrees) -> None:
        """Replace the growing trees by a new batch; after a loss, count trees anew."""
        left = frozenset(start.left)
        if left != self._companions.left:
            self._n_trees = 0
        self._n_batches += 1
        number = self._n_batches.to_bytes(8, "little")
        self._words = Scrambler(derive_key(self._point_secret, b"points", number))
        self._n_trees += trees.n_trees
        self._trees, self._companions = trees, self._follow(start)

    def _start(self, start: BeginTrees) -> HorizontalPartyTrees:
        agreed = self._agreement()
        assert self._targets is not None
        assert self._values is not None
        segments = from_bytes(start.segments, "<u2", len(start.segments) // 2, "segments of trees")
        check(len(segments) > 0, "a batch has no trees")
        is_sorted = bool((segments[1:] >= segments[:-1]).all())
        check(is_sorted, "trees with the same participants do not follow each other")
        n_entries = len(segments) * self._table.n_rows * (1 + agreed.candidates_per_node)
        check(len(segments) == 1 or n_entries <= MAX_ENTRIES, "a batch has too many trees")
        limits = DeclaredLimits(
            agreed.candidates_per_node,
            agreed.max_depth,
            agreed.least_rows,
            bool(agreed.protection.kind),
            agreed.rows_apart,
        )
        self._check_start(agreed, start, len(segments))
        key = derive_key(self._row_secret, b"rows", self._n_batches.to_bytes(8, "little"))
        sampling = choose_sampling(start, self._table.n_rows, is_private=limits.asks_once)
        rows, _ = draw_rows(expand(key, len(segments)), self._targets, sampling, self._workers)
        told = Told(start, segments) if self._is_protected else None
        return HorizontalPartyTrees(
            self._values, self._targets, rows, segments, limits, self._workers, told
        )

    def _follow(self, start: BeginTrees) -> Companions:
        """Return the companions of a new batch; refuse other participants than were agreed on."""
        trees = range(start.first, start.first + start.total)
        check(trees.stop <= self._agreement().n_trees, "more trees are asked for than agreed on")
        segments = np.frombuffer(start.segments, "<u2").tolist()
        return self._companions.begin_trees(frozenset(start.left), trees, segments)

    def _check_start(self, agreed: AgreeOnTable, start: BeginTrees, n_trees: int) -> None:
        """Refuse a restart with parties that left the run, and too many restarts or trees."""
        self._follow(start)
        left = frozenset(start.left)
        check(len(left) <= agreed.most_losses, "trees are begun anew more often than agreed on")
        n_begun = self._n_trees if left == self._companions.left else 0
        check(n_begun + n_trees <= agreed.n_trees, "more trees are asked for than agreed on")

    def _count(self, request: CountParts[Message]) -> Message:
        """Answer the questions over all rows in the protection of the run."""
        agreed = self._running()
        questions = [_read_question(part.question) for part in request.parts]
        told: Sequence[bytes] = ()
        if self._is_protected:
            self._join(request, questions)
            told = self._digests_told(questions)
        admitted = self._aggregator.admit(request, told)
        if admitted.reply is not None:
            return admitted.reply
        if self._trees is not None:
            self._trees.count_once([one.segment for one in questions if not one.whole_table])
        self._note([part.question for part in request.parts])
        return self._aggregator.protect(request, admitted, self._answer(agreed, questions))

    @property
    def _is_protected(self) -> bool:
        return self._companions.party is not None

    def _digests_told(self, questions: Sequence[CutsQuestion]) -> list[bytes]:
        """Return, per question, a digest of all that its answer depends on beside it."""
        if self._trees is None or any(question.whole_table for question in questions):
            return [b""] * len(questions)  # of a whole table nothing more
        return self._trees.digests_told([question.segment for question in questions])

    def _join(self, request: CountParts[Message], questions: Sequence[CutsQuestion]) -> None:
        """Take part in these sums only if their participants expose no single party."""
        for part, question in zip(request.parts, questions, strict=True):
            segment = None if question.whole_table else question.segment
            self._companions = self._companions.join(segment, part.participants, request.step)

    def _answer(self, agreed: AgreeOnTable, questions: Sequence[CutsQuestion]) -> Answers:
        """Compute the answers to the questions of a request, without noise in one pass."""
        if len(questions) > 1 and not agreed.protection.kind:  # noise is drawn per question
            return self._answer_together(questions)
        own = [self._answer_alone(agreed, one) for one in questions]
        return Answers(own[0], [len(own[0])]) if len(own) == 1 else Answers.of(own)

    def _answer_together(self, questions: Sequence[CutsQuestion]) -> Answers:
        if self._trees is None:
            raise ProtocolError.stating("no trees were started")
        assert self._statistics is not None
        check(not any(one.whole_table for one in questions), "the whole table is counted alone")
        asked = self._trees.read_questions(questions)
        self._n_questions += len(questions)
        search = self._trees.search
        counted = self._statistics.of_cuts(search, asked.cuts, b"")
        asked_ends = [0, *[search.asked_start.item(last) for _, last in asked.nodes]]
        if len(asked.wholes) == 0:
            width = counted.shape[1]
            lengths = [width * (last - first) for first, last in pairwise(asked_ends)]
            return Answers(counted.reshape(-1), lengths)
        answers = [counted[own].reshape(-1) for own in cut_at(asked_ends)]
        wholes = self._statistics.of_nodes(search, asked.wholes, b"")
        nodes = [wholes[own].reshape(-1) for own in cut_at(asked.whole_ends)]
        return Answers.of(list(map(np.concatenate, zip(answers, nodes, strict=True))))

    def _answer_alone(self, agreed: AgreeOnTable, question: CutsQuestion) -> NDArray[np.int64]:
        is_private = bool(agreed.protection.kind)
        statistics = self._statistics
        assert statistics is not None
        self._n_questions += 1
        number = self._n_questions.to_bytes(8, "little")
        # a restored copy of the run repeats the number, and under it another conversation
        key = derive_key(self._noise_secret, b"noise", number, self._heard) if is_private else b""
        if question.whole_table:
            check(self._n_questions == 1, "the whole table is counted only once, at the start")
            check(not is_private, "the whole table is counted where every question is paid for")
            return statistics.of_table(key)
        if self._trees is None:
            raise ProtocolError.stating("no trees were started")
        search, cuts, wholes = self._trees.read_question(question)
        return statistics.of_question(search, cuts, wholes, key)

    def _take_forest(self, request: TakeForest) -> Accepted:
        self._opened = read_model(request.model, self._agreement())
        self._model, self._model_file = None, request.model
        # free the training data, many times the size of the table
        self._trees = self._values = self._targets = self._statistics = None
        return Accepted()

    @property
    def model_file(self) -> memoryview:
        """The finished forest as received; raises if there is none yet."""
        if self._model_file is None:
            raise ProtocolError.stating("there is no model yet")
        return self._model_file

    @property
    def model(self) -> StoredForest | None:
        """The finished forest, or None before it arrives; expanded on first use."""
        if self._model is None and self._opened is not None:
            self._model, self._opened = self._opened.expand(self._workers), None
        return self._model
