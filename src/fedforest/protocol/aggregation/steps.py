"""A party's memory of its last replies: whoever asks again gets the same bytes, or nothing.

Answering twice would undo the protection: two noisy answers average out, two masked ones under the
same masks differ by what they were to hide.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from fedforest.protocol.asking import Message, check

Reply = TypeVar("Reply", bound=Message)
_ENCODER = msgspec.msgpack.Encoder()


class StepMemory:
    """The replies to the latest step, by hop: exchanges of one step are told apart by a number."""

    def __init__(self) -> None:
        self._step = -1
        self._answered: dict[int, tuple[Message, Message]] = {}  # request and reply

    def answer(self, step: int, hop: int, request: Message, compute: Callable[[], Reply]) -> Reply:
        """The stored reply to this very request, or else the computed one, which is then stored.

        Refused: a request of an earlier step, and another request where one was answered. If
        `compute` raises, nothing is remembered.
        """
        check(step >= self._step, f"step {step} is over: step {self._step} was answered already")
        if step == self._step and hop in self._answered:
            asked, stored = self._answered[hop]
            is_same = _ENCODER.encode(asked) == _ENCODER.encode(request)
            check(is_same, f"another request under step {step}, which was answered already")
            return cast("Reply", stored)
        reply = compute()
        if step > self._step:
            self._step, self._answered = step, {}
        self._answered[hop] = (request, reply)  # kept whole: seldom compared, never hashed
        return reply
