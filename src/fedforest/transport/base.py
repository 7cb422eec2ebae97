"""The interface of every transport: carry one request to each of some parties, return the replies.

Predictions also ask how fast the way to the parties is, to choose between few and short messages.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from fedforest.protocol.network import Network


class Transport(Protocol):
    """Carries bytes and does not interpret them."""

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """Deliver all requests at the same time; return when every party has answered.

        A party that is lost raises `PartyLost`, or is left out of the answers if it may be.
        """


Work = Callable[[], None]


class PendingReplies(Protocol):
    """An exchange that was begun."""

    def replies(self, work: Work) -> dict[str, bytes]:
        """Wait for all replies; `work` is called once all requests are on their way.

        An error in `work` ends the exchange.
        """

    def end(self) -> None:
        """Withdraw the requests, if there is no reply yet."""


class _ExchangeLater:
    """An exchange that begins when somebody waits for it."""

    def __init__(self, transport: Transport, requests: Mapping[str, bytes]) -> None:
        self._transport, self._requests = transport, requests

    def replies(self, work: Work) -> dict[str, bytes]:
        answers = self._transport.exchange(self._requests)
        work()
        return answers

    def end(self) -> None:
        """Do nothing: nothing was begun."""


BeginExchange = Callable[[Mapping[str, bytes]], PendingReplies]


@runtime_checkable
class AheadTransport(Transport, Protocol):
    """A transport that carries further requests while replies to earlier ones are awaited."""

    def in_sequence(self) -> BeginExchange:
        """Return a way to begin exchanges whose requests reach each party in this order."""


def beginning_exchanges(transport: Transport) -> BeginExchange:
    """Return a way to begin exchanges in order; one after the other, where nothing can overlap."""
    if isinstance(transport, AheadTransport):
        return transport.in_sequence()
    return lambda requests: _ExchangeLater(transport, requests)


ExchangeBeside = Callable[[Mapping[str, bytes], Work], dict[str, bytes]]


@runtime_checkable
class UnhurriedTransport(Transport, Protocol):
    """A transport whose caller can do something else while parties are at work."""

    def exchange_beside(self, requests: Mapping[str, bytes], work: Work) -> dict[str, bytes]:
        """Exchange; `work` is called once all requests are on their way.

        An error in `work` ends the exchange.
        """


def working_beside(transport: Transport) -> ExchangeBeside:
    """Return an exchange that works meanwhile, where the transport can do that."""
    if isinstance(transport, UnhurriedTransport):  # slow: to be asked once for many exchanges
        return transport.exchange_beside

    def exchange_first(requests: Mapping[str, bytes], work: Work) -> dict[str, bytes]:
        answers = transport.exchange(requests)
        work()
        return answers

    return exchange_first


Read = Callable[[str, bytes], None]


class ExchangeReading(Protocol):
    """The signature of an exchange that reads every answer once."""

    def __call__(
        self, requests: Mapping[str, bytes], read: Read, *, may_lose: bool = False
    ) -> dict[str, bytes]: ...


@runtime_checkable
class PromptTransport(Transport, Protocol):
    """A transport that has each answer as soon as its party is done."""

    def exchange_reading(
        self, requests: Mapping[str, bytes], read: Read, *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """Exchange; every answer is read when it comes, on any thread.

        An error in `read` counts as if the party had not answered.
        """


def reading_answers(transport: Transport) -> ExchangeReading:
    """Return an exchange that reads answer by answer, where the transport can do that."""
    if isinstance(transport, PromptTransport):  # slow: to be asked once for many exchanges
        return transport.exchange_reading

    def read_last(
        requests: Mapping[str, bytes], read: Read, *, may_lose: bool = False
    ) -> dict[str, bytes]:
        answers = transport.exchange(requests, may_lose=may_lose)
        for party, data in answers.items():
            read(party, data)
        return answers

    return read_last


class MeasuredTransport(Transport, Protocol):
    """A transport that knows how fast it is."""

    @property
    def network(self) -> Network:
        """The slowest way to a party."""
