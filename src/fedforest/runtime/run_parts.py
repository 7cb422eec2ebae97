"""Conversations beside the training of a run: alignment before it, scores and baselines after it.

Each is a run of its own, with an id that follows from the run's and its name. To parties it is one
like any other; the coordinator keeps it below the folder of the run it belongs to:

    <home>/runs/<run id>/runs/<id of the part>/

What a part came to is on the disk before it is forgotten, so that a restart goes on with the next;
so are its exchanges, for a restarted coordinator's report must not leave out what was told before.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TypeVar

import msgspec

from fedforest.protocol.asking import Conversation, Message, blame
from fedforest.runtime.driver import Exchange, ExchangeLog, Observer
from fedforest.runtime.envelope import RUN_ID_BYTES
from fedforest.runtime.party_requests import BeginRun, Done, EndRun
from fedforest.runtime.results import Exchanged
from fedforest.runtime.resumable import run_with_journal
from fedforest.runtime.roles import AnyRole
from fedforest.runtime.run_store import RunStore
from fedforest.runtime.terms import Terms
from fedforest.transport.base import Transport, Work, working_beside
from fedforest.transport.codec import decode, encode

_NOTHING = b""  # parts are described by the run that they belong to
_EXCHANGES = "exchanges"  # the file of what was exchanged in a conversation that is over

Outcome = TypeVar("Outcome")
Wire = TypeVar("Wire", bound=msgspec.Struct)


def derive_part(run: bytes, name: str) -> bytes:
    """The id of a part of a run."""
    return blake2b(name.encode(), key=run, digest_size=RUN_ID_BYTES, person=b"part").digest()


@dataclass(frozen=True, slots=True)
class RunParts:
    """Carries out the parts of one run."""

    run: bytes
    _terms: Terms
    _hub: Transport
    _store: RunStore  # below the run's folder
    _observe: Observer
    _told: dict[str, list[Exchange]] = field(default_factory=dict)  # by part
    _retold: set[str] = field(default_factory=set)  # parts that were over before

    @classmethod
    def of(
        cls, run: bytes, terms: Terms, store: RunStore, hub: Transport, observe: Observer
    ) -> "RunParts":
        """The parts of a run in a coordinator's store, declared to parties like the run itself."""
        terms = msgspec.structs.replace(terms, part_of=run.hex())
        return cls(run, terms, hub, RunStore(store.folder(run)), observe)

    def recall(self, name: str, kind: type[Wire]) -> Wire | None:
        """What a part came to, if it is over; whoever watches hears of its exchanges again."""
        part = derive_part(self.run, name)
        data = self._store.result(part)
        if data is None:
            return None
        if name not in self._told and name not in self._retold:
            self._retold.add(name)
            for exchange in load_exchanges(self._store, part):
                self._observe(exchange)
        return msgspec.msgpack.decode(data, type=kind)

    def converse(
        self, name: str, roles: Mapping[str, AnyRole], conversation: Conversation[Outcome]
    ) -> Outcome:
        """Begin a part at its parties, or go on with it; the conversation must be fresh."""
        part = derive_part(self.run, name)
        say(self._hub, {party: BeginRun(part, role, self._terms) for party, role in roles.items()})
        has_begun = self._store.has(part)
        stored = self._store.open(part) if has_begun else self._store.begin(part, _NOTHING)
        try:
            return run_with_journal(conversation, self._hub, stored, self.log(name))
        finally:
            stored.close()

    def end(
        self, name: str, parties: Collection[str], outcome: msgspec.Struct, keep: str | None = None
    ) -> None:
        """Parties keep what a part gave them under an id, or nothing; then it is over."""
        part = derive_part(self.run, name)
        say(self._hub, {party: EndRun(part, keep) for party in parties})
        save_exchanges(self._store, part, self._told.get(name, ()))
        self._store.finish(part, msgspec.msgpack.encode(outcome))

    def log(self, name: str) -> ExchangeLog:
        """Tells whoever watches the run that these exchanges are of a part of it."""

        def observe(exchange: Exchange) -> None:
            exchange = replace(exchange, note={**exchange.note, "part": name})
            self._told.setdefault(name, []).append(exchange)
            self._observe(exchange)

        return ExchangeLog(observers=[observe])


def save_exchanges(store: RunStore, run: bytes, exchanges: Iterable[Exchange]) -> None:
    """Keep what was exchanged in a conversation that is over, beside what it came to."""
    store.save(run, _EXCHANGES, msgspec.msgpack.encode([Exchanged.of(each) for each in exchanges]))


def load_exchanges(store: RunStore, run: bytes) -> list[Exchange]:
    """What was kept, marked as told again."""
    data = store.load(run, _EXCHANGES)
    kept = [] if data is None else msgspec.msgpack.decode(data, type=list[Exchanged])
    exchanges = [each.to_exchange() for each in kept]
    return [replace(each, note={**each.note, "replayed": True}) for each in exchanges]


def give_up_parts(run: bytes, store: RunStore, hub: Transport, parties: Collection[str]) -> None:
    """Have parties forget the parts of a run that are under way."""
    parts = RunStore(store.folder(run))
    for part in parts.unfinished():
        say(hub, {party: EndRun(part, None) for party in parties}, may_lose=True)
        parts.finish(part)


def say(
    hub: Transport, messages: Mapping[str, Message], *, may_lose: bool = False
) -> dict[str, Done]:
    """Tell parties something about a run, and hear that they did it."""
    return _read(hub.exchange(_encode(messages), may_lose=may_lose))


def say_beside(hub: Transport, messages: Mapping[str, Message], work: Work) -> dict[str, Done]:
    """The same, and do one's own part while parties do theirs."""
    return _read(working_beside(hub)(_encode(messages), work))


def _encode(messages: Mapping[str, Message]) -> dict[str, bytes]:
    return {party: encode(message) for party, message in messages.items()}


def _read(answers: Mapping[str, bytes]) -> dict[str, Done]:
    replies = {}
    for party, data in answers.items():
        with blame(party):
            done = decode(data, (Done,))
        assert isinstance(done, Done)
        replies[party] = done
    return replies
