"""The messages of a protected sum, counted from real ones: Table 1 of the k-PPD-ERT paper.

Real coordinators and parties form one sum; every message between them is taken apart. As the paper
counts: sends plus receives, and N includes the mediator, our coordinator. Set-up, the question and
the coordinator's relaying of what parties seal for each other are not in the paper's numbers and
are counted apart.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedforest.errors import LocalProtocolError
from fedforest.experiments.findings import Finding
from fedforest.protocol.aggregation.base import Segment, SummingParty
from fedforest.protocol.aggregation.introduction import make_members
from fedforest.protocol.aggregation.messages import (
    REQUESTS,
    AddShares,
    MaskedCounted,
    Passed,
    PassOn,
    SharedOut,
    SharesAdded,
)
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import make_aggregation, make_aggregator
from fedforest.protocol.asking import Ask, Conversation, Message
from fedforest.runtime.driver import run
from fedforest.runtime.federation import connect
from fedforest.tree.workers import ALONE

MEDIATOR = "mediator"
SIZES = range(3, 21)  # N, with the mediator
_ANSWER = np.arange(-2, 3)
Result = TypeVar("Result")
Heard = list[tuple[Mapping[str, Message], Mapping[str, Message]]]
Content = memoryview
Protected = Masked | Ring | Shamir


@dataclass(frozen=True, slots=True)
class MessageCount:
    """Messages of one sum, by role: the mediator or the name of a party."""

    sent: Counter[str]
    received: Counter[str]
    relayed: int  # of these, how many went through the mediator's hands: once in, once out
    questions: int  # requests that tell parties what is asked
    set_up: int  # requests and replies of the introduction, once per run

    @property
    def total(self) -> int:
        """Sends plus receives."""
        return self.sent.total() + self.received.total()


def paper_total(plug: Protected, n: int) -> int:
    """Return the paper's "Total (All N parties)"."""
    if isinstance(plug, Ring):
        return 2 * n
    if isinstance(plug, Masked):
        return 2 * (n - 1)
    return 2 * (n * n - n + plug.threshold - 1)


def count_messages(plug: Protected, n: int) -> MessageCount:
    """Form one sum over n - 1 parties and count."""
    names = tuple(f"party {number}" for number in range(1, n))
    members = make_members(dict.fromkeys(names, os.urandom))
    parties = {
        name: SummingParty(make_aggregator(plug, member=members[name]), _answer_questions)
        for name in names
    }
    transport = connect(parties, REQUESTS, ALONE)
    aggregation = make_aggregation(plug, os.urandom(16), os.urandom)
    set_up: Heard = []
    run(_listen(aggregation.introduce(names), set_up), transport)
    heard: Heard = []
    segment = Segment(names, b"how many?", len(_ANSWER))
    gathered = run(_listen(aggregation.gather(1, [segment]), heard), transport)
    if not np.array_equal(gathered.sums[0], _ANSWER * len(names)):
        raise LocalProtocolError(f"{plug} gave a wrong sum; its messages are not worth counting")
    n_set_up = sum(len(requests) + len(replies) for requests, replies in set_up)
    return _take_apart(heard, n_set_up)


def plugs_for(n: int) -> list[Protected]:
    """Return the techniques of the table, for N with the mediator."""
    return [Ring(), Masked(), *(Shamir(k) for k in thresholds(n))]


def tabulate(plug: Protected, n: int) -> dict[str, int]:
    """Count one sum as the table tells it, beside the paper's formula."""
    counted = count_messages(plug, n)
    return {
        "total": counted.total,
        "printed": paper_total(plug, n),
        "relayed": counted.relayed,
        "questions": counted.questions,
        "set_up": counted.set_up,
    }


