"""What a coordinator owes a party that was left out: kept, said once it is there, and no more."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from fedforest.errors import FederationError, PartyLost, RemoteProtocolError
from fedforest.runtime.coordinator.end_notices import OwedEnds
from fedforest.runtime.messages.party_requests import TO_PARTY, Done, EndRun
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.codec import decode, encode

RUN = bytes(range(16))


class Parties:
    """Parties that do what they are told, or fail."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, EndRun]] = []
        self.failure: FederationError | None = None

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        assert not may_lose
        if self.failure is not None:
            raise self.failure
        for party, data in requests.items():
            message = decode(data, TO_PARTY)
            assert isinstance(message, EndRun)
            self.heard.append((party, message))
        return dict.fromkeys(requests, encode(Done()))


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    store = RunStore(tmp_path)
    store.begin(RUN, b"an order").close()
    return store


def owing(store: RunStore, parties: Parties) -> OwedEnds:
    """A coordinator that was restarted since it noted what it owes."""
    OwedEnds(store, parties).note(RUN, {"shop", "bank"}, RUN.hex(), 4)
    owed = OwedEnds(store, parties)
    owed.recall()
    return owed


def test_an_end_is_told_to_each_party_when_it_is_there_and_once(store: RunStore) -> None:
    parties = Parties()
    owed = owing(store, parties)
    store.finish(RUN, b"result")
    owed.pay(["clinic", "shop"])
    owed.pay(["shop"])
    ((party, end),) = parties.heard
    assert (party, end.run, end.model, end.n_trees) == ("shop", RUN, RUN.hex(), 4)
    again = OwedEnds(store, parties)
    again.recall()
    again.pay(["shop", "bank"])
    assert [party for party, _ in parties.heard] == ["shop", "bank"]
    assert not (store.folder(RUN) / "owed").exists()


def test_nothing_is_told_of_a_run_that_is_not_over(store: RunStore) -> None:
    parties = Parties()
    owing(store, parties).pay(["shop", "bank"])
    assert parties.heard == []


def test_a_party_that_is_lost_again_is_told_later_and_one_that_refuses_is_not(
    store: RunStore,
) -> None:
    parties = Parties()
    owed = owing(store, parties)
    store.finish(RUN, b"result")
    parties.failure = PartyLost("it is not connected", "shop")
    owed.pay(["shop"])
    parties.failure = RemoteProtocolError("the forest has other trees", "bank")
    owed.pay(["bank"])
    parties.failure = None
    owed.pay(["shop", "bank"])
    assert [party for party, _ in parties.heard] == ["shop"]
