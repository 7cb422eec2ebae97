"""End notices for parties that were left out of a run: each is sent when the party is back.

A notice is stored in the coordinator's folder of the run before the run counts as finished. A party
that receives it keeps its partial forest of the finished trees, which no prediction can do without,
and deletes the rest of the run: its journal holds secrets.
"""

import logging
import threading
from collections.abc import Collection

import msgspec

from fedforest.errors import (
    FederationError,
    PartyLost,
    StorageError,
    TooFewParties,
    TransportError,
)
from fedforest.runtime.coordinator.run_stages import say
from fedforest.runtime.event_log import log_event
from fedforest.runtime.messages.party_requests import EndRun
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.base import Transport

_FILE = "owed"
_MAY_PASS = (PartyLost, TooFewParties, StorageError, TransportError)
_LOG = logging.getLogger(__name__)


class _Owed(msgspec.Struct):
    parties: list[str]
    model: str | None  # the id to keep the model under; None: only delete the run
    n_trees: int | None


class OwedEnds:
    """Store which parties have yet to hear that a run ended, and tell them."""

    def __init__(self, store: RunStore, hub: Transport) -> None:
        self._store = store
        self._hub = hub
        self._owed: dict[bytes, _Owed] = {}
        self._paying = threading.Lock()

    def recall(self) -> None:
        """Read the notices that were pending before a restart."""
        for run in self._store.all():
            data = self._store.load(run, _FILE)
            if data is not None:
                self._owed[run] = msgspec.json.decode(data, type=_Owed)

    def note(
        self, run: bytes, parties: Collection[str], model: str | None, n_trees: int | None
    ) -> None:
        """Store that these parties must hear of the end of a run; on disk when this returns."""
        if parties:
            owed = _Owed(sorted(parties), model, n_trees)
            self._store.save(run, _FILE, msgspec.json.encode(owed))
            self._owed[run] = owed

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

    def _tell(self, run: bytes, owed: _Owed, party: str) -> None:
        try:
            say(self._hub, {party: EndRun(run, owed.model, owed.n_trees)})
            log_event(_LOG, "told of the end", run=run.hex(), party=party)
        except _MAY_PASS:
            return  # the notice stays pending
        except FederationError as error:
            text = str(error)  # the party would refuse again: the notice is dropped
            log_event(_LOG, "end refused", run=run.hex(), party=party, text=text)
        owed.parties.remove(party)
        if owed.parties:
            self._store.save(run, _FILE, msgspec.json.encode(owed))
        else:
            self._store.remove(run, _FILE)
            del self._owed[run]
