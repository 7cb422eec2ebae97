"""What a curious coordinator makes of a transcript: class counts of nodes over sets of parties.

Everything is computed from the bytes that were exchanged. A *fact* is what the labels of a node add
up to over one set of parties. Two facts about one node over sets that differ in one party give that
party's own counts away: the differencing attack.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedforest.protocol.aggregation.base import Answers, Segment
from fedforest.protocol.aggregation.messages import CountMasked, CountParts, MaskedCounted, Part
from fedforest.protocol.aggregation.packing import count_words, unpack
from fedforest.protocol.fates import unpack_fates, unpack_flags
from fedforest.protocol.horizontal.messages import (
    AgreeOnTable,
    CutsQuestion,
    ProposeThresholds,
    ThresholdsProposed,
)
from fedforest.protocol.horizontal.party.training import HorizontalParty
from fedforest.runtime.trainings.horizontal import REQUESTS
from fedforest.transport.codec import decode
from fedforest.tree.growth.candidates import list_candidates
from fedforest.tree.growth.structure import Structure
from fedforest.tree.workers import ALONE
from tests.masking.federations import unmask_sum
from tests.protocol.horizontal.federations import OpenTraining

if TYPE_CHECKING:
    from fedforest.kernels.cuts.pairs import Pairs

Counts = NDArray[np.int64]
Parties = frozenset[str]
Vectors = Mapping[str, NDArray[np.uint64]]
Unpack = Callable[[Counts], Counts]  # from the words of a sum
ReadSum = Callable[[Part, Vectors, Unpack], Counts | None]


def sizes_of_sums(training: OpenTraining) -> set[int]:
    """How many parties were in the sums of a run."""
    return {
        len(part.participants)
        for requests in training.recorder.requests
        for data in requests.values()
        if isinstance(request := decode(data, REQUESTS), CountParts)
        for part in request.parts
    }


class Node(NamedTuple):
    """A node as the coordinator knows it: trees are counted within batches and segments."""

    batch: int
    segment: int
    tree: int
    node: int


class Cut(NamedTuple):
    """What was counted for one (node, column): the right side only where it was asked for."""

    parties: Parties
    left: Counts
    right: Counts | None


class Exposed(NamedTuple):
    """What the attack says: this party has these class counts in this node."""

    node: Node
    party: str
    counts: Counts
    by: Parties  # the larger of the two sets


@dataclass
class Transcript:
    """All that follows from the bytes for the coordinator."""

    facts: dict[Node, dict[Parties, Counts]] = field(default_factory=lambda: defaultdict(dict))
    points: dict[tuple[Node, int], dict[str, float]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    tables: dict[Parties, Counts] = field(default_factory=dict)  # class counts of whole tables
    cuts: dict[tuple[Node, int], Cut] = field(default_factory=dict)  # all that were tried

    def expose(self) -> list[Exposed]:
        """The differencing attack on every node of which two facts are known."""
        return [
            Exposed(node, next(iter(larger - smaller)), counts[larger] - counts[smaller], larger)
            for node, counts in self.facts.items()
            for larger in counts
            for smaller in counts
            if smaller < larger and len(larger - smaller) == 1
        ]

    def roots(self) -> dict[Node, tuple[Parties, Counts]]:
        """Each tree's participants and what its root adds up to."""
        return {
            node: next(iter(counts.items()))
            for node, counts in self.facts.items()
            if node.node == 0
        }


def add_up(part: Part, vectors: Vectors, unpack_sum: Unpack) -> Counts | None:
    """What the coordinator can do with masked vectors: add them up once all are there."""
    if not set(part.participants) <= vectors.keys():
        return None
    return unpack_sum(unmask_sum([vectors[party] for party in part.participants]))


