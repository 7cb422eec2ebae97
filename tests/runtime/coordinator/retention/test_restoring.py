"""A coordinator from an older copy: runs that were under way end with the reason, everywhere."""

from pathlib import Path

import pytest

from fedforest.errors import ConfigurationError, PartyLost, TransportError
from fedforest.runtime.coordinator.retention.restoring import restore_coordinator
from fedforest.runtime.coordinator.service import CoordinatorService
from fedforest.runtime.messages.orders import ListRuns, PredictVertical, WatchRun
from fedforest.runtime.messages.results import Predictions, RunList, VerticalResult
from fedforest.runtime.recovery.backup import make_backup
from tests.integration.local_federation import LocalFederation, local_federation
from tests.runtime.service_recordings import RUN, make_pattern, vertical_order

UNDER_WAY = bytes([5]) * 16


def restore(federation: LocalFederation, folder: Path) -> None:
    """Replace the coordinator by what a copy of it holds."""
    federation.coordinator.close()
    restore_coordinator(folder / "copy", folder / "again")
    federation.coordinator = CoordinatorService(folder / "again", federation.hub)
    federation.coordinator.start()


def break_off(federation: LocalFederation) -> None:
    """Begin a run, and have a party go in the middle of it."""
    answers, n_asked = federation.hub.endpoints["shop"], 0

    def go(data: bytes) -> bytes:
        nonlocal n_asked
        n_asked += 1
        if n_asked > 4:
            raise PartyLost("it went away", party="shop")
        return answers(data)

    federation.hub.endpoints["shop"] = go
    with pytest.raises(PartyLost):
        federation.ask(vertical_order(), VerticalResult, UNDER_WAY)
    federation.hub.endpoints["shop"] = answers


def test_a_run_under_way_ends_with_the_reason_and_parties_forget_it(tmp_path: Path) -> None:
    with local_federation(tmp_path / "local", make_pattern(tmp_path / "pattern")) as federation:
        federation.ask(vertical_order(), VerticalResult, RUN)
        break_off(federation)
        assert (federation.homes["bank"] / "runs" / UNDER_WAY.hex() / "journal").exists()
        made = make_backup(federation.homes["coordinator"], tmp_path / "copy", "coordinator", "0")
        assert list(made.descriptions) == [UNDER_WAY.hex()]
        restore(federation, tmp_path)
        with pytest.raises(ConfigurationError, match=r"cancelled: .*copy was made \(20.*anew"):
            federation.ask(WatchRun(run=UNDER_WAY.hex()), VerticalResult)
        told = federation.ask(
            PredictVertical(data=vertical_order().data, model=RUN.hex()), Predictions
        )
        assert isinstance(told, Predictions)
        listed = federation.ask(ListRuns(), RunList)
        assert isinstance(listed, RunList)
        assert {run.run: run.state for run in listed.runs} == {
            RUN.hex(): "finished",
            UNDER_WAY.hex(): "cancelled",
        }
        for party in federation.parties:  # predictions send pending end notices first
            assert not (federation.homes[party] / "runs" / UNDER_WAY.hex() / "journal").exists()


def test_no_user_is_let_in_while_a_restored_coordinator_waits_for_revocations(
    tmp_path: Path,
) -> None:
    reasons = iter(["it was restored and waits", ""])
    pattern = make_pattern(tmp_path / "pattern")
    with local_federation(tmp_path / "local", pattern, closed=lambda: next(reasons)) as federation:
        with pytest.raises(TransportError, match="was restored and waits"):
            federation.ask(ListRuns(), RunList)
        assert federation.ask(ListRuns(), RunList) == RunList([])
