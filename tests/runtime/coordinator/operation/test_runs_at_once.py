"""Several runs at a time at one coordinator: what goes on beside what, told by events."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedforest.errors import TooFewParties
from fedforest.runtime.membership.run_limits import LimitsOfUsers
from fedforest.runtime.messages.orders import ListRuns, TrainHorizontal, encode_order
from fedforest.runtime.messages.results import (
    HorizontalResult,
    RunAccepted,
    RunList,
    decode_event,
    follow,
)
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import LocalFederation, local_federation
from tests.integration.samples import divide, horizontal

WAIT_SECONDS = 60.0
FIRST, SECOND, THIRD = (bytes([number]) * 16 for number in (1, 2, 3))


def alone(party: str) -> TrainHorizontal:
    """Return a run of one party."""
    order = horizontal(2)
    return msgspec.structs.replace(order, data={party: order.data[party]})


class Gate:
    """Holds the answers of a party back until it is opened."""

    def __init__(self, federation: LocalFederation, party: str) -> None:
        self.is_reached, self.is_open = threading.Event(), threading.Event()
        honest, one_at_a_time = federation.hub.endpoints[party], threading.Lock()

        def answer(data: bytes) -> bytes:
            self.is_reached.set()
            assert self.is_open.wait(WAIT_SECONDS)
            with one_at_a_time:  # as requests reach a party
                return honest(data)

        federation.hub.endpoints[party] = answer


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    pattern = make_federation(tmp_path / "pattern", divide(2))
    with local_federation(tmp_path / "local", pattern) as federation:
        yield federation


def begin(
    federation: LocalFederation, run: bytes, order: TrainHorizontal, user: str = "ann"
) -> Any:
    """Order a run; return what waits for its result."""
    federation.next_run = run
    events = federation.coordinator.serve(user, encode_order(order))
    assert decode_event(next(events)) == RunAccepted(run.hex())
    return lambda: follow(map(decode_event, events), HorizontalResult, lambda _: None)


def states(federation: LocalFederation) -> dict[bytes, str]:
    listed = federation.ask(ListRuns(), RunList, user="ann")
    assert isinstance(listed, RunList)
    return {bytes.fromhex(run.run): run.state for run in listed.runs}


def test_a_run_of_other_parties_ends_while_the_first_one_is_still_held_up(
    federation: LocalFederation,
) -> None:
    one, other = sorted(federation.hub.endpoints)
    gate = Gate(federation, one)
    first = begin(federation, FIRST, alone(one))
    assert gate.is_reached.wait(WAIT_SECONDS)
    assert begin(federation, SECOND, alone(other))().n_rows > 0
    assert states(federation) == {FIRST: "running", SECOND: "finished"}
    gate.is_open.set()
    assert first().n_rows > 0


def test_two_runs_of_one_party_go_one_after_the_other(federation: LocalFederation) -> None:
    one = min(federation.hub.endpoints)
    gate = Gate(federation, one)
    first = begin(federation, FIRST, alone(one))
    assert gate.is_reached.wait(WAIT_SECONDS)
    second = begin(federation, SECOND, alone(one))
    assert states(federation) == {FIRST: "running", SECOND: "queued"}
    gate.is_open.set()
    assert first().n_rows == second().n_rows


def test_a_run_of_an_absent_party_delays_no_other(federation: LocalFederation) -> None:
    one = min(federation.hub.endpoints)
    absent = next(party for party in federation.hub.endpoints if party != one)
    endpoint = federation.hub.endpoints.pop(absent)
    waits = begin(federation, FIRST, horizontal(2))
    goes = begin(federation, SECOND, alone(one))
    assert goes().n_rows > 0
    assert states(federation)[FIRST] == "queued"
    federation.hub.endpoints[absent] = endpoint
    assert waits().n_rows > 0


def test_a_run_whose_party_does_not_come_is_paused_after_the_wait(tmp_path: Path) -> None:
    pattern = make_federation(tmp_path / "pattern", divide(2))
    with local_federation(tmp_path / "local", pattern) as federation:
        federation.coordinator._runs._wait_seconds = 0.2
        federation.hub.endpoints.pop(next(iter(federation.hub.endpoints)))
        waits = begin(federation, FIRST, horizontal(2))
        with pytest.raises(TooFewParties, match=r"not connected after 0\.2 seconds"):
            waits()
        assert states(federation)[FIRST] == "paused"


def test_as_many_runs_of_a_party_go_on_together_as_the_coordinator_says(tmp_path: Path) -> None:
    pattern = make_federation(tmp_path / "pattern", divide(2))
    limits = LimitsOfUsers(most_runs_per_party=2)
    with local_federation(tmp_path / "local", pattern, limits=limits) as federation:
        one = min(federation.hub.endpoints)
        gate = Gate(federation, one)
        results = [begin(federation, run, alone(one)) for run in (FIRST, SECOND, THIRD)]
        assert gate.is_reached.wait(WAIT_SECONDS)
        federation.coordinator._runs._jobs[SECOND].has_ended.wait(0.5)
        assert states(federation) == {FIRST: "running", SECOND: "running", THIRD: "queued"}
        gate.is_open.set()
        assert all(result().n_rows for result in results)
