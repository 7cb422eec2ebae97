"""Tell parties who was revoked, and hear from them whom this coordinator forgot.

A coordinator's folder that was restored from an older copy has forgotten the revocations since.
Parties kept them, with the authority's signature, and name them; they count here from then on.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from fedforest.errors import FederationError
from fedforest.runtime.driver import ask_once
from fedforest.runtime.event_log import log_event
from fedforest.runtime.messages.party_requests import KeepRevocations
from fedforest.runtime.messages.revocations import Revocation, Revocations
from fedforest.transport.base import Transport
from fedforest.transport.identity import Identity

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 0.5
_MOST_TOLD = 10_000


class Members(Protocol):
    """The members of a federation, as far as revocations are about them."""

    def revocations(self) -> list[Revocation]:
        """Return all revocations."""

    def recall(self, revocations: Revocations) -> set[Identity]:
        """Revoke again who was revoked before; return who that is."""

    def parties(self) -> list[str]:
        """List the names of all parties that are not revoked."""


class RevocationNotices:
    """Exchanges revocations with every party when it connects, and when one is added."""

    def __init__(
        self, hub: Transport, connected: Callable[[], list[str]], members: Members
    ) -> None:
        self._hub = hub
        self._connected = connected
        self._members = members
        self._told: dict[str, list[Revocation]] = {}  # connected parties, by what they were told
        self._heard: set[str] = set()  # parties, since the start
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="fedforest-revocations")
        self._thread.daemon = True

    def start(self) -> None:
        """Look for parties that come, on a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._is_closing.set()

    def unheard(self) -> list[str]:
        """List the parties that have not said yet whom they know to be revoked."""
        return sorted(set(self._members.parties()) - self._heard)

    def look(self) -> None:
        """Exchange revocations with the parties that have yet to hear of some."""
        there, revocations = set(self._connected()), self._members.revocations()[:_MOST_TOLD]
        self._told = {party: told for party, told in self._told.items() if party in there}
        for party in sorted(there):
            if self._told.get(party) != revocations:
                self._tell(party, revocations)

    def _tell(self, party: str, revocations: list[Revocation]) -> None:
        carry = partial(self._hub.exchange, may_lose=True)
        replies = ask_once({party: KeepRevocations(revocations)}, carry)
        if party not in replies:
            return
        self._told[party] = revocations
        forgotten = self._members.recall(replies[party].unnamed)
        self._heard.add(party)
        if forgotten:
            names = ", ".join(sorted(map(str, forgotten)))
            text = f"party {party} knows revocations that this folder does not: an older copy of it"
            log_event(_LOG, "restored", severity=logging.ERROR, text=text, revoked=names)

    def _work(self) -> None:
        while not self._is_closing.wait(_LOOK_SECONDS):
            try:
                self.look()
            except FederationError as error:
                text = str(error)
                log_event(_LOG, "revocations wait", severity=logging.WARNING, text=text)
