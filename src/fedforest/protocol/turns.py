"""Several conversations by turns: one's messages travel while parties work for another.

Turns have a fixed order, whatever reply comes first, and replies are taken in the order of their
questions. So a run that is resumed asks the same questions in the same order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from fedforest.protocol.asking import COLLECT, Ask, Conversation

Job = TypeVar("Job")
Result = TypeVar("Result")

MOST_SLOTS = 4  # conversations that a party takes part in at the same time, within one run

Begin = Callable[[Job, int], Conversation[Result]]  # (job, its slot) -> its conversation


class _Turn(NamedTuple):
    """A conversation whose next question is known."""

    number: int  # of its job
    slot: int
    conversation: Conversation[Any]


def take_turns(
    jobs: Iterable[Job], begin: Begin[Job, Result], n_slots: int, results: dict[int, Result]
) -> Conversation[None]:
    """Hold a conversation about each job, `n_slots` at a time; fill `results` by job number.

    A job takes the slot of one that has ended. No other question of the run may be open.
    """
    upcoming, turns = iter(enumerate(jobs)), deque[_Turn]()

    def next_turn(slot: int) -> tuple[_Turn, Ask] | None:
        """Begin the next job that asks anything."""
        for number, job in upcoming:
            turn = _Turn(number, slot, begin(job, slot))
            question = _listen(turn, None, results)
            if question is not None:
                return turn, question
        return None

    try:
        for slot in range(n_slots):
            begun = next_turn(slot)
            if begun is not None:
                turns.append(begun[0])
                yield replace(begun[1], is_ahead=True)
        while turns:
            turn = turns.popleft()
            question = _listen(turn, (yield COLLECT), results)
            begun = (turn, question) if question is not None else next_turn(turn.slot)
            if begun is not None:
                turns.append(begun[0])
                yield replace(begun[1], is_ahead=True)
    finally:
        for turn in turns:
            turn.conversation.close()


def _listen(turn: _Turn, replies: Mapping[str, Any] | None, results: dict[int, Any]) -> Ask | None:
    """Return the next question that asks anybody, or None where the conversation has ended."""
    try:
        if replies is None:
            question = next(turn.conversation)
        else:
            question = turn.conversation.send(replies)
        while not question.requests:
            question = turn.conversation.send({})
    except StopIteration as end:
        results[turn.number] = end.value
        return None
    return question
