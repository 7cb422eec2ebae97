"""Storms of spoiled messages over small conversations, whatever their protocol.

A party hears spoiled requests in the places of honest ones: it refuses them by name and then says,
byte for byte, what it would have said. A coordinator hears one spoiled reply in an otherwise honest
conversation with live parties: it ends by a named error, or with a result that can be used.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedforest.errors import DataError, FederationError, MaskingError, RemoteProtocolError
from fedforest.protocol.asking import Conversation, Handler, Message
from fedforest.runtime.driver import run
from fedforest.runtime.endpoint import make_endpoint
from tests.protocol.vertical.mutations import mutate

Endpoint = Callable[[bytes], bytes]
Change = Callable[[str, bytes], bytes]


@dataclass(frozen=True)
class Case:
    """A conversation that comes to the same whenever it is begun with fresh parties."""

    parties: Callable[[], Mapping[str, Handler]]
    converse: Callable[[], Conversation[Any]]
    requests: tuple[type[Message], ...]
    check: Callable[[Any], None]  # of a result: it can be used, whoever lied

    def endpoints(self) -> dict[str, Endpoint]:
        return {
            party: make_endpoint(handler, self.requests)
            for party, handler in self.parties().items()
        }


@dataclass
class Wire:
    """Carries requests to live parties, keeps everything, and may change one reply."""

    endpoints: Mapping[str, Endpoint]
    lie_at: int = -1  # the exchange, counted from 0
    lie: Change = lambda _party, data: data
    heard: list[dict[str, tuple[bytes, bytes]]] = field(default_factory=list)

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        assert not may_lose
        replies = {party: self.endpoints[party](data) for party, data in requests.items()}
        if len(self.heard) == self.lie_at:
            replies = {party: self.lie(party, data) for party, data in replies.items()}
        self.heard.append({party: (requests[party], replies[party]) for party in requests})
        return replies


def listen(case: Case) -> list[dict[str, tuple[bytes, bytes]]]:
    """Request and reply of every party in every exchange of an honest conversation."""
    wire = Wire(case.endpoints())
    case.check(run(case.converse(), wire))
    return wire.heard


def storm_party(case: Case, party: str, n_messages: int, rng: np.random.Generator) -> int:
    """Spoil every request to a party many times; how many were refused."""
    honest = [exchange[party] for exchange in listen(case) if party in exchange]
    n_each, n_refused = -(-n_messages // len(honest)), 0
    for step, (request, reply) in enumerate(honest):
        endpoint = _party_after(case, party, honest[:step])
        for _ in range(n_each):
            stray = honest[rng.integers(len(honest))][0] if rng.random() < 0.1 else request
            try:
                endpoint(mutate(stray, rng))
            except FederationError as refusal:
                check_named(refusal, "coordinator")
                n_refused += 1
            else:  # it could have been meant, so the party has gone on: take another one
                endpoint = _party_after(case, party, honest[:step])
        assert endpoint(request) == reply
    return n_refused


def _party_after(case: Case, party: str, honest: list[tuple[bytes, bytes]]) -> Endpoint:
    endpoint = case.endpoints()[party]
    for request, reply in honest:
        assert endpoint(request) == reply
    return endpoint


def storm_coordinator(case: Case, n_messages: int, rng: np.random.Generator) -> int:
    """Spoil one reply in each of many conversations; how many ended by a named error."""
    honest, n_refused = listen(case), 0
    for _ in range(n_messages):
        at = int(rng.integers(len(honest)))
        liar = sorted(honest[at])[rng.integers(len(honest[at]))]

        def lie(party: str, data: bytes, liar: str = liar) -> bytes:
            return mutate(data, rng) if party == liar else data

        try:
            case.check(run(case.converse(), Wire(case.endpoints(), at, lie)))
        except FederationError as refusal:
            check_named(refusal, liar, "coordinator")  # others refuse what was passed on to them
            n_refused += 1
    return n_refused


def check_named(refusal: FederationError, *peers: str) -> None:
    """A peer is to blame and named; or tables, labels or keys do not fit each other."""
    if not isinstance(refusal, DataError | MaskingError):
        assert isinstance(refusal, RemoteProtocolError), repr(refusal)
        assert refusal.party in peers