class SpiedParty(HorizontalParty):
    """A party that keeps what it answered before it was masked: the truth that attacks look for."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.answers: dict[bytes, Counts] = {}
        self.told: dict[bytes, bytes] = {}  # beside each question
        super().__init__(*arguments, **options)

    def _answer(self, agreed: AgreeOnTable, questions: Sequence[CutsQuestion]) -> Answers:
        answers = super()._answer(agreed, questions)
        encoded = map(msgspec.msgpack.encode, questions)
        self.answers.update(zip(encoded, answers.each(), strict=True))
        return answers

    def _digests_told(self, questions: Sequence[CutsQuestion]) -> list[bytes]:
        told = super()._digests_told(questions)
        self.told.update(zip(map(msgspec.msgpack.encode, questions), told, strict=True))
        return told


def read_transcript(training: OpenTraining, read_sum: ReadSum = add_up) -> Transcript:
    """Follow a masked training of classes from its first byte to its last."""
    reader, recorder = _Reader(read_sum), training.recorder
    for sent, heard in zip(recorder.requests, recorder.replies, strict=True):
        reader.hear(sent, heard)
    return reader.transcript


def read_truth(training: OpenTraining, party: str) -> Transcript:
    """The same of one party alone, which must have been a `SpiedParty`: what nobody should know."""
    spied = training.parties[party]
    assert isinstance(spied, SpiedParty)
    answers = spied.answers

    def read_own(part: Part, _: Vectors, __: Unpack) -> Counts | None:
        return answers.get(bytes(part.question)) if party in part.participants else None

    return read_transcript(training, read_own)


class _Reader:
    """Follows all parties' trees at once."""

    def __init__(self, read_sum: ReadSum) -> None:
        self.transcript = Transcript()
        self._read_sum = read_sum
        self._n_columns, self._n_classes, self._width, self._n_sides = 0, 0, 0, 0
        self._views: dict[str, _View] = {}
        self._n_batches = 0

    def hear(self, sent: Mapping[str, bytes], heard: Mapping[str, bytes]) -> None:
        """One exchange."""
        requests: dict[str, Any] = {party: decode(data, REQUESTS) for party, data in sent.items()}
        first = next(iter(requests.values()))
        if isinstance(first, AgreeOnTable):
            self._n_columns, self._n_classes = len(first.names), len(first.classes)
            self._width = self._n_classes + first.rows_apart
            self._n_sides = 1 + first.both_sides
        elif isinstance(first, ProposeThresholds):
            self._n_batches += first.start is not None
            for party, request in requests.items():
                self._propose(party, request, heard.get(party))
        elif isinstance(first, CountParts):
            for part, vectors in self._sort_by_part(requests, heard):
                total = self._read_sum(part, vectors, self._unpacker(requests, part))
                if total is not None:
                    self._count(part, total)

    def _propose(self, party: str, request: ProposeThresholds, reply: bytes | None) -> None:
        if request.start is not None:
            segments = np.frombuffer(request.start.segments, "<u2")
            self._views[party] = _View(self._n_batches, segments)
        view = self._views[party]
        for node, column, left, right in view.move(request):
            if (node, column) in self.transcript.cuts:
                self._follow(node, self.transcript.cuts[node, column], left, right)
        pairs = view.look(request, self._n_columns)
        if reply is None:
            return
        proposed = decode(reply, (ThresholdsProposed,))
        assert isinstance(proposed, ThresholdsProposed)
        for pair, point in zip(pairs, proposed.points.read(len(pairs)).tolist(), strict=True):
            self.transcript.points[pair][party] = point

    def _follow(self, node: Node, cut: Cut, left: Node, right: Node) -> None:
        """The sides of the chosen cut are what its children add up to."""
        facts = self.transcript.facts
        facts[left][cut.parties] = cut.left
        if cut.right is not None:
            facts[right][cut.parties] = cut.right
        elif cut.parties in facts[node]:
            facts[right][cut.parties] = facts[node][cut.parties] - cut.left

    def _sort_by_part(
        self, requests: Mapping[str, CountParts[Any]], heard: Mapping[str, bytes]
    ) -> Iterator[tuple[Part, Vectors]]:
        """Each part of a step, with the masked vectors that came back for it."""
        parts: dict[bytes, Part] = {}
        vectors: dict[bytes, dict[str, NDArray[np.uint64]]] = defaultdict(dict)
        for party, request in requests.items():
            parts |= {bytes(part.question): part for part in request.parts}
            reply = decode(heard[party], (MaskedCounted,)) if party in heard else None
            if isinstance(reply, MaskedCounted):
                masked = np.frombuffer(reply.sums.data, "<u8")
                assert isinstance(request, CountMasked)
                lengths = [self._measure(party, part) for part in request.parts]
                ends = np.cumsum([count_words(length, request.per_word) for length in lengths])
                assert ends[-1] == len(masked)
                for part, vector in zip(request.parts, np.split(masked, ends[:-1]), strict=True):
                    vectors[bytes(part.question)][party] = vector
        for key, part in parts.items():
            yield part, vectors[key]

    def _unpacker(self, requests: Mapping[str, CountParts[Any]], part: Part) -> Unpack:
        """How the words of a part's sum become numbers."""
        asked = next(iter(requests.values()))
        if not isinstance(asked, CountMasked):
            return lambda words: words
        length = self._measure(part.participants[0], part)
        return lambda words: unpack(words, Segment((), b"", length), asked.per_word)

    def _measure(self, party: str, part: Part) -> int:
        """How many numbers a part is answered with."""
        question = msgspec.msgpack.decode(part.question, type=CutsQuestion)
        if question.whole_table:
            return self._width
        asked, wholes = self._views[party].read_question(question)
        return (self._n_sides * len(asked) + len(wholes)) * self._width

    def _count(self, part: Part, total: Counts) -> None:
        question = msgspec.msgpack.decode(part.question, type=CutsQuestion)
        parties, facts = frozenset(part.participants), self.transcript.facts
        if question.whole_table:
            self.transcript.tables[parties] = total[: self._n_classes]
            return
        asked, wholes = self._views[part.participants[0]].read_question(question)
        rows = total.reshape(-1, self._width)[:, : self._n_classes]
        sides = (len(rows) - len(wholes)) // max(1, len(asked))
        for node, counts in zip(wholes, rows[len(rows) - len(wholes) :], strict=True):
            facts[node][parties] = counts
        for place, (node, column) in enumerate(asked):
            left = rows[sides * place]
            right = rows[sides * place + 1] if sides == 2 else None
            self.transcript.cuts[node, column] = Cut(parties, left, right)
            if right is not None:
                facts[node][parties] = left + right


