"""Certificates are short-lived; their holders renew them when a third of the life is left.

The key stays, so that the new certificate is one file that takes the place of the old one. Until
that has worked it is tried again and again; a certificate that expired is renewed no more.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from fedforest.errors import ConfigurationError, FederationError
from fedforest.runtime.egress_ledger import Departure, Ledger
from fedforest.runtime.event_log import log_event
from fedforest.transport.tls import Credentials

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = 10.0  # after a failure

Ask = Callable[[Credentials], bytes]  # what is to be renewed -> the next certificate
Use = Callable[[Credentials], None]


class Renewal:
    """Keeps the certificate of one role's folder in date.

    Parameters
    ----------
    tls : Path
        The folder of the role's credentials.
    ask : callable
        Gets the next certificate from the authority.
    use : callable
        Is told of the credentials with it.
    """

    def __init__(self, tls: Path, ask: Ask, use: Use) -> None:
        self._tls = tls
        self._ask = ask
        self._use = use
        self._credentials = Credentials.load(tls)
        self._not_before = 0.0  # of the monotonic clock, after a failure

    def look(self) -> None:
        """Renew if it is time; what goes wrong is logged and tried again."""
        is_due = self._credentials.renewal_due <= datetime.now(UTC)
        if not is_due or time.monotonic() < self._not_before:
            return
        try:
            self._credentials = renew(self._tls, self._credentials, self._ask)
        except FederationError as error:
            self._not_before = time.monotonic() + _AGAIN_SECONDS
            log_event(_LOG, "not renewed", severity=logging.WARNING, text=str(error))
            return
        log_event(_LOG, "certificate renewed", until=self._credentials.expires.isoformat())
        self._use(self._credentials)

    def keep_on(self, stop: threading.Event) -> None:
        """Look again and again, on a thread of its own."""
        while not stop.wait(_LOOK_SECONDS):
            self.look()


def noting(ledger: Ledger, ask: Ask) -> Ask:
    """Note in a party's ledger that it asks."""

    def noted(credentials: Credentials) -> bytes:
        reveals = "that the party is there, and its certificate once more"
        ledger.record(Departure("sent", "Renew", reveals, len(credentials.certificate)))
        return ask(credentials)

    return noted


def renew(tls: Path, credentials: Credentials, ask: Ask) -> Credentials:
    """The credentials with their next certificate, which is in the folder when this returns."""
    renewed = replace(credentials, certificate=ask(credentials))
    renewed.check()
    if renewed.identity != credentials.identity:
        raise ConfigurationError("the new certificate is for somebody else; ask the operator")
    renewed.save(tls)
    return renewed


def load_fresh(tls: Path, ask: Ask) -> Credentials:
    """A role's credentials, renewed where it is time and the authority can be reached."""
    credentials = Credentials.load(tls)
    if credentials.renewal_due > datetime.now(UTC):
        return credentials
    try:
        return renew(tls, credentials, ask)
    except FederationError as error:
        log_event(_LOG, "not renewed", severity=logging.WARNING, text=str(error))
        return credentials  # it may still be in date; if not, connecting says so
