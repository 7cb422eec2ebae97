"""Certificates that expire, and their renewal, on connections that stay open."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from fedforest.errors import ConfigurationError, TransportError
from fedforest.transport.grpc.client import GrpcClient
from fedforest.transport.grpc.renewal import renew_certificate
from fedforest.transport.identity import Identity
from fedforest.transport.tls import Credentials, key_of
from tests.transport.grpc_federations import DAY, DEADLINE_SECONDS, GrpcFederation, wait_until

SOON = timedelta(seconds=4)  # certificates count in whole seconds


class RenewingFederation(GrpcFederation):
    """A federation whose coordinator renews the certificates of everybody but Mallory."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        super().__init__(renew=self.renew, serve_client=self.serve)

    def renew(self, identity: Identity, shown: bytes) -> bytes:
        if identity.name == "mallory":
            raise ConfigurationError("mallory is no member")
        return self.authority.certify(key_of(shown), identity, DAY)

    def serve(self, _identity: Identity, request: bytes) -> Iterator[bytes]:
        while not self.is_over.wait(0.05):
            yield request

    def __enter__(self) -> "RenewingFederation":
        super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        super().__exit__()


@pytest.fixture
def federation() -> Iterator[RenewingFederation]:
    with RenewingFederation() as federation:
        yield federation


def renewed(federation: RenewingFederation, old: Credentials) -> Credentials:
    new = replace(old, certificate=renew_certificate(federation.hub.address, old))
    new.check()
    return new


@pytest.mark.parametrize("role", ["party", "user"])
def test_who_shows_a_certificate_in_date_gets_the_next_one_for_the_same_key(
    federation: RenewingFederation, role: str
) -> None:
    old = federation.authority.issue(role, "bank", timedelta(minutes=10))  # type: ignore[arg-type] # a role
    new = renewed(federation, old)
    assert new.identity == old.identity
    assert new.expires > old.expires


def test_who_is_no_member_gets_none_and_is_told_why(federation: RenewingFederation) -> None:
    with pytest.raises(ConfigurationError, match="refuses: mallory is no member"):
        renew_certificate(federation.hub.address, federation.issue("mallory"))


def test_who_is_revoked_gets_none(federation: RenewingFederation) -> None:
    bank = federation.issue("bank")
    federation.hub.revoke(bank.identity)
    with pytest.raises(ConfigurationError, match="was revoked"):
        renew_certificate(federation.hub.address, bank)


def test_who_was_revoked_before_the_hub_started_is_never_let_in() -> None:
    federation = RenewingFederation()
    bank = federation.issue("bank")
    federation.hub.revoke(bank.identity)
    with federation:
        with pytest.raises(ConfigurationError, match="was revoked"):
            renew_certificate(federation.hub.address, bank)
        link = federation.link("bank", credentials=bank)
        wait_until(lambda: link.trouble is not None, "the link is refused")
        assert federation.hub.connected() == []


def test_an_expired_certificate_is_not_renewed(federation: RenewingFederation) -> None:
    expired = federation.authority.issue("party", "bank", timedelta(seconds=-1))
    with pytest.raises(TransportError):
        renew_certificate(federation.hub.address, expired)


def test_a_hub_without_an_authority_says_that_it_renews_nothing() -> None:
    with GrpcFederation() as federation, pytest.raises(ConfigurationError, match="renews no cert"):
        renew_certificate(federation.hub.address, federation.issue("bank"))


@pytest.mark.slow
def test_an_open_stream_ends_when_its_certificate_does(federation: RenewingFederation) -> None:
    credentials = federation.authority.issue("party", "bank", SOON)
    link = federation.join("bank", credentials=credentials)
    wait_until(lambda: federation.hub.connected() == [], "the party is cut off")
    wait_until(lambda: "expired" in str(link.trouble), "the party is told why")


@pytest.mark.slow
def test_a_users_call_ends_when_its_certificate_does(federation: RenewingFederation) -> None:
    user = federation.authority.issue("user", "ann", SOON)
    with GrpcClient(federation.hub.address, user) as client:
        events = client.submit(b"again")
        assert next(events) == b"again"
        with pytest.raises(TransportError, match="expired"):
            list(events)


def test_a_link_changes_its_certificate_and_no_request_is_lost(
    federation: RenewingFederation,
) -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    def answer(data: bytes) -> bytes:
        is_asked.set()
        may_answer.wait(DEADLINE_SECONDS)
        return data.upper()

    old = federation.authority.issue("party", "bank", timedelta(minutes=10))
    link = federation.join("bank", answer, credentials=old)
    replies: list[dict[str, bytes]] = []
    asking = threading.Thread(
        target=lambda: replies.append(federation.hub.exchange({"bank": b"hello"}))
    )
    asking.start()
    assert is_asked.wait(DEADLINE_SECONDS)
    link.use_credentials(renewed(federation, old))
    may_answer.set()
    asking.join(DEADLINE_SECONDS)
    assert replies == [{"bank": b"HELLO"}]
    assert link.trouble is None


def test_the_coordinators_renewed_certificate_is_shown_to_who_connects_then(
    federation: RenewingFederation,
) -> None:
    federation.join("bank")
    coordinator = federation.authority.issue("coordinator", "main", DAY)
    federation.hub.use_credentials(coordinator)
    federation.join("shop")
    assert federation.hub.connected() == ["bank", "shop"]
    with pytest.raises(ConfigurationError, match="is not who this hub is"):
        federation.hub.use_credentials(federation.authority.issue("coordinator", "other", DAY))


def test_a_coordinator_whose_certificate_expired_is_reached_again_after_its_renewal() -> None:
    with GrpcFederation(coordinator_life=timedelta(seconds=-1)) as federation:
        link = federation.link("bank")
        wait_until(lambda: "certificate" in str(link.trouble), "the party refuses the coordinator")
        federation.hub.use_credentials(federation.authority.issue("coordinator", "main", DAY))
        federation.hub.wait_for_parties(["bank"], DEADLINE_SECONDS)
