"""Old runs are deleted at the coordinator: the chosen ones, one's own, and nothing unasked for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedforest.errors import AccessRefused, ConfigurationError, TooFewParties
from fedforest.runtime.coordinator.service import CoordinatorService
from fedforest.runtime.membership.user_roles import UserRole
from fedforest.runtime.messages.orders import (
    CancelRun,
    ListRuns,
    PruneRuns,
    RunFilter,
    ShowRun,
)
from fedforest.runtime.messages.results import HorizontalResult, RunDetails, RunList, VerticalResult
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import LocalFederation, local_federation
from tests.integration.samples import divide, horizontal, vertical

TRAINED, CANCELLED, FOREIGN = (bytes([number]) * 16 for number in (1, 2, 3))
USERS: dict[str, UserRole] = {"ann": "scientist", "ben": "scientist", "vic": "viewer"}


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    """Ann has a finished run and a cancelled one, Ben a finished one."""
    pattern = make_federation(tmp_path / "pattern", divide(2))
    with local_federation(tmp_path / "local", pattern, users=lambda: USERS) as federation:
        federation.ask(vertical(2, n_trees=2, max_depth=3), VerticalResult, TRAINED, user="ann")
        federation.ask(horizontal(2), HorizontalResult, FOREIGN, user="ben")
        shop = federation.hub.endpoints.pop("shop")
        with pytest.raises(TooFewParties):
            federation.ask(vertical(2), VerticalResult, CANCELLED, user="ann")
        federation.ask(CancelRun(run=CANCELLED.hex()), RunList, user="ann")
        federation.hub.endpoints["shop"] = shop
        yield federation


def prune(federation: LocalFederation, user: str, *, deletes: bool, **which: Any) -> set[str]:
    order = PruneRuns(RunFilter(**which), deletes=deletes)
    found = federation.ask(order, RunList, user=user)
    assert isinstance(found, RunList)
    return {run.run for run in found.runs}


def listed(federation: LocalFederation, user: str, **which: Any) -> set[str]:
    found = federation.ask(ListRuns(RunFilter(**which)), RunList, user=user)
    assert isinstance(found, RunList)
    return {run.run for run in found.runs}


def test_lists_are_of_the_states_that_are_asked_for(federation: LocalFederation) -> None:
    assert listed(federation, "ann", states=["cancelled"]) == {CANCELLED.hex()}
    assert listed(federation, "ann", states=["paused", "running"]) == set()
    assert listed(federation, "ann") == {CANCELLED.hex(), TRAINED.hex()}


def test_a_user_prunes_own_runs_only_and_nothing_without_saying_so(
    federation: LocalFederation,
) -> None:
    everything = {TRAINED.hex(), CANCELLED.hex()}
    assert prune(federation, "ann", deletes=False) == everything
    assert listed(federation, "ann") == everything
    with pytest.raises(AccessRefused):
        prune(federation, "vic", deletes=True)
    assert prune(federation, "ann", deletes=True, states=["cancelled"]) == {CANCELLED.hex()}
    assert prune(federation, "ann", deletes=True, before=1.0) == set()
    assert listed(federation, "ann") == {TRAINED.hex()}
    assert listed(federation, "ben") == {FOREIGN.hex()}


def test_of_a_pruned_run_only_its_id_and_a_withdrawal_stay(federation: LocalFederation) -> None:
    home = federation.homes["coordinator"]
    assert prune(federation, "ann", deletes=True) == {TRAINED.hex(), CANCELLED.hex()}
    for run in (TRAINED, CANCELLED):
        folder = home / "runs" / run.hex()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"finished": b""}
        with pytest.raises((AccessRefused, ConfigurationError)):
            federation.ask(ShowRun(run=run.hex()), RunDetails, user="ann")
    left = [path.name for path in (home / "models").iterdir()]
    assert left == [f"{TRAINED.hex()}.withdrawn"]
    for party in ("bank", "shop"):
        assert (federation.homes[party] / "models" / f"{TRAINED.hex()}.withdrawn").exists()
    federation.coordinator.close()
    federation.coordinator = CoordinatorService(home, federation.hub, users=lambda: USERS)
    federation.coordinator.start()
    assert listed(federation, "ann") == set()
