"""What every transport promises, tried on all of them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedforest.errors import DataError, PartyLost, StorageError
from fedforest.transport.base import UnhurriedTransport, working_beside
from fedforest.transport.in_process import InProcess
from tests.contracts.endpoints import build
from tests.contracts.trainings import (
    HORIZONTAL_KINDS,
    VERTICAL_KINDS,
    Connect,
    train_horizontally,
    train_vertically,
)

MIB = 2**20


def connect_directly(specs: Any) -> InProcess:
    """One after the other in this process: nothing that could be different."""
    return InProcess({party: build(spec) for party, spec in specs.items()})


def test_every_asked_party_gets_its_own_request(connect: Connect) -> None:
    transport = connect({"a": ("shout",), "b": ("echo",), "c": ("fail", "it was asked")})
    assert transport.exchange({"a": b"x", "b": b"y"}) == {"a": b"X", "b": b"y"}


def test_replies_come_in_the_order_of_the_requests(connect: Connect) -> None:
    transport = connect({"a": ("echo",), "b": ("echo",)})
    assert list(transport.exchange({"b": b"", "a": b""})) == ["b", "a"]


@pytest.mark.parametrize("n_bytes", [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 7 * MIB + 3])
def test_bytes_of_any_number_arrive_as_they_left(connect: Connect, n_bytes: int) -> None:
    data = np.random.default_rng(n_bytes).bytes(n_bytes)
    transport = connect({"a": ("echo",)})
    assert transport.exchange({"a": data})["a"] == data


def test_parties_answer_at_the_same_time(connect: Connect, tmp_path: Path) -> None:
    folder = str(tmp_path)
    transport = connect({"a": ("meet", folder, "a", "b"), "b": ("meet", folder, "b", "a")})
    assert transport.exchange({"a": b"1", "b": b"2"}) == {"a": b"1", "b": b"2"}


def test_work_beside_an_exchange_is_done_once(connect: Connect) -> None:
    exchange, done = working_beside(connect({"a": ("echo",), "b": ("echo",)})), []
    for number in range(20):
        replies = exchange({"a": b"x", "b": b"y"}, lambda: done.append(number))  # noqa: B023 - at once
        assert replies == {"a": b"x", "b": b"y"}
    assert exchange({}, lambda: done.append(20)) == {}
    assert done == list(range(21))


def test_work_is_done_while_parties_are_at_work_where_the_transport_says_so(
    connect: Connect, tmp_path: Path
) -> None:
    transport = connect({"a": ("meet", str(tmp_path), "a", "work")})
    if isinstance(transport, UnhurriedTransport):
        replies = transport.exchange_beside({"a": b"1"}, (tmp_path / "work").touch)
        assert replies == {"a": b"1"}
        assert (tmp_path / "a").exists()


def test_what_fails_beside_an_exchange_is_raised_and_the_next_one_gets_its_own_replies(
    connect: Connect,
) -> None:
    def fail() -> None:
        raise StorageError("the disk is full")

    exchange = working_beside(connect({"a": ("echo",)}))
    for number in range(5):
        with pytest.raises(StorageError, match="disk is full"):
            exchange({"a": b"old"}, fail)
        assert exchange({"a": b"%d" % number}, lambda: None) == {"a": b"%d" % number}


def test_every_request_is_heard_once_and_in_order(connect: Connect) -> None:
    transport = connect({"a": ("count",), "b": ("count",)})
    for number in range(50):
        replies = transport.exchange({"a": b"this", "b": b"that"})
        assert replies == {"a": b"this is number %d" % number, "b": b"that is number %d" % number}


def test_an_error_at_a_party_is_the_same_error_at_the_coordinator(connect: Connect) -> None:
    transport = connect({"a": ("echo",), "b": ("fail", "the table is empty")})
    with pytest.raises(DataError, match="the table is empty"):
        transport.exchange({"a": b"x", "b": b"y"})


def test_after_an_error_the_next_exchange_gets_its_own_replies(connect: Connect) -> None:
    transport = connect({"a": ("echo",), "b": ("fail", "the table is empty")})
    for number in range(5):
        with pytest.raises(DataError):
            transport.exchange({"a": b"old", "b": b""})
        assert transport.exchange({"a": b"new %d" % number}) == {"a": b"new %d" % number}


def test_a_lost_party_is_an_error_that_names_it(connect: Connect) -> None:
    transport = connect({"a": ("echo",), "b": ("get lost", "b")})
    with pytest.raises(PartyLost) as caught:
        transport.exchange({"a": b"", "b": b""})
    assert caught.value.party == "b"


def test_a_lost_party_is_left_out_where_it_may_be(connect: Connect) -> None:
    transport = connect({"a": ("echo",), "b": ("get lost", "b")})
    assert transport.exchange({"a": b"x", "b": b"y"}, may_lose=True) == {"a": b"x"}


def test_callers_on_many_threads_each_get_their_own_replies(connect: Connect) -> None:
    transport = connect({"a": ("echo",), "b": ("shout",)})

    def ask(number: int) -> bool:
        data = b"caller %d" % number
        return transport.exchange({"a": data, "b": data}) == {"a": data, "b": data.upper()}

    with ThreadPoolExecutor(8) as executor:
        assert all(executor.map(ask, range(100)))


def test_what_an_exchange_costs_is_known(connect: Connect) -> None:
    network = connect({"a": ("echo",)}).network  # type: ignore[attr-defined] # of all transports
    assert 0 < network.latency_seconds < 60
    assert network.bytes_per_second > 0


@pytest.mark.parametrize("kind", VERTICAL_KINDS)
def test_a_vertical_training_ends_with_the_same_bytes_at_every_role(
    connect: Connect, kind: str
) -> None:
    assert train_vertically(connect, kind) == train_vertically(connect_directly, kind)


@pytest.mark.parametrize("kind", HORIZONTAL_KINDS)
def test_a_horizontal_training_ends_with_the_same_bytes(connect: Connect, kind: str) -> None:
    assert train_horizontally(connect, kind) == train_horizontally(connect_directly, kind)
