"""The driver carries questions and counts what they cost."""

from collections.abc import Mapping

import pytest

from fedforest.errors import RemoteProtocolError
from fedforest.protocol.asking import Accepted, Conversation, Message, ask
from fedforest.protocol.payloads import TableSize
from fedforest.protocol.vertical.messages import BinColumns, ColumnsBinned
from fedforest.runtime.driver import Exchange, ExchangeLog, run
from fedforest.transport.codec import encode


class Scripted:
    """A transport whose parties always say the same."""

    def __init__(self, reply_of: Mapping[str, bytes]) -> None:
        self.reply_of = reply_of
        self.asked: list[dict[str, bytes]] = []

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        assert not may_lose
        self.asked.append(dict(requests))
        return {party: self.reply_of[party] for party in requests}


REPLY = encode(ColumnsBinned(TableSize(7, 2)))


def ask_twice() -> Conversation[int]:
    request = BinColumns(1, 255)
    first = yield from ask({"a": request, "b": request}, {"level": 3})
    none: dict[str, BinColumns] = {}
    nobody = yield from ask(none)
    second = yield from ask({"b": BinColumns(2, 255)})
    assert nobody == {}
    return int(first["a"].size.n_rows + second["b"].size.n_rows)


def test_the_result_of_a_conversation_is_returned() -> None:
    transport = Scripted({"a": REPLY, "b": REPLY})
    assert run(ask_twice(), transport) == 14
    assert [sorted(sent) for sent in transport.asked] == [["a", "b"], ["b"]]
    assert transport.asked[0]["a"] == encode(BinColumns(1, 255))


def test_every_exchange_is_logged_with_its_bytes_and_told_to_observers() -> None:
    seen: list[Exchange] = []
    log = ExchangeLog(observers=[seen.append])
    run(ask_twice(), Scripted({"a": REPLY, "b": REPLY}), log)
    assert seen == log.exchanges
    assert [(e.request, e.n_parties, dict(e.note)) for e in log.exchanges] == [
        ("BinColumns", 2, {"level": 3}),
        ("BinColumns", 1, {}),
    ]
    size = len(encode(BinColumns(1, 255)))
    assert log.exchanges[0].bytes_to == {"a": size, "b": size}
    assert log.exchanges[0].n_bytes == 2 * size + 2 * len(REPLY)
    assert log.bytes_by_party == {"a": len(REPLY), "b": 2 * len(REPLY)}


@pytest.mark.parametrize("reply", [b"", b"\xc1", REPLY[:-1], encode(Accepted())])
def test_a_reply_that_is_no_message_of_the_asked_type_is_its_senders_fault(reply: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="ColumnsBinned") as caught:
        run(ask_twice(), Scripted({"a": REPLY, "b": reply}))
    assert caught.value.party == "b"


def test_replies_are_handed_over_before_the_coordinator_gets_them_all() -> None:
    handed: list[tuple[str, int]] = []

    def listen() -> Conversation[list[tuple[str, int]]]:
        request = BinColumns(1, 255)
        yield from ask(
            {"a": request, "b": request},
            read=lambda party, reply: handed.append((party, reply.size.n_rows)),
        )
        return handed.copy()

    assert run(listen(), Scripted({"a": REPLY, "b": REPLY})) == [("a", 7), ("b", 7)]


def test_a_conversation_is_over_when_an_exchange_fails() -> None:
    conversation = ask_twice()
    with pytest.raises(RemoteProtocolError):
        run(conversation, Scripted({"a": REPLY, "b": b""}))
    with pytest.raises(StopIteration):
        next(conversation)


def test_a_conversation_without_questions_needs_no_transport() -> None:
    def silent() -> Conversation[str]:
        return "done"
        yield  # makes it a generator

    assert run(silent(), Scripted({})) == "done"


def test_messages_have_no_address_in_them() -> None:
    """Whom a request went to is the transport's business: the same request, the same bytes."""
    transport = Scripted({"a": REPLY, "b": REPLY})
    run(ask_twice(), transport)
    assert transport.asked[0]["a"] == transport.asked[0]["b"]
    assert not hasattr(Message, "party")
