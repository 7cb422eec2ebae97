"""Several parties refuse at once: whoever asks hears all of them, and waits for nobody long."""

import threading
import time

import pytest

from fedforest.errors import DataError, MaskingError, PartyLost
from fedforest.transport.grpc_channel import Limits
from fedforest.transport.grpc_questions import GATHERING_SECONDS
from tests.transport.grpc_federations import DEADLINE_SECONDS, GrpcFederation


def refuse_pins(*names: str):  # type: ignore[no-untyped-def] # an endpoint
    def answer(_: bytes) -> bytes:
        raise MaskingError(f"no fingerprint of {', '.join(names)} is pinned here; run party trust")

    return answer


def test_what_every_party_refuses_is_told_at_once_and_what_to_do_is_told_once() -> None:
    with GrpcFederation() as federation:
        federation.join("bank", refuse_pins("shop", "clinic"))
        federation.join("shop", refuse_pins("bank"))
        federation.join("clinic")
        with pytest.raises(MaskingError) as caught:
            federation.hub.exchange(dict.fromkeys(("bank", "shop", "clinic"), b"meet"))
    assert str(caught.value) == (
        "party 'bank': no fingerprint of shop, clinic is pinned here; "
        "party 'shop': no fingerprint of bank is pinned here; run party trust"
    )
    assert [refusal.party for refusal in caught.value.refusals] == ["bank", "shop"]


def test_parties_that_refuse_for_the_same_reason_are_named_together() -> None:
    def refuse_data(_: bytes) -> bytes:
        raise DataError("there is no data set 'secret' at this party")

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

    with GrpcFederation(limits=Limits(answer_seconds=DEADLINE_SECONDS)) as federation:
        federation.join("bank", refuse_pins("shop"))
        federation.join("shop", think)
        started = time.monotonic()
        with pytest.raises(MaskingError, match=r"^party 'bank': no fingerprint of shop"):
            federation.hub.exchange({"bank": b"meet", "shop": b"meet"})
        assert time.monotonic() - started < GATHERING_SECONDS + DEADLINE_SECONDS / 2
        may_go_on.set()


def test_a_party_that_is_lost_meanwhile_goes_before_refusals() -> None:
    with GrpcFederation() as federation:
        federation.join("bank", refuse_pins("shop"))
        with pytest.raises(PartyLost, match="shop"):
            federation.hub.exchange({"bank": b"meet", "shop": b"meet"}, patience_seconds=0.05)
