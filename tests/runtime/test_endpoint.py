"""A party as a transport sees it."""

import pytest

from fedforest.errors import DataError, RemoteProtocolError
from fedforest.protocol.asking import Accepted, Message
from fedforest.protocol.vertical.messages import BinColumns, FinishTrees, TreesFinished
from fedforest.runtime.endpoint import make_endpoint
from fedforest.runtime.federation import connect, start_workers
from fedforest.transport.codec import decode, encode
from fedforest.tree.workers import ALONE


class Polite:
    """Finishes what it is asked to."""

    def __init__(self) -> None:
        self.heard: list[Message] = []

    def handle(self, request: Message) -> Message:
        self.heard.append(request)
        return TreesFinished()


def test_a_request_is_decoded_handled_and_answered() -> None:
    party = Polite()
    endpoint = make_endpoint(party, (FinishTrees, BinColumns))
    reply = decode(endpoint(encode(FinishTrees(None, hard_votes=True))), (TreesFinished,))
    assert isinstance(reply, TreesFinished)
    (heard,) = party.heard
    assert isinstance(heard, FinishTrees)
    assert heard.hard_votes


@pytest.mark.parametrize("data", [b"", b"\xff\xff", encode(Accepted()), encode(BinColumns(1, 9))])
def test_what_is_no_accepted_request_never_reaches_the_party(data: bytes) -> None:
    party = Polite()
    with pytest.raises(RemoteProtocolError, match="FinishTrees") as caught:
        make_endpoint(party, (FinishTrees,))(data)
    assert caught.value.party == "coordinator"
    assert party.heard == []


def test_errors_of_the_party_itself_are_not_blamed_on_the_coordinator() -> None:
    class Broken(Polite):
        def handle(self, request: Message) -> Message:
            raise DataError(f"cannot read the table for {type(request).__name__}")

    with pytest.raises(DataError, match="FinishTrees"):
        make_endpoint(Broken(), (FinishTrees,))(encode(FinishTrees(None)))


def test_one_job_needs_no_threads_and_several_share_them() -> None:
    with start_workers(1) as workers:
        assert workers is ALONE
    with start_workers(3) as workers:
        assert workers.count == 3
        parties = {"a": Polite(), "b": Polite()}
        transport = connect(parties, (FinishTrees,), workers)
        replies = transport.exchange(dict.fromkeys(parties, encode(FinishTrees(None))))
        assert sorted(replies) == ["a", "b"]
