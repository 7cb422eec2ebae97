"""Renew short-lived certificates when a third of their life is left.

The key stays the same, so that only the certificate file is replaced. A failed renewal is tried
again; an expired certificate cannot be renewed.
"""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from fedforest.errors import ConfigurationError, FederationError, TransportError
from fedforest.runtime.disclosure.egress_ledger import Departure, Ledger
from fedforest.runtime.event_log import log_event
from fedforest.transport.tls import Credentials

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = 10.0  # after a failure

Ask = Callable[[Credentials], bytes]  # present credentials -> the next certificate
Use = Callable[[Credentials], None]


class Renewal:
    """Keep the certificate of one folder valid.

    Parameters
    ----------
    tls : Path
        The folder of the credentials.
    ask : callable
        Gets the next certificate from the authority.
    use : callable
        Receives the renewed credentials.
    """

    def __init__(self, tls: Path, ask: Ask, use: Use) -> None:
        self._tls = tls
        self._ask = ask
        self._use = use
        self._credentials = Credentials.load(tls)
        self._not_before = 0.0  # of the monotonic clock, after a failure

    def look(self) -> None:
        """Renew if it is due; a failure is logged and tried again later."""
        if not _is_due(self._credentials) or time.monotonic() < self._not_before:
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
        """Call `look` every second until `stop` is set."""
        while not stop.wait(_LOOK_SECONDS):
            self.look()


def noting(ledger: Ledger, ask: Ask) -> Ask:
    """Wrap `ask` so that the party's ledger records each request."""

    def noted(credentials: Credentials) -> bytes:
        reveals = "that the party is there, and its certificate once more"
        ledger.record(Departure("sent", "Renew", reveals, len(credentials.certificate)))
        return ask(credentials)

    return noted


def renew(tls: Path, credentials: Credentials, ask: Ask) -> Credentials:
    """Renew credentials; the next certificate is in the folder when this returns."""
    try:
        renewed = replace(credentials, certificate=ask(credentials))
    except TransportError as error:
        if credentials.expires > datetime.now(UTC):
            raise
        raise ConfigurationError(
            f"the certificate of {credentials.identity} expired at "
            f"{credentials.expires:%Y-%m-%d %H:%M} UTC, and an expired one cannot be renewed; if "
            "the clock of this machine is right, ask the coordinator's operator to invite "
            f"{credentials.identity.name} again, and join in a new folder"
        ) from error
    renewed.check()
    if renewed.identity != credentials.identity:
        raise ConfigurationError("the new certificate is for somebody else; ask the operator")
    renewed.save(tls)
    return renewed


def renew_if_due(tls: Path, ask: Ask, *, anyway: bool = False) -> tuple[Credentials, bool]:
    """Load credentials and renew them if it is due, or `anyway`; tell whether they are new.

    One process renews at a time: an application and a command beside it share the folder.
    """
    credentials = Credentials.load(tls)
    if not anyway and not _is_due(credentials):
        return credentials, False
    with _alone(tls):
        credentials = Credentials.load(tls)
        if not anyway and not _is_due(credentials):
            return credentials, True
        return renew(tls, credentials, ask), True


def _is_due(credentials: Credentials) -> bool:
    return credentials.renewal_due <= datetime.now(UTC)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock a folder against other threads and processes that renew."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def load_fresh(tls: Path, ask: Ask) -> Credentials:
    """Load credentials; renew them if it is due and the authority can be reached."""
    credentials = Credentials.load(tls)
    try:
        return renew_if_due(tls, ask)[0]
    except FederationError as error:
        log_event(_LOG, "not renewed", severity=logging.WARNING, text=str(error))
        return credentials  # they may still be valid; if not, connecting says so
