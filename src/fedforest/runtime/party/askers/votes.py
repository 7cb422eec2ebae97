"""Sealed votes for the user who signed the request, and for no other key.

A coordinator that puts its own key in the place of the user's would read votes of encrypted labels.
A user who signs the request signs its key.
"""

from dataclasses import dataclass

from fedforest.protocol.asking import Handler, Message, check
from fedforest.protocol.vertical.prediction.messages import VoteByLeaves
from fedforest.runtime.messages.orders import PredictVertical, decode_order
from fedforest.runtime.messages.signed_orders import read_signed


@dataclass(frozen=True, slots=True)
class VotesForAsker:
    """A handler of predictions that seals votes for one key only."""

    handler: Handler
    key: bytes
    hard_votes: bool | None  # None: as the model's run was ordered

    @classmethod
    def of(cls, handler: Handler, proof: bytes) -> Handler:
        """Hold a handler to a signed request; without one it stays as it is."""
        if not proof:
            return handler
        order = decode_order(read_signed(proof).order)
        if not isinstance(order, PredictVertical):
            return cls(handler, b"", hard_votes=False)
        return cls(handler, order.key, order.hard_votes)

    def handle(self, request: Message) -> Message:
        """Answer a request, or refuse votes for another key than the user's."""
        if isinstance(request, VoteByLeaves):
            is_own = bool(self.key) and bytes(request.key) == self.key
            check(is_own, "votes are asked for under another key than the user's who signed")
            is_kind = self.hard_votes in (None, request.hard_votes)
            check(is_kind, "the user asked for other votes")
        return self.handler.handle(request)
