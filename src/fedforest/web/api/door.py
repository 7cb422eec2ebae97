"""The door of the coordinator: web rooms send the requests of a user as its terminal would.

The coordinator decides what the user may do (`runtime/coordinator/access.py`).
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from fedforest.errors import AccessRefused, TransportError
from fedforest.runtime.messages.orders import AnyOrder, AnyRun, encode_order
from fedforest.runtime.messages.results import AnyEvent, RunAccepted, decode_event, follow
from fedforest.transport.identity import Identity

Serve = Callable[[object, bytes], Iterator[bytes]]
Result = TypeVar("Result")


class Door:
    """Sends the requests of one user."""

    def __init__(self, serve: Serve, federation: str, user: str) -> None:
        self._serve = serve
        self._identity = Identity(federation, "user", user)

    @property
    def user(self) -> str:
        return self._identity.name

    def ask(self, order: AnyOrder, kind: type[Result]) -> Result:
        """Send a request that begins no run, and return its result."""
        result: Result = follow(self.events(order), kind, _tell_nobody)
        return result

    def ask_if_allowed(self, order: AnyOrder, kind: type[Result]) -> Result | None:
        """Send a request; return None where this user may not make it."""
        try:
            return self.ask(order, kind)
        except AccessRefused:
            return None

    def begin(self, order: AnyRun) -> str:
        """Order a run; return its id. It goes on by itself."""
        for event in self.events(order):
            if isinstance(event, RunAccepted):
                return event.run
        raise TransportError("the coordinator did not take the run; see its log")

    def events(self, order: AnyOrder) -> Iterator[AnyEvent]:
        """Yield the events that answer a request."""
        return map(decode_event, self._serve(self._identity, encode_order(order)))


def _tell_nobody(_event: Any) -> None:
    """Ignore an event: pages show states, which the result has."""
