"""Runs that are cancelled while they wait, or while they are worked on."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from fedforest.errors import ConfigurationError
from fedforest.runtime.messages.orders import CancelRun, ListRuns, LogOfRun, ShowRun, encode_order
from fedforest.runtime.messages.results import (
    RunAccepted,
    RunDetails,
    RunEvents,
    RunList,
    VerticalResult,
    decode_event,
    follow,
)
from tests.integration.federation_folder import make_federation
from tests.integration.local_federation import LocalFederation, LocalHub, local_federation
from tests.integration.samples import divide, vertical

WAIT_SECONDS = 600.0  # kernels may have to be compiled first, on a busy machine
IDS = [bytes([number]) * 16 for number in (1, 2)]


class HaltingHub(LocalHub):
    """Stops before a chosen exchange until it is let go on."""

    def __init__(self, endpoints: Mapping[str, Callable[[bytes], bytes]]) -> None:
        super().__init__(endpoints)
        self.n_exchanges = 0
        self.halts_at = 8
        self.has_halted, self.may_go_on = threading.Event(), threading.Event()

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        self.n_exchanges += 1
        if self.n_exchanges == self.halts_at:
            self.has_halted.set()
            assert self.may_go_on.wait(WAIT_SECONDS)
        return super().exchange(requests, may_lose=may_lose)


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[LocalFederation]:
    pattern = make_federation(tmp_path / "pattern", divide(2))
    with local_federation(tmp_path / "local", pattern) as federation:
        yield federation


@pytest.fixture
def hub(federation: LocalFederation) -> Iterator[HaltingHub]:
    hub = HaltingHub(federation.hub.endpoints)
    federation.coordinator._runs._hub = hub
    object.__setattr__(federation.coordinator._runs._trainings, "_hub", hub)
    yield hub
    hub.may_go_on.set()


def begin(federation: LocalFederation, run: bytes) -> None:
    federation.next_run = run
    events = federation.coordinator.serve("user", encode_order(vertical(2)))
    assert decode_event(next(events)) == RunAccepted(run.hex())


def watch(federation: LocalFederation, run: bytes) -> Callable[[], None]:
    from fedforest.runtime.messages.orders import WatchRun  # noqa: PLC0415 - beside its one use

    events = federation.coordinator.serve("user", encode_order(WatchRun(run=run.hex())))
    return lambda: follow(map(decode_event, events), VerticalResult, lambda _: None)


def states(federation: LocalFederation) -> dict[str, str]:
    found = federation.ask(ListRuns(), RunList)
    assert isinstance(found, RunList)
    return {state.run: state.state for state in found.runs}


def cancel(federation: LocalFederation, run: bytes) -> None:
    federation.ask(CancelRun(run=run.hex()), RunList)


def journals(federation: LocalFederation, run: bytes) -> list[Path]:
    paths = (home / "runs" / run.hex() / "journal" for home in federation.homes.values())
    return [path for path in paths if path.exists()]


def test_a_run_under_way_ends_after_its_exchange_and_everybody_forgets_it(
    federation: LocalFederation, hub: HaltingHub
) -> None:
    begin(federation, IDS[0])
    assert hub.has_halted.wait(WAIT_SECONDS)
    assert len(journals(federation, IDS[0])) == 3
    cancelling = threading.Thread(target=cancel, args=(federation, IDS[0]))
    cancelling.start()
    federation.coordinator._runs._jobs[IDS[0]].cancelling.wait(WAIT_SECONDS)
    hub.may_go_on.set()
    cancelling.join(WAIT_SECONDS)
    assert states(federation) == {IDS[0].hex(): "cancelled"}
    assert journals(federation, IDS[0]) == []
    assert hub.n_exchanges <= hub.halts_at + 1  # the exchange under way, and parties forgetting
    details = federation.ask(ShowRun(run=IDS[0].hex()), RunDetails)
    assert isinstance(details, RunDetails)
    assert details.state.ended is not None
    log = federation.ask(LogOfRun(run=IDS[0].hex()), RunEvents)
    assert isinstance(log, RunEvents)
    assert log.events[-1].kind == "cancelled"


def test_a_run_in_the_queue_is_cancelled_at_once_and_the_others_go_on(
    federation: LocalFederation, hub: HaltingHub
) -> None:
    for run in IDS:
        begin(federation, run)
    assert hub.has_halted.wait(WAIT_SECONDS)
    cancel(federation, IDS[1])
    assert states(federation) == {IDS[0].hex(): "running", IDS[1].hex(): "cancelled"}
    hub.may_go_on.set()
    watch(federation, IDS[0])()
    assert states(federation)[IDS[0].hex()] == "finished"


def test_whoever_watches_a_cancelled_run_hears_of_it(
    federation: LocalFederation, hub: HaltingHub
) -> None:
    begin(federation, IDS[0])
    assert hub.has_halted.wait(WAIT_SECONDS)
    following = watch(federation, IDS[0])
    heard: list[BaseException] = []

    def listen() -> None:
        try:
            following()
        except ConfigurationError as error:
            heard.append(error)

    listening = threading.Thread(target=listen)
    listening.start()
    cancelling = threading.Thread(target=cancel, args=(federation, IDS[0]))
    cancelling.start()
    federation.coordinator._runs._jobs[IDS[0]].cancelling.wait(WAIT_SECONDS)
    hub.may_go_on.set()
    for thread in (listening, cancelling):
        thread.join(WAIT_SECONDS)
    assert len(heard) == 1
    assert "cancelled" in str(heard[0]) or "no result" in str(heard[0])


def test_a_finished_run_has_nothing_to_cancel(federation: LocalFederation) -> None:
    federation.ask(vertical(2), VerticalResult, IDS[0])
    with pytest.raises(ConfigurationError, match="nothing to cancel"):
        cancel(federation, IDS[0])
    assert states(federation) == {IDS[0].hex(): "finished"}
