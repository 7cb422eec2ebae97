"""A user's connection to a federation: it sends requests, and receives events and results.

A training goes on at the coordinator even if this process or the connection fails. After a broken
connection the client reconnects and watches the run again.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fedforest.errors import TransportError, VersionMismatch
from fedforest.extras import explain_missing_extras
from fedforest.runtime.membership.homes import (
    PROFILE_FILE,
    ProfileSettings,
    find_profile,
    read_settings,
)
from fedforest.runtime.membership.renewal import load_fresh, renew_if_due
from fedforest.runtime.messages.orders import (
    AnyOrder,
    AnyRun,
    AnyTraining,
    EndRunEarly,
    ResumeRun,
    WatchRun,
)
from fedforest.runtime.messages.results import (
    AnyEvent,
    Exchanged,
    News,
    RunAccepted,
    decode_event,
    follow,
)
from fedforest.runtime.messages.signed_orders import sign_request

if TYPE_CHECKING:
    from fedforest.transport.grpc.client import GrpcClient
    from fedforest.transport.tls import Credentials

PATIENCE_SECONDS = 300.0  # for a coordinator that cannot be reached, once a run has begun
_DELAY_SECONDS = 0.5

Result = TypeVar("Result")
Tell = Callable[[News], None]


def tell_nobody(_event: News) -> None:
    """Ignore an event."""


class Federation:
    """A connection to the coordinator of a profile."""

    def __init__(self, profile: Path, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        settings = read_settings(profile, PROFILE_FILE, ProfileSettings)
        self._open = partial(_connect, profile, settings.coordinator)
        self._client, self._credentials = self._open()
        self._retired: list[GrpcClient] = []  # calls of theirs may be under way
        self._patience_seconds = patience_seconds

    @classmethod
    def find(cls, transport: Any) -> "Federation":
        """Connect by the `transport` of an estimator: a profile's name or folder, or an address."""
        return cls(find_profile(transport))

    def __enter__(self) -> "Federation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all calls."""
        for client in (*self._retired, self._client):
            client.close()

    def ask(self, order: AnyOrder, kind: type[Result], tell: Tell = tell_nobody) -> Result:
        """Send a request that begins no run, and wait for its result."""
        result: Result = follow(self._events(order), kind, tell)
        return result

    def begin(self, order: AnyTraining) -> str:
        """Send a request for a training; return the id of its run, which goes on by itself."""
        for event in self._events(order):
            if isinstance(event, RunAccepted):
                return event.run
        raise TransportError("the coordinator closed the connection before it took the order")

    def train(self, order: AnyRun, kind: type[Result], tell: Tell = tell_nobody) -> Result:
        """Begin a run; wait for its result, and reconnect if the connection breaks."""
        return self._persist(order, None, kind, tell)

    def watch(
        self,
        order: WatchRun | ResumeRun | EndRunEarly,
        kind: type[Result],
        tell: Tell = tell_nobody,
    ) -> Result:
        """Watch or resume a run; wait for its result, and reconnect if the connection breaks."""
        return self._persist(order, order.run, kind, tell)

    def _persist(self, order: AnyOrder, run: str | None, kind: type[Result], tell: Tell) -> Result:
        """Send a request once; watch its run again after a broken connection.

        The coordinator then reports all exchanges again; each is passed to `tell` once.
        """
        lost_since: float | None = None
        n_heard = n_told = 0  # exchanges

        def note(event: News) -> None:
            nonlocal run, lost_since, n_heard, n_told
            lost_since = None
            if isinstance(event, RunAccepted):
                run = event.run
            if isinstance(event, Exchanged):
                n_heard += 1
                if n_heard <= n_told:
                    return
                n_told = n_heard
            tell(event)

        while True:
            try:
                n_heard = 0
                return self.ask(order, kind, note)
            except VersionMismatch:
                raise  # the coordinator was upgraded meanwhile: reconnecting does not help
            except TransportError:
                lost_since = lost_since or time.monotonic()
                if run is None or time.monotonic() - lost_since > self._patience_seconds:
                    raise
                order = WatchRun(run=run)
                time.sleep(_DELAY_SECONDS)
                self._client.close()
                # the certificate may have been renewed
                self._client, self._credentials = self._open()

    def _events(self, order: AnyOrder) -> Iterator[AnyEvent]:
        """Send a request, signed with the user's key if parties are asked for it.

        A connection that stays open for weeks, as an application's does, renews its certificate.
        """
        if self._credentials.renewal_due <= datetime.now(UTC):
            self._retired.append(self._client)
            self._client, self._credentials = self._open()
        return map(decode_event, self._client.submit(sign_request(order, self._credentials)))


def renew_profile(profile: Path, *, anyway: bool = False) -> "tuple[Credentials, bool]":
    """Renew the certificate of a profile if it is due, or `anyway`; tell whether it was."""
    with explain_missing_extras("a federation"):
        from fedforest.transport.grpc.renewal import (  # noqa: PLC0415 - grpc is an extra
            renew_certificate,
        )

    address = read_settings(profile, PROFILE_FILE, ProfileSettings).coordinator
    return renew_if_due(profile / "tls", partial(renew_certificate, address), anyway=anyway)


def _connect(profile: Path, address: str) -> "tuple[GrpcClient, Credentials]":
    with explain_missing_extras("a federation"):
        from fedforest.transport.grpc.client import GrpcClient  # noqa: PLC0415 - grpc is an extra
        from fedforest.transport.grpc.renewal import (  # noqa: PLC0415 - grpc is an extra
            renew_certificate,
        )

    credentials = load_fresh(profile / "tls", partial(renew_certificate, address))
    return GrpcClient(address, credentials), credentials
