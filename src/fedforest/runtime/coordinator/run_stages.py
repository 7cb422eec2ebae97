"""Parts of a run beside its training: alignment before it, scores and baselines after it.

Each part has an id derived from the run's id and the part's name. Parties treat it as any other
run; the coordinator stores it below the folder of the run it belongs to:

    <home>/runs/<run id>/runs/<id of the part>/

The result of a part is on disk before the part is deleted, so that a restart goes on with the next
part. So are its exchanges: the leakage report of a restarted coordinator must include them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import msgspec

from fedforest.protocol.asking import Conversation, Request
from fedforest.runtime.coordinator.jobs import Job
from fedforest.runtime.driver import Exchange, ExchangeLog, Observer, ask_once
from fedforest.runtime.messages.envelope import derive_part
from fedforest.runtime.messages.party_requests import BeginRun, Done, EndRun
from fedforest.runtime.messages.results import Exchanged
from fedforest.runtime.messages.roles import AnyRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.recovery.resumable import run_with_journal
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.base import Transport, Work, working_beside

_NOTHING = b""  # a part has no description of its own: its run has one
_EXCHANGES = "exchanges"  # the file with the exchanges of a finished conversation

Outcome = TypeVar("Outcome")
Wire = TypeVar("Wire", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class RunParts:
    """The parts of one run, carried out and stored by name."""

    run: bytes
    _terms: Terms
    _hub: Transport
    _store: RunStore  # below the run's folder
    _observe: Observer
    _proof: bytes = b""  # the request of the run as its user signed it
    _told: dict[str, list[Exchange]] = field(default_factory=dict)  # by part
    _retold: set[str] = field(default_factory=set)  # parts finished before a restart

    @property
    def proof(self) -> bytes:
        """The request of the run as its user signed it; empty if it is not signed."""
        return self._proof

    @classmethod
    def of(
        cls, job: Job, terms: Terms, store: RunStore, hub: Transport, observe: Observer
    ) -> "RunParts":
        """Make the parts of a run in a coordinator's store, on the terms of the run itself."""
        terms = msgspec.structs.replace(terms, part_of=job.run.hex())
        return cls(job.run, terms, hub, RunStore(store.folder(job.run)), observe, job.proof)

    def recall(self, name: str, kind: type[Wire]) -> Wire | None:
        """Return a part's result, or None; after a restart, report its exchanges again."""
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
        """Begin a part at its parties, or resume it; the conversation must be fresh."""
        part = derive_part(self.run, name)
        begin = partial(BeginRun, part, terms=self._terms, proof=self._proof)
        say(self._hub, {party: begin(role=role) for party, role in roles.items()})
        has_begun = self._store.has(part)
        stored = self._store.open(part) if has_begun else self._store.begin(part, _NOTHING)
        try:
            return run_with_journal(conversation, self._hub, stored, self.log(name))
        finally:
            stored.close()

    def end(
        self, name: str, parties: Collection[str], outcome: msgspec.Struct, keep: str | None = None
    ) -> None:
        """Finish a part: parties store its outcome under the id `keep`, or nothing if None."""
        part = derive_part(self.run, name)
        say(self._hub, {party: EndRun(part, keep) for party in parties})
        save_exchanges(self._store, part, self._told.get(name, ()))
        self._store.finish(part, msgspec.msgpack.encode(outcome))

    def log(self, name: str) -> ExchangeLog:
        """Return a log that marks exchanges with the part's name for watchers of the run."""

        def observe(exchange: Exchange) -> None:
            exchange = replace(exchange, note={**exchange.note, "part": name})
            self._told.setdefault(name, []).append(exchange)
            self._observe(exchange)

        return ExchangeLog(observers=[observe])


def save_exchanges(store: RunStore, run: bytes, exchanges: Iterable[Exchange]) -> None:
    """Store the exchanges of a finished conversation beside its result."""
    store.save(run, _EXCHANGES, msgspec.msgpack.encode([Exchanged.of(each) for each in exchanges]))


def load_exchanges(store: RunStore, run: bytes) -> list[Exchange]:
    """Load stored exchanges, marked as replayed."""
    data = store.load(run, _EXCHANGES)
    kept = [] if data is None else msgspec.msgpack.decode(data, type=list[Exchanged])
    exchanges = [each.to_exchange() for each in kept]
    return [replace(each, note={**each.note, "replayed": True}) for each in exchanges]


def give_up_parts(run: bytes, store: RunStore, hub: Transport, parties: Collection[str]) -> None:
    """Have parties delete the unfinished parts of a run, and delete them here."""
    parts = RunStore(store.folder(run))
    for part in parts.unfinished():
        say(hub, {party: EndRun(part, None) for party in parties}, may_lose=True)
        parts.finish(part)


def say(
    hub: Transport, requests: Mapping[str, Request[Done]], *, may_lose: bool = False
) -> dict[str, Done]:
    """Send requests about a run, and wait until parties have done them."""
    return ask_once(requests, partial(hub.exchange, may_lose=may_lose))


def say_beside(
    hub: Transport, requests: Mapping[str, Request[Done]], work: Work
) -> dict[str, Done]:
    """Send requests as `say` does, and do `work` while parties do theirs."""
    return ask_once(requests, lambda encoded: working_beside(hub)(encoded, work))
