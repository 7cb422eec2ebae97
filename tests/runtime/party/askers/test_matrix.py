"""In whose name a party answers: every kind of asker under every rule, as it is written down."""

import logging
from pathlib import Path

import pytest

from fedforest.errors import PolicyRefusal
from fedforest.runtime.membership.revocations import sign_revocation
from fedforest.runtime.messages.orders import DescribeTables
from fedforest.runtime.messages.party_requests import DescribeData, KeepRevocations
from fedforest.runtime.messages.signed_orders import sign_request
from fedforest.transport.authority import Authority, make_authority
from fedforest.transport.codec import encode
from tests.integration.federation_folder import DAY
from tests.runtime.partly_shared import PARTIES, make_pattern
from tests.runtime.signing_users import SigningFederation, issue, signing_federation

DATA = dict.fromkeys(PARTIES[:2], "people")
# Who asks -> whether the bank answers with asker_proof = vouched, signed, pinned.
ANSWERED = {
    "a user that the coordinator vouches for": (True, False, False),
    "a pinned user that the coordinator vouches for": (False, False, False),
    "a user who signed": (True, True, False),
    "a pinned user who signed": (True, True, True),
    "a pinned user by another key": (False, False, False),
    "a user of another federation who signed": (False, False, False),
    "a revoked user that the coordinator vouches for": (False, False, False),
    "a revoked and pinned user who signed": (False, False, False),
}


def requests(federation: SigningFederation) -> dict[str, DescribeData]:
    order, pattern = DescribeTables(data=DATA), federation.pattern
    ben, gus = issue(pattern, "ben"), issue(pattern, "gus")
    federation.pin(gus)
    revoked = sign_revocation(gus.identity, Authority.load(pattern.folder / "authority").key)
    federation.parties["bank"].answer(encode(KeepRevocations([revoked])))
    stranger = make_authority("elsewhere", DAY).issue("user", "ben", DAY)
    other = issue(pattern, "ann")
    asked = [
        ("ben", b""),
        ("ann", b""),
        ("ben", sign_request(order, ben)),
        ("ann", sign_request(order, federation.ann)),
        ("ann", sign_request(order, other)),
        ("ben", sign_request(order, stranger)),
        ("gus", b""),
        ("gus", sign_request(order, gus)),
    ]
    made = [DescribeData("people", user, proof) for user, proof in asked]
    return dict(zip(ANSWERED, made, strict=True))


def test_every_asker_is_answered_or_refused_as_it_is_written_down_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fedforest")
    with signing_federation(tmp_path / "local", make_pattern(tmp_path / "pattern")) as federation:
        asked = requests(federation)
        for place, rule in enumerate(("vouched", "signed", "pinned")):
            federation.demand_proof(rule)
            for who, request in asked.items():
                caplog.clear()
                try:
                    federation.parties["bank"].answer(encode(request))
                    is_answered = True
                except PolicyRefusal:
                    is_answered = False
                assert is_answered == ANSWERED[who][place], (who, rule)
                events = {record.getMessage(): vars(record) for record in caplog.records}
                (told,) = [
                    events[name]["fedforest_fields"]
                    for name in ("asked", "refused by policy")
                    if name in events
                ]
                assert told["user"] == request.asker
                assert ("proof" in told) == is_answered
