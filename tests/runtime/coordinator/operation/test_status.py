"""The state of the federation: whole for operators, reduced for all other users."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from fedforest.cli.operation.status import _as_object, _describe
from fedforest.errors import FederationError
from fedforest.release import __version__
from fedforest.runtime.coordinator.operation.status import StatusBoard
from fedforest.runtime.membership.members import Member
from fedforest.runtime.membership.user_roles import USER_ROLES
from fedforest.runtime.messages.orders import ShowStatus
from fedforest.runtime.messages.results import VerticalResult
from fedforest.runtime.messages.status import FederationStatus
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import LocalFederation, local_federation
from tests.integration.samples import divide, vertical

EXPIRES = "2030-01-02T03:04:05+00:00"
MEMBERS = [
    Member("party", "bank", "", "", EXPIRES),
    Member("party", "shop", "", "", EXPIRES),
    *(Member("user", role, "", "", EXPIRES, role) for role in USER_ROLES),
]


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    board = StatusBoard(
        tmp_path,
        lambda: {"bank": "0.0.9"},
        lambda: MEMBERS,
        lambda: ["fedforest:f/party/gone"],
        lambda: datetime(2031, 1, 1, tzinfo=UTC),
    )
    pattern = make_federation(tmp_path / "pattern", divide(2))
    users = {role: role for role in USER_ROLES}
    with local_federation(
        tmp_path / "local", pattern, users=lambda: users, board=board
    ) as federation:
        yield federation


def ask(federation: LocalFederation, user: str) -> FederationStatus:
    told = federation.ask(ShowStatus(), FederationStatus, user=user)
    assert isinstance(told, FederationStatus)
    return told


def test_every_user_sees_who_is_connected_and_operators_see_all(
    federation: LocalFederation,
) -> None:
    for role in USER_ROLES:
        told = ask(federation, role)
        assert told.release == __version__
        assert [(party.name, party.connected, party.release) for party in told.parties] == [
            ("bank", True, "0.0.9"),
            ("shop", False, ""),
        ]
        is_operator = role == "operator"
        kept = (told.users, told.revoked, told.certificate_expires, told.disk_free_bytes)
        assert all((field is not None) == is_operator for field in kept)
        assert {party.expires for party in told.parties} == {EXPIRES if is_operator else None}
    text = "\n".join(_describe(ask(federation, "operator")))
    for line in (
        "party shop, NOT CONNECTED, certificate until 2030-01-02 03:04 UTC",
        "user viewer, viewer, certificate until",
        "revoked fedforest:f/party/gone",
        "queue: 0 runs",
        "free",
        "certificate of the coordinator: until 2031-01-01 00:00 UTC",
    ):
        assert line in text
    assert "viewer" not in "\n".join(_describe(ask(federation, "viewer")))


def test_the_queue_shows_runs_of_others_to_operators_only(federation: LocalFederation) -> None:
    del federation.hub.endpoints["shop"]
    seen: dict[str, FederationStatus] = {}
    keep = federation.hub.connected

    def connected() -> list[str]:  # asked while the run waits for a party
        if not seen:
            seen.update((role, ask(federation, role)) for role in ("scientist", "operator"))
        return keep()

    federation.hub.connected = connected  # type: ignore[method-assign] # to look in mid-run
    order = msgspec.structs.replace(vertical(2), name="theirs")
    with pytest.raises(FederationError):
        federation.ask(order, VerticalResult, bytes([1]) * 16, user="operator")
    assert (seen["scientist"].n_queued, seen["scientist"].runs) == (1, [])
    [run] = seen["operator"].runs
    assert (run.run, run.name) == ((bytes([1]) * 16).hex(), "theirs")


def test_json_has_names_for_all_fields(federation: LocalFederation) -> None:
    told = _as_object(ask(federation, "operator"))
    assert told["parties"][0]["connected"]
    assert {user["user_role"] for user in told["users"]} == set(USER_ROLES)
