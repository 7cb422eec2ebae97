"""A coordinator restored from a copy that is older than a revocation, with real processes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedforest.errors import FederationError, TransportError
from fedforest.runtime.client.connection import Federation
from fedforest.runtime.messages.orders import ListRuns
from fedforest.runtime.messages.results import RunList
from tests.integration.federation_folder import Role
from tests.integration.test_joining import (
    Clinics,
    clinics,  # noqa: F401 - a fixture
    command,
    start,  # noqa: F401 - a fixture
)
from tests.transport.grpc_federations import wait_until


def why_refused(home: Path) -> str:
    """What a user is told who lists runs; empty if it is let in."""
    try:
        with Federation(home) as federation:
            federation.ask(ListRuns(), RunList)
    except FederationError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_a_user_who_was_revoked_after_the_copy_stays_out(
    clinics: Clinics,  # noqa: F811 - the fixture
    start: Callable[[Path], Role],  # noqa: F811 - the fixture
) -> None:
    ann, ben = (clinics.joined(name, "user") for name in ("ann", "ben"))
    bank = clinics.joined("bank")
    party = start(bank)
    assert why_refused(ann) == why_refused(ben) == ""
    copy, again = clinics.folder / "copy.tar.gz", clinics.folder / "again"
    command("coordinator", "backup", str(copy), "--home", clinics.home)
    command("coordinator", "revoke", "ann", "--home", clinics.home)
    assert "was revoked" in why_refused(ann)  # from the first call on
    wait_until((bank / "revoked.json").exists, "the party keeps it", 60)
    party.stop()
    clinics.coordinator.stop()

    command("coordinator", "restore", str(copy), "--home", str(again))
    restored = Role("coordinator", again)
    restored.start()
    try:
        wait_until(lambda: "newcomers enrol at" in restored.read_log(), "it listens", 120)
        for home in (ann, ben):
            assert "waits to hear who was revoked since, from bank" in why_refused(home)
        party.start()
        wait_until(lambda: not why_refused(ben), "ben is let in", 120)
        assert "was revoked" in why_refused(ann)
        assert "knows revocations that this folder does not" in restored.read_log()
        with pytest.raises(TransportError, match="was revoked"), Federation(ann) as federation:
            federation.ask(ListRuns(), RunList)
    finally:
        restored.stop()
