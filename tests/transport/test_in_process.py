"""Parties in this process: all asked parties answer, and errors come through."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, get_ident

import pytest

from fedforest.errors import ConfigurationError, DataError, PartyLost, RemoteProtocolError
from fedforest.transport.in_process import InProcess


def shout(data: bytes) -> bytes:
    return data.upper()


def fail(_: bytes) -> bytes:
    raise DataError("the table is empty")


@pytest.fixture(params=["one after the other", "on threads"])
def executor(request: pytest.FixtureRequest) -> Iterator[ThreadPoolExecutor | None]:
    if request.param == "on threads":
        with ThreadPoolExecutor(2) as executor:
            yield executor
    else:
        yield None


def test_every_asked_party_gets_its_own_request(executor: ThreadPoolExecutor | None) -> None:
    transport = InProcess({"a": shout, "b": bytes, "c": fail}, executor)
    assert transport.exchange({"a": b"x", "b": b"y"}) == {"a": b"X", "b": b"y"}


def test_replies_come_in_the_order_of_the_requests(executor: ThreadPoolExecutor | None) -> None:
    transport = InProcess({"a": shout, "b": shout}, executor)
    assert list(transport.exchange({"b": b"", "a": b""})) == ["b", "a"]


def test_an_error_at_a_party_comes_through(executor: ThreadPoolExecutor | None) -> None:
    transport = InProcess({"a": shout, "b": fail}, executor)
    with pytest.raises(DataError, match="empty"):
        transport.exchange({"a": b"x", "b": b"y"})


def test_on_threads_an_error_is_raised_when_everybody_has_answered() -> None:
    heard = []

    def listen(data: bytes) -> bytes:
        heard.append(data)
        return data

    with ThreadPoolExecutor(1) as executor:
        transport = InProcess({"a": fail, "b": listen}, executor)
        with pytest.raises(DataError, match="empty"):
            transport.exchange({"a": b"x", "b": b"y"})
        assert heard == [b"y"]


def test_nobody_is_asked_where_a_party_is_unknown() -> None:
    heard = []

    def listen(data: bytes) -> bytes:
        heard.append(data)
        return data

    transport = InProcess({"a": listen})
    with pytest.raises(ConfigurationError, match="'b'"):
        transport.exchange({"a": b"", "b": b""})
    assert heard == []


def test_every_answer_is_read_once(executor: ThreadPoolExecutor | None) -> None:
    read: list[tuple[str, bytes]] = []
    transport = InProcess({"a": shout, "b": bytes}, executor)
    answers = transport.exchange_reading(
        {"a": b"x", "b": b"y"}, lambda party, answer: read.append((party, answer))
    )
    assert sorted(read) == list(answers.items()) == [("a", b"X"), ("b", b"y")]


def test_an_answer_is_read_before_others_have_come() -> None:
    has_read = Event()

    def wait_for_reader(data: bytes) -> bytes:
        assert has_read.wait(30)
        return data

    def read(party: str, _answer: bytes) -> None:
        if party == "a":
            has_read.set()

    with ThreadPoolExecutor(1) as executor:
        transport = InProcess({"a": shout, "b": wait_for_reader}, executor)
        requests = {"a": b"1", "b": b"2"}
        assert transport.exchange_reading(requests, read) == requests


def test_an_answer_that_cannot_be_read_is_an_error_of_its_party(
    executor: ThreadPoolExecutor | None,
) -> None:
    def refuse(party: str, _answer: bytes) -> None:
        if party == "b":
            raise RemoteProtocolError("that is no answer", party)

    transport = InProcess({"a": shout, "b": shout}, executor)
    with pytest.raises(RemoteProtocolError, match="no answer"):
        transport.exchange_reading({"a": b"x", "b": b"y"}, refuse)


def test_a_party_that_may_be_lost_is_left_out(executor: ThreadPoolExecutor | None) -> None:
    def lose(_: bytes) -> bytes:
        raise PartyLost("it does not answer", "a")

    transport = InProcess({"a": lose, "b": shout}, executor)
    requests = {"a": b"x", "b": b"y"}
    assert transport.exchange(requests, may_lose=True) == {"b": b"Y"}
    with pytest.raises(PartyLost):
        transport.exchange(requests)


def test_parties_on_threads_answer_at_the_same_time() -> None:
    meeting = Barrier(2)

    def meet(data: bytes) -> bytes:
        meeting.wait(timeout=30)
        return data

    with ThreadPoolExecutor(2) as executor:
        transport = InProcess({"a": meet, "b": meet}, executor)
        assert transport.exchange({"a": b"1", "b": b"2"}) == {"a": b"1", "b": b"2"}


def test_the_calling_thread_answers_for_parties_that_no_thread_has_begun_with() -> None:
    busy = Event()
    with ThreadPoolExecutor(1) as executor:
        occupied = executor.submit(busy.wait, 30)
        try:
            transport = InProcess({"a": shout, "b": fail, "c": shout}, executor)
            assert transport.exchange({"a": b"x", "c": b"y"}) == {"a": b"X", "c": b"Y"}
            with pytest.raises(DataError, match="empty"):
                transport.exchange({"b": b"x", "c": b"y"})
        finally:
            busy.set()
        assert occupied.result()


def test_requests_of_a_kind_that_was_answered_in_no_time_wake_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedforest.transport.in_process.BRIEF_SECONDS", 60.0)
    meeting, answered_by = Barrier(2), []

    def answer(data: bytes) -> bytes:
        if data.startswith(b"meet"):
            meeting.wait(timeout=30)
        answered_by.append(get_ident())
        return data

    with ThreadPoolExecutor(2) as executor:
        transport = InProcess({"a": answer, "b": answer}, executor)
        for content in (b"first", b"again"):
            answered_by.clear()
            requests = dict.fromkeys("ab", b"\x92\xa8question" + content)
            assert transport.exchange(requests) == requests
        assert answered_by == [get_ident()] * 2
        transport.exchange({"a": b"meet", "b": b"meet"})
        assert len(set(answered_by[2:])) == 2
