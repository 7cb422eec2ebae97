"""Replies that a coordinator refuses leave no trace in its journal, whenever it was killed."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from fedforest.errors import RemoteProtocolError
from fedforest.protocol.asking import Accepted, Conversation, Message, Request, ask
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.recovery.resumable import run_with_journal
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.codec import decode, encode

RUN = bytes(16)


class Answer(Message, frozen=True):
    number: int


class Question(Request[Answer], frozen=True):
    number: int


class Party:
    """Answers with the number it was asked, or with another one while it is confused."""

    def __init__(self) -> None:
        self.is_confused = False
        self.n_asked = 0

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        assert not may_lose
        self.n_asked += 1
        request = decode(requests["bank"], (RunRequest,))
        assert isinstance(request, RunRequest)
        question = decode(request.payload, (Question,))
        assert isinstance(question, Question)
        return {"bank": encode(Answer(-1 if self.is_confused else question.number))}


def count() -> Conversation[int]:
    """A coordinator that wants its numbers back."""
    for number in (1, 2, 3):
        replies = yield from ask({"bank": Question(number)})
        if replies["bank"].number != number:
            raise RemoteProtocolError("another number than asked for", "bank")
    return 3


def test_a_refused_reply_is_asked_for_again_when_the_run_is_resumed(tmp_path: Path) -> None:
    stored, party = RunStore(tmp_path).begin(RUN, b""), Party()
    party.is_confused = True
    with pytest.raises(RemoteProtocolError, match="another number"):
        run_with_journal(count(), party, stored)
    assert stored.journal.n_records == 0
    party.is_confused = False
    assert run_with_journal(count(), party, stored) == 3
    assert stored.journal.n_records == 3
    stored.close()


def test_an_answer_of_another_type_is_not_recorded(tmp_path: Path) -> None:
    class Silent(Party):
        def exchange(
            self, requests: Mapping[str, bytes], *, may_lose: bool = False
        ) -> dict[str, bytes]:
            assert not may_lose
            return dict.fromkeys(requests, encode(Accepted()))

    stored = RunStore(tmp_path).begin(RUN, b"")
    with pytest.raises(RemoteProtocolError, match="Answer"):
        run_with_journal(count(), Silent(), stored)
    assert stored.journal.n_records == 0
    stored.close()
