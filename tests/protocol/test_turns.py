"""Conversations by turns: a fixed order of questions, and every reply to the one that asked."""

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedforest.protocol.asking import COLLECT, Ask, Conversation, EndEarly, Request, ask
from fedforest.protocol.turns import take_turns
from fedforest.protocol.vertical.messages import BinColumns


def talk(lengths: list[int], said: list[tuple[int, int]]) -> Any:
    """Conversations that ask so many times, and return what they heard."""

    def begin(number: int, slot: int) -> Conversation[list[int]]:
        heard = []
        for step in range(lengths[number]):
            said.append((number, slot))
            replies = yield from ask({"a": BinColumns(1000 * number + step, 2)})
            heard.append(int(replies["a"]))  # type: ignore[call-overload] # replies of the test
            assert (yield from ask({})) == {}  # nobody to ask
        return heard

    return begin


def hold(conversation: Conversation[None]) -> list[list[int]]:
    """Answer each question with its seed, as late as may be; the questions open at each moment."""
    waiting: deque[int] = deque()
    open_questions = []
    try:
        question = next(conversation)
        while True:
            if question.collects:
                open_questions.append(list(waiting))
                reply: dict[str, Any] = {"a": waiting.popleft()}
            else:
                assert question.is_ahead
                waiting.append(_seed_of(question.requests["a"]))
                reply = {}
            question = conversation.send(reply)
    except StopIteration:
        assert not waiting
    return open_questions


def _seed_of(request: Request[Any]) -> int:
    assert isinstance(request, BinColumns)
    return request.bin_seed


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(1, 4))
def test_every_conversation_hears_the_replies_to_its_own_questions(
    lengths: list[int], n_slots: int
) -> None:
    results: dict[int, list[int]] = {}
    hold(take_turns(range(len(lengths)), talk(lengths, []), n_slots, results))
    assert results == {n: [1000 * n + k for k in range(lengths[n])] for n in range(len(lengths))}


def test_so_many_questions_are_open_as_there_are_slots_and_answered_in_order() -> None:
    opened = hold(take_turns(range(3), talk([2, 2, 2], []), 2, {}))
    assert opened == [[0, 1000], [1000, 1], [1, 1001], [1001, 2000], [2000], [2001]]


def test_a_job_takes_the_slot_of_one_that_has_ended() -> None:
    said: list[tuple[int, int]] = []
    hold(take_turns(range(4), talk([1, 3, 0, 2], said), 2, {}))
    assert said == [(0, 0), (1, 1), (3, 0), (1, 1), (3, 0), (1, 1)]


def test_a_run_that_ends_early_keeps_what_had_ended_and_closes_the_rest() -> None:
    closed = []

    def begin(number: int, _: int) -> Conversation[int]:
        try:
            for _step in range(1 + 4 * number):
                yield from ask({"a": BinColumns(number, 2)})
        finally:
            closed.append(number)
        return number

    results: dict[int, int] = {}
    conversation = take_turns(range(2), begin, 2, results)
    questions: list[Ask] = [next(conversation), conversation.send({})]
    assert [question.collects for question in questions] == [False, False]
    assert conversation.send({}) is COLLECT
    assert conversation.send({"a": None}) is COLLECT  # the first has ended, nothing follows it
    with pytest.raises(EndEarly):
        conversation.throw(EndEarly({}))
    assert results == {0: 0}
    assert closed == [0, 1]