def make_finding(rows: Iterable[tuple[int, str, Mapping[str, int]]]) -> Finding:
    """Table 1: counted beside the paper's formulas."""
    told = [
        [
            str(n),
            method,
            str(counted["total"]),
            str(counted["printed"]),
            "yes" if counted["total"] == counted["printed"] else "no",
            *(str(counted[kind]) for kind in ("relayed", "questions", "set_up")),
        ]
        for n, method, counted in rows
    ]
    header = ("N", "Sum by", "Counted", "Paper", "Equal", "Relayed", "Questions", "Set-up")
    return Finding("Messages of one sum (k-PPD-ERT, Table 1)", header, told, _NOTE)


_NOTE = (
    "Sends plus receives; N includes the mediator. *Relayed*: of the messages sent, those that "
    "parties sealed for each other; each passes through the coordinator, one more receive and one "
    "more send there. *Questions*: requests that say what to count. *Set-up*: all messages of the "
    "introduction, once per run."
)


def thresholds(n: int) -> list[int]:
    """Return the smallest, a middle and the largest threshold."""
    return sorted({2, n // 2 + 1, n})


def name_plug(plug: Protected) -> str:
    return f"Shamir, k = {plug.threshold}" if isinstance(plug, Shamir) else type(plug).__name__


def _answer_questions(questions: Sequence[memoryview]) -> list[NDArray[np.int64]]:
    return [_ANSWER.astype(np.int64) for _ in questions]


def _listen(conversation: Conversation[Result], heard: Heard) -> Conversation[Result]:
    """Pass a conversation on and record its messages."""
    try:
        ask: Ask = next(conversation)
        while True:
            replies: Mapping[str, Any] = yield ask
            heard.append((ask.requests, replies))
            ask = conversation.send(replies)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return] # the generator's result


@dataclass(slots=True)
class _Tally:
    """Counts messages by who sends and who receives them."""

    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    on_the_way: set[bytes] = field(default_factory=set)
    relayed: int = 0

    def add_reply(self, party: str, reply: Message) -> None:
        for content, is_sealed in _contents_of_reply(reply):
            self.sent[party] += 1
            if is_sealed:  # its receiver is another party, once it is delivered
                self.on_the_way.add(bytes(content))
            else:
                self.received[MEDIATOR] += 1

    def add_request(self, party: str, request: Message) -> None:
        for content in _contents_of_request(request):
            self.received[party] += 1
            if bytes(content) in self.on_the_way:
                self.on_the_way.remove(bytes(content))
                self.relayed += 1
            else:
                self.sent[MEDIATOR] += 1


def _take_apart(heard: Heard, set_up: int) -> MessageCount:
    tally = _Tally()
    for requests, replies in heard:
        for party, request in requests.items():
            tally.add_request(party, request)
        for party, reply in replies.items():
            tally.add_reply(party, reply)
    if tally.on_the_way:
        raise LocalProtocolError("something that was sealed for a party was never delivered")
    n_questions = sum(
        len(requests) for requests, _ in heard if any(map(_asks_something, requests.values()))
    )
    return MessageCount(tally.sent, tally.received, tally.relayed, n_questions, set_up)


def _asks_something(request: Message) -> bool:
    return not isinstance(request, AddShares)  # by then parties know the question


def _contents_of_reply(reply: Message) -> Iterator[tuple[Content, bool]]:
    """List the contents of a reply, and whether they are sealed for another party."""
    match reply:
        case MaskedCounted():
            yield reply.sums.data, False
        case Passed():
            yield from ((total.data, True) for total in reply.totals)
            yield from ((sums.data, False) for sums in reply.sums)
        case SharedOut():
            yield from ((shares.data, False) for shares in reply.opened)
            yield from ((shares.data, True) for shares in reply.sealed)
        case SharesAdded():
            yield from ((total.data, False) for total in reply.sums)


def _contents_of_request(request: Message) -> Iterator[Content]:
    """List the contents of a request besides the question."""
    match request:
        case PassOn():
            yield from request.totals
        case AddShares():
            for delivery in request.deliveries:
                yield delivery.zeros
                yield from (shares.data for shares in delivery.sealed)
