"""Who watches a run hears which parties are away, within seconds of their going."""

from pathlib import Path

import pytest

from fedforest.errors import PartyLost
from fedforest.runtime.coordinator.jobs import Job
from fedforest.runtime.coordinator.operation.absences import telling_absences
from fedforest.runtime.messages.results import Told, VerticalResult, Waiting
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import local_federation
from tests.integration.samples import divide, vertical
from tests.transport.grpc_federations import wait_until


class Hub:
    def __init__(self) -> None:
        self.names = ["bank", "shop"]

    def connected(self) -> list[str]:
        return self.names


def test_watchers_hear_of_a_party_that_went_and_that_it_is_back() -> None:
    hub, told = Hub(), list[Told]()
    job = Job(bytes(16), vertical(2), record=lambda _run, _number, event: told.append(event))
    with telling_absences(job, hub):
        hub.names = ["bank"]
        wait_until(lambda: told == [Waiting(["shop"])], "the watcher hears of it", 5)
        assert job.waiting == Waiting(["shop"])  # for watchers that come later
        hub.names = ["bank", "shop"]
        wait_until(lambda: told[1:] == [Waiting([])], "the watcher hears of its return", 5)
        assert job.waiting is None


def test_a_run_does_not_wait_for_a_party_that_was_revoked_since_it_was_ordered(
    tmp_path: Path,
) -> None:
    pattern = make_federation(tmp_path / "pattern", divide(2))
    when_ordered = iter([["bank", "shop"]])
    members = lambda: next(when_ordered, ["bank"])  # noqa: E731
    with local_federation(tmp_path / "local", pattern, members=members) as federation:
        del federation.hub.endpoints["shop"]
        with pytest.raises(PartyLost, match="'shop': it was revoked, and does not come back"):
            federation.ask(vertical(2), VerticalResult)