class _View:
    """The trees of one party, followed through what it is told."""

    def __init__(self, batch: int, segments: NDArray[np.uint16]) -> None:
        self._structure = Structure(len(segments))
        n_before: dict[int, int] = defaultdict(int)
        self._trees = []
        for segment in segments.tolist():
            self._trees.append((batch, segment, n_before[segment]))
            n_before[segment] += 1
        self._pairs: Pairs | None = None

    def _nodes(self) -> list[Node]:
        opened = self._structure.open
        return [
            Node(*self._trees[tree], node)  # type: ignore[call-arg] # three and one are four
            for tree, node in zip(opened.tree.tolist(), opened.node.tolist(), strict=True)
        ]

    def move(self, request: ProposeThresholds) -> Iterator[tuple[Node, int, Node, Node]]:
        """(node, column, left child, right child) of what was split."""
        if request.moves is None:
            return
        before = self._nodes()
        is_split, fate = unpack_fates(request.moves.fates, len(before))
        feature = np.frombuffer(request.moves.feature, "<i4").tolist()
        step = self._structure.advance(is_split, fate)
        self._pairs = None
        for column, k in zip(feature, np.flatnonzero(is_split).tolist(), strict=True):
            node, left = before[k], int(step.left_child[k])
            yield node, column, node._replace(node=left), node._replace(node=left + 1)

    def look(self, request: ProposeThresholds, n_columns: int) -> list[tuple[Node, int]]:
        """The pairs that the party is asked about."""
        if len(request.candidates) == 0:
            return []
        width = (n_columns + 7) >> 3
        bitmap = np.frombuffer(request.candidates, np.uint8).reshape(-1, width).copy()
        self._pairs = list_candidates(bitmap, ALONE)
        return self._name_pairs()

    def _name_pairs(self) -> list[tuple[Node, int]]:
        assert self._pairs is not None
        nodes = self._nodes()
        owner = np.repeat(np.arange(len(nodes)), np.diff(self._pairs.node_start)).tolist()
        columns = self._pairs.feature.tolist()
        return [(nodes[k], column) for k, column in zip(owner, columns, strict=True)]

    def read_question(self, question: CutsQuestion) -> tuple[list[tuple[Node, int]], list[Node]]:
        """(asked pairs, whole nodes) in the order in which they are counted."""
        pairs = [pair for pair in self._name_pairs() if pair[0].segment == question.segment]
        nodes = [node for node in self._nodes() if node.segment == question.segment]
        is_asked = (~np.isnan(np.frombuffer(question.threshold, "<f4"))).tolist()
        is_whole = unpack_flags(question.wholes, len(nodes)).tolist()
        return (
            [pair for pair, yes in zip(pairs, is_asked, strict=True) if yes],
            [node for node, yes in zip(nodes, is_whole, strict=True) if yes],
        )
