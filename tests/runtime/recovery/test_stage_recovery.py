"""Services that die while rows are aligned, a model is scored or a party stands alone.

As `test_service_recovery.py` does to trainings: at every exchange, before its requests arrive and
after its replies are there but not heard of; in the quick tests at some of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from fedforest.errors import ConfigurationError, PartyLost
from fedforest.runtime.coordinator.runs import LEAKAGE
from fedforest.runtime.coordinator.service import CoordinatorService
from fedforest.runtime.messages.envelope import derive_part
from fedforest.runtime.messages.orders import (
    CancelRun,
    TrainHorizontal,
    TrainVertical,
    WatchRun,
    encode_order,
)
from fedforest.runtime.messages.results import (
    HorizontalResult,
    RunList,
    VerticalResult,
    decode_event,
    follow,
)
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.federation_folder import FederationFolder
from tests.integration.local_federation import LocalFederation, LocalHub, local_federation
from tests.integration.processes import result_type, role_files
from tests.runtime.partly_shared import PARTIES, horizontal_order, make_pattern, vertical_order
from tests.runtime.recovery.test_service_recovery import MortalHub, begin_and_die, mortify
from tests.runtime.service_recordings import RUN

TWO = PARTIES[:2]
ALIGNMENT = derive_part(RUN, "alignment").hex()
SMALL = ForestParameters(n_estimators=2, max_depth=2, bootstrap=False)
ORDERS: dict[str, TrainVertical | TrainHorizontal] = {
    "vertical": vertical_order(data=dict.fromkeys(TWO, "people"), parameters=SMALL, alone=True),
    "horizontal": horizontal_order(data=dict.fromkeys(TWO, "rows"), parameters=SMALL),
}
named = pytest.mark.parametrize("name", ORDERS)
steps = pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.exhaustive)])


@dataclass
class Honest:
    """What an undisturbed run comes to, and how many exchanges it takes."""

    pattern: FederationFolder
    result: bytes
    files: dict[str, bytes]
    n_exchanges: int
    leakage: bytes  # the report of who learned what


class CountingHub(LocalHub):
    n_exchanges = 0

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        self.n_exchanges += 1
        return super().exchange(requests, may_lose=may_lose)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Honest]:
    found = {}
    for name, order in ORDERS.items():
        folder = tmp_path_factory.mktemp(name)
        pattern = make_pattern(folder / "pattern")
        with local_federation(folder / "local", pattern) as federation:
            hub = CountingHub(federation.hub.endpoints)
            federation.hub.exchange = hub.exchange  # type: ignore[method-assign] # it is counted
            result = federation.ask(order, result_type(order), RUN)
            files = files_of(federation)
            encoded, leakage = msgspec.msgpack.encode(result), leakage_of(federation)
            found[name] = Honest(pattern, encoded, files, hub.n_exchanges, leakage)
    return found


def leakage_of(federation: LocalFederation) -> bytes:
    store = RunStore(federation.homes["coordinator"])
    leakage = store.load(RUN, LEAKAGE)
    assert leakage is not None
    return leakage


def files_of(federation: LocalFederation) -> dict[str, bytes]:
    """Models and alignments of the run, and nothing that was to be dropped."""
    homes = federation.homes
    kept = {
        f"{name}/{path.parent.name}/{path.name}"
        for name, home in homes.items()
        for folder in ("models", "alignments")
        for path in (home / folder).glob("*")
    }
    assert all(RUN.hex() in name or ALIGNMENT in name for name in kept)
    rows = {
        f"{name} rows": (home / "alignments" / ALIGNMENT).read_bytes()
        for name, home in homes.items()
        if (home / "alignments" / ALIGNMENT).exists()
    }
    return role_files(homes, RUN.hex()) | rows


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the death
@named
@steps
@pytest.mark.parametrize("is_heard", [False, True])
def test_a_coordinator_that_dies_at_any_exchange_comes_to_the_same_scores_and_report(
    honest: Mapping[str, Honest], name: str, tmp_path: Path, step: int, *, is_heard: bool
) -> None:
    expected, order = honest[name], ORDERS[name]
    first = 4 if is_heard else 0
    for moment in range(first % step, expected.n_exchanges, step):
        with local_federation(tmp_path / str(moment), expected.pattern) as federation:
            begin_and_die(federation, order, MortalHub(federation, moment, is_heard=is_heard))
            reborn = CoordinatorService(federation.homes["coordinator"], federation.hub)
            reborn.start()
            events = reborn.serve("user", encode_order(WatchRun(run=RUN.hex())))
            result = follow(map(decode_event, events), result_type(order), lambda _: None)
            reborn.close()
            assert msgspec.msgpack.encode(result) == expected.result
            assert files_of(federation) == expected.files
            assert leakage_of(federation) == expected.leakage


@named
@steps
@pytest.mark.parametrize("is_answered", [False, True])
def test_a_party_that_dies_at_any_exchange_comes_to_the_same_scores(
    honest: Mapping[str, Honest], name: str, tmp_path: Path, step: int, *, is_answered: bool
) -> None:
    expected, order = honest[name], ORDERS[name]
    party = TWO[is_answered]
    for moment in range(1 + 3 * is_answered, expected.n_exchanges, step):
        with local_federation(tmp_path / str(moment), expected.pattern) as federation:
            mortify(federation, party, moment, is_answered=is_answered)
            result = federation.ask(order, result_type(order), RUN)
            assert msgspec.msgpack.encode(result) == expected.result
            assert files_of(federation) == expected.files


def test_a_run_that_is_given_up_while_rows_are_aligned_is_forgotten_by_parties(
    honest: Mapping[str, Honest], tmp_path: Path
) -> None:
    with local_federation(tmp_path, honest["vertical"].pattern) as federation:
        _lose(federation, "shop", 3)
        with pytest.raises(PartyLost):
            federation.ask(ORDERS["vertical"], VerticalResult, RUN)
        part = derive_part(RUN, "alignment")
        stores = [RunStore(federation.homes[party]) for party in TWO]
        assert [store.unfinished() for store in stores] == [[part], [part]]
        federation.ask(CancelRun(run=RUN.hex()), RunList)
        assert [store.unfinished() for store in stores] == [[], []]
        with pytest.raises(ConfigurationError, match="cancelled"):
            federation.ask(WatchRun(run=RUN.hex()), VerticalResult)


def _lose(federation: LocalFederation, party: str, n_requests: int) -> None:
    """Have a party miss one request."""
    honest, n_left = federation.hub.endpoints[party], n_requests

    def answer(data: bytes) -> bytes:
        nonlocal n_left
        n_left -= 1
        if n_left == -1:
            raise PartyLost("it does not answer", party)
        return honest(data)

    federation.hub.endpoints[party] = answer


def test_events_tell_what_part_of_a_run_is_under_way(
    honest: Mapping[str, Honest], tmp_path: Path
) -> None:
    with local_federation(tmp_path, honest["horizontal"].pattern) as federation:
        federation.next_run = RUN
        events = federation.coordinator.serve("user", encode_order(ORDERS["horizontal"]))
        told: list[object] = []
        follow(map(decode_event, events), HorizontalResult, told.append)
    parts = [getattr(event, "note", {}).get("part") for event in told]
    assert {"validation", "alone"} == {part for part in parts if part}
