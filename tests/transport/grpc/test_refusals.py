"""Several parties refuse at once: whoever asks hears all of them, and waits for nobody long."""

import threading
import time

import pytest

from fedforest.errors import DataError, MaskingError, PartyLost
from fedforest.transport.grpc.channel import ChannelLimits
from fedforest.transport.grpc.questions import GATHERING_SECONDS
from tests.transport.grpc_federations import DEADLINE_SECONDS, GrpcFederation


def refuse_key(peer: str):  # type: ignore[no-untyped-def] # an endpoint
    def answer(_: bytes) -> bytes:
        raise MaskingError.of("key.other", peer=peer)

    return answer


def test_what_every_party_refuses_is_told_at_once_and_what_to_do_is_told_once() -> None:
    with GrpcFederation() as federation:
        federation.join("bank", refuse_key("clinic"))
        federation.join("shop", refuse_key("bank"))
        federation.join("clinic")
        with pytest.raises(MaskingError) as caught:
            federation.hub.exchange(dict.fromkeys(("bank", "shop", "clinic"), b"meet"))
    assert str(caught.value) == (
        "party 'bank': party 'clinic' shows a key that is not the pinned one: somebody may sit in "
        "between; party 'shop': party 'bank' shows a key that is not the pinned one: somebody may "
        "sit in between; compare fingerprints with its operator before anything is sent"
    )
    assert [refusal.party for refusal in caught.value.refusals] == ["bank", "shop"]


def test_parties_that_refuse_for_the_same_reason_are_named_together() -> None:
    def refuse_data(_: bytes) -> bytes:
        raise DataError.of("data_set.unknown", data_set="secret")

    with GrpcFederation() as federation:
        federation.join("bank", refuse_data)
        federation.join("shop", refuse_data)
        with pytest.raises(DataError) as caught:
            federation.hub.exchange(dict.fromkeys(("bank", "shop"), b"begin"))
    assert str(caught.value) == (
        "parties 'bank', 'shop': there is no data set (named in its log) at this party"
    )


def test_a_refusal_does_not_wait_for_a_party_that_thinks_for_long() -> None:
    may_go_on = threading.Event()

    def think(data: bytes) -> bytes:
        may_go_on.wait(DEADLINE_SECONDS)
        return data

    with GrpcFederation(limits=ChannelLimits(answer_seconds=DEADLINE_SECONDS)) as federation:
        federation.join("bank", refuse_key("shop"))
        federation.join("shop", think)
        started = time.monotonic()
        with pytest.raises(MaskingError, match=r"^party 'bank': party 'shop' shows"):
            federation.hub.exchange({"bank": b"meet", "shop": b"meet"})
        assert time.monotonic() - started < GATHERING_SECONDS + DEADLINE_SECONDS / 2
        may_go_on.set()


def test_a_party_that_is_lost_meanwhile_goes_before_refusals() -> None:
    with GrpcFederation() as federation:
        federation.join("bank", refuse_key("shop"))
        with pytest.raises(PartyLost, match="shop"):
            federation.hub.exchange({"bank": b"meet", "shop": b"meet"}, patience_seconds=0.05)
