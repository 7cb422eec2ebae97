"""What every transport offers: carry one request to each of some parties and bring the replies.

Predictions also ask how fast the way to the parties is, to choose between few and short messages.
"""

from collections.abc import Mapping
from typing import Protocol

from fedforest.protocol.vertical.prediction_plan import Network


class Transport(Protocol):
    """Carries bytes; what they mean is not its business."""

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """Deliver all requests at the same time; return when every party has answered.

        A party that is lost raises `PartyLost`, or is left out of the answers if it may be.
        """


class MeasuredTransport(Transport, Protocol):
    """A transport that knows how fast it is."""

    @property
    def network(self) -> Network:
        """The slowest way to a party."""
