"""A party's memory of its last replies: a repeated request gets the same reply, or a refusal.

Two different answers would undo the protection: noisy answers average out, and the difference of
two answers under the same masks is unmasked.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from fedforest.protocol.asking import Message, check

Reply = TypeVar("Reply", bound=Message)
_ENCODER = msgspec.msgpack.Encoder()


class StepMemory:
    """The replies to the latest step, by hop: the number of an exchange within the step."""

    def __init__(self) -> None:
        self._step = -1
        self._answered: dict[int, tuple[Message, Message]] = {}  # request and reply

    def answer(self, step: int, hop: int, request: Message, compute: Callable[[], Reply]) -> Reply:
        """Return the stored reply to the same request, or compute and store a new one.

        If `compute` raises, nothing is stored.
        """
        stored = self.recall(step, hop, request)
        if stored is not None:
            return cast("Reply", stored)
        reply = compute()
        self.remember(step, hop, request, reply)
        return reply

    def recall(self, step: int, hop: int, request: Message) -> Message | None:
        """Return the stored reply to the same request; None if the request is new.

        Refuse a request of an earlier step, and a different request for an answered step and hop.
        """
        check(
            step >= self._step,
            "step {step} is over: step {last} was answered already",
            step=step,
            last=self._step,
        )
        if step != self._step or hop not in self._answered:
            return None
        asked, stored = self._answered[hop]
        is_same = _ENCODER.encode(asked) == _ENCODER.encode(request)
        check(is_same, "another request under step {step}, which was answered already", step=step)
        return stored

    def remember(self, step: int, hop: int, request: Message, reply: Message) -> None:
        """Store the reply to a new request."""
        if step > self._step:
            self._step, self._answered = step, {}
        self._answered[hop] = (request, reply)  # the whole request: comparisons are rare
