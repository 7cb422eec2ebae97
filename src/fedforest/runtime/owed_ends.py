"""Ends of runs that a party has yet to hear of: it was left out, and is told when it is back.

What is owed lies in the coordinator's folder of the run before the run counts as finished. The
party then keeps its share of the trees there are, without which nobody could predict with them, and
forgets the rest: its journal of the run holds secrets.
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
from fedforest.runtime.event_log import log_event
from fedforest.runtime.party_requests import EndRun
from fedforest.runtime.run_parts import say
from fedforest.runtime.run_store import RunStore
from fedforest.transport.base import Transport

_FILE = "owed"
_MAY_PASS = (PartyLost, TooFewParties, StorageError, TransportError)
_LOG = logging.getLogger(__name__)


class _Owed(msgspec.Struct):
    parties: list[str]
    model: str | None  # to be kept; None: the run is only to be forgotten
    n_trees: int | None


class OwedEnds:
    """Remembers whom a run's end is owed to, and pays."""

    def __init__(self, store: RunStore, hub: Transport) -> None:
        self._store = store
        self._hub = hub
        self._owed: dict[bytes, _Owed] = {}
        self._paying = threading.Lock()

    def recall(self) -> None:
        """Read what was owed before a restart."""
        for run in self._store.all():
            data = self._store.load(run, _FILE)
            if data is not None:
                self._owed[run] = msgspec.json.decode(data, type=_Owed)

    def note(
        self, run: bytes, parties: Collection[str], model: str | None, n_trees: int | None
    ) -> None:
        """These parties are to hear of the end of a run; on the disk when this returns."""
        if parties:
            owed = _Owed(sorted(parties), model, n_trees)
            self._store.save(run, _FILE, msgspec.json.encode(owed))
            self._owed[run] = owed

    def pay(self, there: Collection[str]) -> None:
        """Tell parties that are there what they are owed."""
        if not self._owed:
            return
        with self._paying:
            for run, owed in list(self._owed.items()):
                if not self._store.is_finished(run):
                    continue  # it may be resumed with everybody yet
                for party in [party for party in owed.parties if party in there]:
                    self._tell(run, owed, party)

    def _tell(self, run: bytes, owed: _Owed, party: str) -> None:
        try:
            say(self._hub, {party: EndRun(run, owed.model, owed.n_trees)})
            log_event(_LOG, "told of the end", run=run.hex(), party=party)
        except _MAY_PASS:
            return  # it is still owed
        except FederationError as error:
            text = str(error)  # asked again, the party would say the same
            log_event(_LOG, "end refused", run=run.hex(), party=party, text=text)
        owed.parties.remove(party)
        if owed.parties:
            self._store.save(run, _FILE, msgspec.json.encode(owed))
        else:
            self._store.remove(run, _FILE)
            del self._owed[run]
