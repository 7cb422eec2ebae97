"""A user's way to a federation: orders out, events and results back.

A training goes on at the coordinator whatever happens to this process or the connection; when the
connection breaks, the client comes back and goes on watching.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from fedforest.errors import TransportError
from fedforest.runtime.homes import ProfileSettings, find_profile, load_credentials, read_settings
from fedforest.runtime.orders import (
    AnyOrder,
    AnyTraining,
    WatchRun,
    encode_order,
)
from fedforest.runtime.results import Accepted, AnyEvent, News, decode_event, follow

PATIENCE_SECONDS = 300.0  # for a coordinator that cannot be reached, once a run has begun
_DELAY_SECONDS = 0.5

Result = TypeVar("Result")
Tell = Callable[[News], None]


def tell_nobody(_event: News) -> None:
    """Nobody listens."""


class Federation:
    """A connection to the coordinator of a profile."""

    def __init__(self, profile: Path, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        from fedforest.transport.grpc_client import GrpcClient  # noqa: PLC0415 - grpc is an extra

        settings = read_settings(profile, "profile.toml", ProfileSettings)
        self._client = GrpcClient(settings.coordinator, load_credentials(profile))
        self._patience_seconds = patience_seconds

    @classmethod
    def find(cls, transport: Any) -> "Federation":
        """By the `transport` of an estimator: a profile's name or folder, or an address."""
        return cls(find_profile(transport))

    def __enter__(self) -> "Federation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all calls."""
        self._client.close()

    def ask(self, order: AnyOrder, kind: type[Result], tell: Tell = tell_nobody) -> Result:
        """Give an order that begins no run, and wait for its result."""
        result: Result = follow(self._events(order), kind, tell)
        return result

    def train(self, order: AnyTraining, kind: type[Result], tell: Tell = tell_nobody) -> Result:
        """Give an order for a training, and wait for its result through broken connections."""
        run: str | None = None
        lost_since: float | None = None

        def note(event: News) -> None:
            nonlocal run, lost_since
            lost_since = None
            if isinstance(event, Accepted):
                run = event.run
            tell(event)

        while True:
            try:
                watch: AnyOrder = order if run is None else WatchRun(run=run)
                return self.ask(watch, kind, note)
            except TransportError:
                lost_since = lost_since or time.monotonic()
                if run is None or time.monotonic() - lost_since > self._patience_seconds:
                    raise
                time.sleep(_DELAY_SECONDS)

    def _events(self, order: AnyOrder) -> Iterator[AnyEvent]:
        return map(decode_event, self._client.submit(encode_order(order)))
