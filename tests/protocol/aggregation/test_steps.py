"""A party answers a step once: repeats get the same bytes, everything else a named error."""

from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from fedforest.errors import FederationError, ProtocolError, RemoteProtocolError
from fedforest.protocol.aggregation.messages import REQUESTS, Count, Part
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.aggregation.steps import StepMemory
from fedforest.protocol.asking import Accepted, Message
from fedforest.transport.codec import decode, encode
from tests.protocol.aggregation.federations import PLUGS, Federation, federation, some_vectors
from tests.protocol.vertical.mutations import mutate


def ask(step: int, question: bytes = b"q0") -> Count:
    return Count(step, (Part(("p0", "p1"), memoryview(question)),))


def remember(memory: StepMemory, request: Count, hop: int = 0) -> Message:
    return memory.answer(request.step, hop, request, Accepted)


def test_the_same_request_gets_the_stored_reply_and_is_not_computed_again() -> None:
    memory, n_computed = StepMemory(), []

    def compute() -> Accepted:
        n_computed.append(1)
        return Accepted()

    first = memory.answer(3, 0, ask(3), compute)
    assert memory.answer(3, 0, ask(3), compute) is first
    assert memory.answer(3, 1, ask(3), compute) is not first
    assert memory.answer(3, 0, ask(3), compute) is first
    assert len(n_computed) == 2


def test_another_request_under_an_answered_step_is_refused() -> None:
    memory = StepMemory()
    remember(memory, ask(3))
    with pytest.raises(ProtocolError, match="another request under step 3"):
        remember(memory, ask(3, b"q1"))


def test_earlier_steps_are_refused_even_if_they_were_answered_once() -> None:
    memory = StepMemory()
    remember(memory, ask(3))
    remember(memory, ask(7))
    for step in (0, 3, 6):
        with pytest.raises(ProtocolError, match=f"step {step} is over"):
            remember(memory, ask(step))
    remember(memory, ask(7))


def test_a_request_that_could_not_be_answered_leaves_no_trace() -> None:
    memory = StepMemory()
    first = remember(memory, ask(3))

    def refuse() -> Accepted:
        raise ProtocolError("not like this")

    with pytest.raises(ProtocolError, match="not like this"):
        memory.answer(4, 0, ask(4), refuse)
    assert remember(memory, ask(3)) is first
    assert remember(memory, ask(4, b"q1")) is not first


QUESTIONS = [b"q0", b"q1", b"q2"]
GROUPS = [("p0", "p1", "p2", "p3"), ("p1", "p0", "p3"), ("p3", "p2", "p1"), ("p2", "p1")]


