"""A party that is lost in the middle of a sum: no sum, and another one without it."""

import numpy as np
import pytest

from fedforest.errors import PartyLost, RemoteProtocolError
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import Plug
from tests.protocol.aggregation.federations import (
    PLUGS,
    PROTECTED,
    Federation,
    federation,
    some_vectors,
)


def two_sums(parties: Federation, *without: str) -> None:
    """Ask under a new number, in front of everybody who is left."""
    left = [name for name in parties.names if name not in without]
    segments = [parties.segment(b"q0", left), parties.segment(b"q1", left[1:])]
    gathered = parties.gather(2, segments)
    assert gathered.lost == frozenset()
    for total, segment in zip(gathered.sums, segments, strict=True):
        assert total.tolist() == parties.expected(segment).tolist()


@pytest.mark.parametrize("plug", PLUGS, ids=str)
@pytest.mark.parametrize("lost", ["p0", "p2", "p4"])
@pytest.mark.parametrize("is_slow", [False, True])
def test_a_step_without_one_party_gives_no_sum_and_is_repeated_under_a_new_number(
    plug: Plug, lost: str, is_slow: bool
) -> None:
    parties = federation(plug, some_vectors(5, lengths=(4, 3))).introduce()
    (parties.network.slow if is_slow else parties.network.cut_off).add(lost)
    segments = [parties.segment(b"q0"), parties.segment(b"q1", ["p1", "p3"])]
    gathered = parties.gather(1, segments)
    assert gathered.sums == []
    assert gathered.lost == {lost}
    assert [party for party, _ in parties.network.late] == ([lost] if is_slow else [])
    two_sums(parties, lost)
    parties.network.slow.clear()
    parties.network.cut_off.clear()
    everybody = parties.segment(b"q0")
    again = parties.gather(3, [everybody])  # it is back
    assert again.sums[0].tolist() == parties.expected(everybody).tolist()


@pytest.mark.parametrize("plug", PLUGS, ids=str)
def test_several_parties_are_lost_at_once(plug: Plug) -> None:
    parties = federation(plug, some_vectors(5, lengths=(4, 3))).introduce()
    parties.network.cut_off |= {"p1", "p3"}
    lost = parties.gather(1, [parties.segment(b"q0")]).lost
    assert lost == ({"p1"} if isinstance(plug, Ring) else {"p1", "p3"})
    two_sums(parties, "p1", "p3")


@pytest.mark.parametrize("lost", ["p0", "p3"])
def test_a_party_may_be_lost_between_the_exchanges_of_secret_sharing(lost: str) -> None:
    parties = federation(Shamir(3), some_vectors(4, lengths=(4, 3))).introduce()
    conversation = parties.aggregation.gather(1, [parties.segment(b"q0")])
    ask = next(conversation)
    ask = conversation.send({p: parties.parties[p].handle(r) for p, r in ask.requests.items()})
    replies = {p: parties.parties[p].handle(r) for p, r in ask.requests.items() if p != lost}
    with pytest.raises(StopIteration) as done:
        conversation.send(replies)
    assert (done.value.value.sums, done.value.value.lost) == ([], {lost})
    two_sums(parties, lost)


@pytest.mark.parametrize("plug", PLUGS, ids=str)
def test_a_late_reply_to_the_old_number_is_recognised_and_never_added(plug: Plug) -> None:
    parties = federation(plug, some_vectors(3)).introduce()
    parties.network.slow.add("p0")
    everybody = parties.segment(b"q0")
    parties.gather(1, [everybody])
    ((_, late),) = parties.network.late
    parties.network.slow.clear()
    honest = dict(parties.network.endpoints)
    parties.network.endpoints = {**honest, "p0": lambda _: late}
    with pytest.raises(RemoteProtocolError, match="late reply: it answers step 1, not 2") as caught:
        parties.gather(2, [everybody])
    assert caught.value.party == "p0"


@pytest.mark.parametrize("plug", PLUGS, ids=str)
def test_a_party_that_comes_back_refuses_the_step_it_missed(plug: Plug) -> None:
    parties = federation(plug, some_vectors(3)).introduce()
    parties.network.cut_off.add("p2")
    everybody = parties.segment(b"q0")
    assert parties.gather(1, [everybody]).lost == {"p2"}
    missed = next(r["p2"] for r in reversed(parties.network.requests) if "p2" in r)
    parties.network.cut_off.clear()
    parties.gather(2, [everybody])
    with pytest.raises(RemoteProtocolError, match="step 1 is over"):
        parties.network.endpoints["p2"](missed)


@pytest.mark.parametrize("plug", PROTECTED, ids=str)
def test_a_party_lost_at_the_introduction_ends_it(plug: Plug) -> None:
    parties = federation(plug, some_vectors(3))
    parties.network.cut_off.add("p1")
    with pytest.raises(PartyLost, match="p1"):
        parties.introduce()


def test_whoever_keeps_a_late_reply_learns_its_sender_from_the_repeated_sum() -> None:
    """Why late replies must be discarded: the leak that the documents speak of, carried out."""
    parties = federation(Masked(), some_vectors(4)).introduce()
    parties.network.slow.add("p3")
    everybody = parties.segment(b"q0")
    parties.gather(1, [everybody])
    kept = [*parties.network.replies[-1].values(), parties.network.late[0][1]]
    old = sum(np.frombuffer(reply[-40:], "<u8") for reply in kept)
    without = parties.gather(2, [parties.segment(b"q0", ["p0", "p1", "p2"])]).sums[0]
    learned = (old - without.view(np.uint64)).view(np.int64)
    assert learned.tolist() == parties.answers["p3"].vectors[b"q0"].tolist()
