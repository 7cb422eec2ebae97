"""A coordinator that wants votes of encrypted labels sealed for a key of its own.

An honest prediction passes through its hands; it changes what the label party is asked for.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as change

from fedforest.errors import FederationError
from fedforest.protocol.vertical.prediction.messages import REQUESTS, VoteByLeaves
from fedforest.runtime.messages.orders import PredictVertical
from fedforest.runtime.messages.party_requests import TO_PARTY, InPrediction
from fedforest.runtime.messages.results import Predictions, VerticalResult
from fedforest.runtime.messages.signed_orders import read_signed, sign_request
from fedforest.transport.codec import decode, encode
from fedforest.tree.growth.parameters import ForestParameters
from tests.runtime.partly_shared import PARTIES, make_pattern, vertical_order
from tests.runtime.signing_users import SigningFederation, signing_federation

DATA = dict.fromkeys(PARTIES[:2], "people")
LABEL_PARTY = PARTIES[0]
OWN, FOREIGN = b"u" * 32, b"c" * 32  # keys of the user and of the coordinator
ORDER = vertical_order(
    data=DATA,
    parameters=ForestParameters(n_estimators=1, max_depth=2, max_bins=8),
    align=False,
    validation=None,
    encrypts_labels=True,
)
Change = Callable[[VoteByLeaves], VoteByLeaves]


class Liar:
    """Stands before the label party; notes which keys votes were sealed for."""

    def __init__(self, federation: SigningFederation, lie: Change) -> None:
        self._answer = federation.parties[LABEL_PARTY].answer
        self._lie = lie
        self.n_told = 0
        self.sealed_for: list[bytes] = []
        federation.hub.endpoints[LABEL_PARTY] = self

    def __call__(self, data: bytes) -> bytes:
        request = decode(data, TO_PARTY)
        if not isinstance(request, InPrediction):
            return self._answer(data)
        asked: Any = decode(bytes(request.payload), REQUESTS)
        if not isinstance(asked, VoteByLeaves):
            return self._answer(data)
        told = self._lie(asked)
        self.n_told += 1
        reply = self._answer(encode(change(request, payload=memoryview(encode(told)))))
        self.sealed_for.append(bytes(told.key))
        return reply


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[SigningFederation]:
    with signing_federation(tmp_path / "local", make_pattern(tmp_path / "pattern")) as federation:
        yield federation


@pytest.fixture
def order(federation: SigningFederation) -> PredictVertical:
    trained = federation.ask_signed(ORDER, VerticalResult)
    assert isinstance(trained, VerticalResult)
    return PredictVertical(data=DATA, model=trained.model, key=OWN)


def with_key(key: bytes) -> Change:
    return lambda asked: change(asked, key=memoryview(key))


def test_votes_are_sealed_for_the_key_that_was_signed_and_for_no_other(
    federation: SigningFederation, order: PredictVertical
) -> None:
    honest = Liar(federation, lambda asked: asked)
    assert isinstance(federation.ask_signed(order, Predictions), Predictions)
    assert honest.sealed_for == [OWN]
    for key in (FOREIGN, b""):
        liar = Liar(federation, with_key(key))
        with pytest.raises(FederationError, match="another key than the user's who signed"):
            federation.ask_signed(order, Predictions)
        assert liar.n_told == 1
        assert liar.sealed_for == []


def test_other_votes_than_were_signed_are_refused(
    federation: SigningFederation, order: PredictVertical
) -> None:
    liar = Liar(federation, lambda asked: change(asked, hard_votes=not asked.hard_votes))
    with pytest.raises(FederationError, match="the user asked for other votes"):
        federation.ask_signed(order, Predictions)
    assert (liar.n_told, liar.sealed_for) == (1, [])
    liar = Liar(federation, lambda asked: change(asked, hard_votes=not asked.hard_votes))
    as_trained = change(order, hard_votes=None)  # leaves the choice to the coordinator's records
    assert isinstance(federation.ask_signed(as_trained, Predictions), Predictions)
    assert liar.sealed_for == [OWN]


def test_who_signed_for_leaves_only_gets_no_votes_under_any_key(
    federation: SigningFederation, order: PredictVertical
) -> None:
    keyless = change(order, key=b"", leaves=True)
    assert isinstance(federation.ask_signed(keyless, Predictions), Predictions)
    heard: list[InPrediction] = []
    bank = federation.parties[LABEL_PARTY].answer

    def listen(data: bytes) -> bytes:
        request = decode(data, TO_PARTY)
        if isinstance(request, InPrediction):
            heard.append(request)
        return bank(data)

    federation.hub.endpoints[LABEL_PARTY] = listen
    federation.ask_signed(keyless, Predictions)
    votes = VoteByLeaves(0, 1, memoryview(bytes(4)), memoryview(FOREIGN))
    after = change(
        heard[-1], sequence=heard[-1].sequence + 1, begin=None, payload=memoryview(encode(votes))
    )
    with pytest.raises(FederationError, match="another key than the user's who signed"):
        bank(encode(after))


def test_a_key_that_is_put_into_the_signed_order_breaks_its_signature(
    federation: SigningFederation, order: PredictVertical
) -> None:
    signed = read_signed(sign_request(order, federation.ann))
    forged = change(signed, order=signed.order.replace(OWN, FOREIGN))
    assert forged.order != signed.order
    assert not forged.is_genuine


def test_without_a_signature_the_coordinator_chooses_the_key(
    federation: SigningFederation,
) -> None:
    """Why a party that has such labels demands signatures, and the lie above is one."""
    federation.demand_proof("vouched")
    trained = federation.ask(ORDER, VerticalResult, user="ben")
    assert isinstance(trained, VerticalResult)
    order = PredictVertical(data=DATA, model=trained.model, key=OWN)
    liar = Liar(federation, with_key(FOREIGN))
    federation.ask(order, Predictions, user="ben")
    assert liar.sealed_for == [FOREIGN]
