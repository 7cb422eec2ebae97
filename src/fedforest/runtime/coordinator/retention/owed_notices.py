"""Notices that parties have yet to hear: each is sent when its party is connected.

A notice is a file in the coordinator's folder of the run that it is about, so that it survives a
restart. A party that refuses it would refuse again; its notice is dropped, and the log says so.
"""

import logging
import threading
from collections.abc import Collection
from typing import Generic, Protocol, Self, TypeVar

import msgspec

from fedforest.errors import (
    FederationError,
    PartyLost,
    StorageError,
    TooFewParties,
    TransportError,
)
from fedforest.protocol.asking import Request
from fedforest.runtime.coordinator.run_stages import say
from fedforest.runtime.event_log import log_event
from fedforest.runtime.messages.party_requests import Done
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.base import Transport

_MAY_PASS = (PartyLost, TooFewParties, StorageError, TransportError)
_LOG = logging.getLogger(__name__)


class Notice(Protocol):
    """A notice about a run, and the parties that have yet to hear it."""

    parties: list[str]

    def request(self, run: bytes) -> Request[Done]:
        """Return the message that brings it to a party."""


Kind = TypeVar("Kind", bound=Notice)


class OwedNotices(Generic[Kind]):
    """Store notices of one kind, and send each to its parties."""

    def __init__(self, store: RunStore, hub: Transport, file: str, kind: type[Kind]) -> None:
        self._store = store
        self._hub = hub
        self._file = file
        self._kind = kind
        self._owed: dict[bytes, Kind] = {}
        self._paying = threading.Lock()

    def recall(self) -> Self:
        """Read the notices that were pending before a restart."""
        for run in self._store.all():
            data = self._store.load(run, self._file)
            if data is not None:
                self._owed[run] = msgspec.json.decode(data, type=self._kind)
        return self

    def keep(self, run: bytes, notice: Kind) -> None:
        """Store a notice; on disk when this returns."""
        self._store.save(run, self._file, msgspec.json.encode(notice))
        self._owed[run] = notice

    def waiting(self, run: bytes) -> list[str]:
        """Return the parties that have yet to hear the notice about a run."""
        owed = self._owed.get(run)
        return [] if owed is None else list(owed.parties)

    def pay(self, there: Collection[str]) -> None:
        """Send their pending notices to the parties that are connected."""
        if not self._owed:
            return
        with self._paying:
            for run, owed in list(self._owed.items()):
                if not self._store.is_finished(run):
                    continue  # the run may still be resumed with all parties
                for party in [party for party in owed.parties if party in there]:
                    self._tell(run, owed, party)

    def _tell(self, run: bytes, owed: Kind, party: str) -> None:
        request = owed.request(run)
        kind = type(request).__name__
        try:
            say(self._hub, {party: request})
            log_event(_LOG, "told", notice=kind, run=run.hex(), party=party)
        except _MAY_PASS:
            return  # the notice stays pending
        except FederationError as error:
            text = str(error)
            log_event(
                _LOG,
                "notice refused",
                severity=logging.WARNING,
                notice=kind,
                run=run.hex(),
                party=party,
                text=text,
            )
        owed.parties.remove(party)
        if self._owed.get(run) is not owed:
            return  # another notice took its place
        if owed.parties:
            self._store.save(run, self._file, msgspec.json.encode(owed))
        else:
            self._store.remove(run, self._file)
            del self._owed[run]