class Steps(RuleBasedStateMachine):
    """Steps go on while their requests are repeated, changed, corrupted and sent out of order.

    Watched is everything that ever leaves a party: a request answered once is answered alike or
    not at all, and nothing else is answered under its step and hop. The step that a party answered
    last can always be asked for again.
    """

    plug: Plug = "plain"
    requests = Bundle("requests")  # what parties were sent: (party, bytes)

    @initialize()
    def begin(self) -> None:
        self.parties: Federation = federation(self.plug, some_vectors(4, (5, 3, 1))).introduce()
        self.step = 0
        self.said: dict[tuple[str, bytes], bytes] = {}
        self.latest: dict[str, tuple[int, list[bytes]]] = {}
        self.rng = np.random.default_rng(0)

    def _remember(self, exchange: int) -> list[tuple[str, bytes]]:
        requests = self.parties.network.requests[exchange]
        replies = self.parties.network.replies[exchange]
        for party, request in requests.items():
            if party in replies:
                self.said[party, request] = replies[party]
                step, sent = self.latest.get(party, (-1, []))
                sent = sent if step == self.step else []
                self.latest[party] = (self.step, [*sent, request])
        return list(requests.items())

    @precondition(lambda self: self.step < 2**61)  # a mutant may have used up all numbers
    @rule(
        target=requests,
        question=st.sampled_from(QUESTIONS),
        groups=st.lists(st.sampled_from(GROUPS), min_size=1, max_size=3, unique=True),
        lost=st.sampled_from([None, None, "p1", "p3"]),
        is_slow=st.booleans(),
    )
    def gather(
        self, question: bytes, groups: list[tuple[str, ...]], lost: str | None, is_slow: bool
    ) -> Any:
        network = self.parties.network
        self.step += 1
        before = len(network.requests)
        (network.slow if is_slow else network.cut_off).update({lost} if lost else ())
        segments = [self.parties.segment(question, group) for group in groups]
        gathered = self.parties.gather(self.step, segments)
        network.slow.clear()
        network.cut_off.clear()
        if gathered.lost:
            assert gathered.sums == []
        else:
            for total, segment in zip(gathered.sums, segments, strict=True):
                assert total.tolist() == self.parties.expected(segment).tolist()
        sent = []
        for exchange in range(before, len(network.requests)):
            sent += self._remember(exchange)
        for party, reply in network.late:  # it left the party all the same
            request = next(r[party] for r in reversed(network.requests) if party in r)
            self.said[party, request] = reply
            self.latest[party] = (self.step, [request])
        network.late.clear()
        return multiple(*sent)

    @rule(sent=requests)
    def repeat(self, sent: tuple[str, bytes]) -> None:
        """Whatever was sent once is sent again, late or twice."""
        self._send(*sent)

    @rule(sent=requests)
    def corrupt(self, sent: tuple[str, bytes]) -> None:
        party, request = sent
        self._send(party, mutate(request, self.rng))

    @rule(sent=requests, back=st.integers(0, 3))
    def put_under_another_step(self, sent: tuple[str, bytes], back: int) -> None:
        party, data = sent
        request: Any = decode(data, REQUESTS)
        self._send(party, encode(msgspec.structs.replace(request, step=max(0, self.step - back))))

    def _send(self, party: str, request: bytes) -> None:
        try:
            reply = self.parties.network.endpoints[party](request)
        except FederationError:
            return
        stored = self.said.setdefault((party, request), reply)
        assert reply == stored
        step = decode(request, REQUESTS).step  # type: ignore[attr-defined] # introductions are over
        self.step = max(self.step, step)
        latest, sent = self.latest.get(party, (-1, []))
        assert step >= latest
        self.latest[party] = (step, sent if request in sent else [*sent, request])
        if step > latest:
            self.latest[party] = (step, [request])

    @invariant()
    def the_latest_step_can_be_asked_for_again(self) -> None:
        for party, (_, sent) in getattr(self, "latest", {}).items():
            for request in sent:
                assert self.parties.network.endpoints[party](request) == self.said[party, request]

    @invariant()
    def nothing_else_was_answered_under_a_step(self) -> None:
        places: dict[Any, bytes] = {}
        for (party, data), reply in getattr(self, "said", {}).items():
            request: Any = decode(data, REQUESTS)
            place = (party, type(request), request.step, self._hop(party, request))
            assert places.setdefault(place, reply) == reply

    def _hop(self, party: str, request: Any) -> int:
        if isinstance(self.plug, Ring):
            return int(request.parts[0].participants.index(party))
        return 0


def machine(plug: Plug) -> Any:
    """The test case of a plug."""
    steps: Any = type("Steps", (Steps,), {"plug": plug})
    steps.TestCase.settings = settings(max_examples=15, stateful_step_count=25)
    return steps.TestCase


TestStepsOfPlain = machine("plain")
TestStepsOfMasked = machine(Masked())
TestStepsOfMaskedByOnePeer = machine(Masked(k=1))
TestStepsOfRing = machine(Ring())
TestStepsOfShamir = machine(Shamir(3))


@pytest.mark.parametrize("plug", PLUGS, ids=str)
def test_a_repeated_step_is_answered_without_computing_anything(plug: Plug) -> None:
    parties = federation(plug, some_vectors(3)).introduce()
    network = parties.network
    parties.gather(1, [parties.segment(b"q0")])
    n_computed = [answers.n_computed for answers in parties.answers.values()]
    assert n_computed == [1, 1, 1]
    for requests, replies in zip(network.requests, network.replies, strict=True):
        for party, request in requests.items():
            assert network.endpoints[party](request) == replies[party]
    assert [answers.n_computed for answers in parties.answers.values()] == n_computed


@pytest.mark.parametrize("plug", PLUGS, ids=str)
def test_a_step_number_is_not_used_for_two_questions(plug: Plug) -> None:
    parties = federation(plug, some_vectors(3, (4, 4))).introduce()
    parties.gather(5, [parties.segment(b"q0")])
    ask_again = partial(parties.gather, segments=[parties.segment(b"q1")])
    with pytest.raises(RemoteProtocolError, match="another request under step 5"):
        ask_again(5)
    with pytest.raises(RemoteProtocolError, match="step 4 is over"):
        ask_again(4)
    ask_again(6)
