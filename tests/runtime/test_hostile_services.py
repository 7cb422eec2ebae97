"""Services under storms of spoiled messages: named errors, no crash, nothing changed, no data told.

Every message of an honest run is spoiled before the honest one is sent. Where a spoiled one happens
to be acceptable, the service is put back to where it was; after the storm the honest run must end
with the same bytes.
"""

import gc
import math
import resource
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedforest.errors import (
    FederationError,
    ModelFileError,
    PartyLost,
    RemoteProtocolError,
)
from fedforest.protocol.linear.coordinator import LinearTrained
from fedforest.runtime.messages.envelope import RunRequest
from fedforest.runtime.messages.orders import (
    AnyOrder,
    CancelRun,
    EndRunEarly,
    ListRuns,
    PredictVertical,
    ResumeRun,
    TrainHorizontal,
    WatchRun,
    encode_order,
)
from fedforest.runtime.messages.party_requests import TO_PARTY, BeginRun, InPrediction
from fedforest.runtime.messages.results import (
    HorizontalResult,
    RunList,
    VerticalResult,
    decode_event,
)
from fedforest.runtime.messages.roles import VerticalRole
from fedforest.runtime.messages.terms import Terms
from fedforest.runtime.party.service import PartyService
from fedforest.runtime.recovery.linear_files import encode_intercept
from fedforest.runtime.recovery.resumable import run_with_journal
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.runtime.trainings.base import CoordinatorMeans
from fedforest.runtime.trainings.registry import training_of
from fedforest.transport.codec import decode, encode
from fedforest.tree.files.forests import encode_outline
from fedforest.tree.growth.parameters import ForestParameters
from tests.integration.local_federation import (
    LocalFederation,
    local_federation,
    make_party,
)
from tests.integration.processes import result_type, role_files
from tests.integration.seeded_command import secret_of
from tests.protocol.vertical.mutations import little_memory, mutate
from tests.runtime.recoverable_runs import Killed
from tests.runtime.service_recordings import (
    ORDERS,
    PARTIES,
    RUN,
    Recording,
    check_error,
    horizontal_order,
    kind_of,
    prediction_of,
    record,
    spoil,
)

FEW, MANY = 1_000, 20_000
MASKED = ("horizontal",)  # orders whose coordinator sees sums, and nobody's own numbers
WARM_UP = 100
MOST_GROWTH_BYTES = 16 * 2**20

storms = pytest.mark.parametrize(
    "n_messages", [FEW, pytest.param(MANY, marks=pytest.mark.exhaustive)]
)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    return {name: record(tmp_path_factory.mktemp(name), make()) for name, make in ORDERS.items()}


class Storm:
    """A party that hears spoiled messages in the middle of an honest run."""

    def __init__(self, recording: Recording, party: str, folder: Path) -> None:
        self.home = folder / party
        self._backup = folder / "backup"
        self._honest = recording.of(party)
        self._before_all = recording.pattern.parties[party].home
        shutil.copytree(self._before_all, self.home)
        self.service = make_party(self.home)
        self.n_accepted = 0

    def begin_again(self) -> None:
        """The party as it was before any run."""
        self.service.close()
        shutil.rmtree(self.home)
        shutil.copytree(self._before_all, self.home)
        self.service, self.n_accepted = make_party(self.home), 0

    def rage(self, n_messages: int, rng: np.random.Generator) -> None:
        """Spoiled variants of every message, in its place; then the message itself."""
        n_each = -(-n_messages // len(self._honest))
        for step, (request, reply) in enumerate(self._honest):
            self._back_up()
            for _ in range(n_each):
                is_stray = rng.random() < 0.1  # a message of another moment
                base = self._honest[rng.integers(len(self._honest))][0] if is_stray else request
                self._send(vary(base, rng), step)
            assert self.service.answer(request) == reply

    def _send(self, hostile: bytes, step: int) -> None:
        try:
            self.service.answer(hostile)
        except FederationError as error:
            check_error(error, "coordinator")
        else:
            self.n_accepted += 1
            self._put_back(step)

    def _back_up(self) -> None:
        shutil.rmtree(self._backup, ignore_errors=True)
        shutil.copytree(self.home, self._backup)

    def _put_back(self, step: int) -> None:
        """As after the honest messages before this one; predictions are only in memory."""
        self.service.close()
        shutil.rmtree(self.home)
        shutil.copytree(self._backup, self.home)
        self.service = make_party(self.home)
        for request, reply in self._honest[:step]:
            if kind_of(request) is InPrediction:
                with suppress(ModelFileError):  # of a baseline that was dropped since
                    assert self.service.answer(request) == reply


def vary(data: bytes, rng: np.random.Generator) -> bytes:
    """A hostile variant of a request to a party, mostly of what is inside its envelope."""
    message = decode(data, TO_PARTY)
    if isinstance(message, RunRequest | InPrediction) and rng.random() < 0.7:
        payload = memoryview(mutate(bytes(message.payload), rng))
        return encode(msgspec.structs.replace(message, payload=payload))
    return spoil(data, rng) if rng.random() < 0.5 else mutate(data, rng)


def resident_bytes() -> int:
    """What this process has now, garbage not counted."""
    gc.collect()
    n_pages = int(Path("/proc/self/statm").read_text().split()[1])
    return n_pages * resource.getpagesize()


@storms
@pytest.mark.parametrize("party", PARTIES)
@pytest.mark.parametrize("name", ORDERS)
def test_a_party_refuses_spoiled_requests_and_ends_the_run_as_if_there_were_none(
    recordings: Mapping[str, Recording], name: str, party: str, n_messages: int, tmp_path: Path
) -> None:
    storm = Storm(recordings[name], party, tmp_path)
    rng = np.random.default_rng([n_messages, len(name), len(party)])
    with little_memory():
        storm.rage(WARM_UP, rng)  # what is loaded and kept once
        before = resident_bytes()
        storm.begin_again()
        storm.rage(n_messages, rng)
    assert resident_bytes() - before < MOST_GROWTH_BYTES
    assert storm.n_accepted < n_messages // 4  # a storm that is mostly acceptable tests nothing
    storm.service.close()
    expected = {k: v for k, v in recordings[name].files.items() if k.startswith(party)}
    assert role_files({party: storm.home}, RUN.hex()) == expected


@pytest.mark.parametrize("leaf", [math.inf, -math.inf, math.nan, 0.0, 1.5, 0])
def test_a_party_refuses_terms_with_leaves_of_no_size(
    hostile_party: PartyService, leaf: float
) -> None:
    role = VerticalRole(data="columns", label="label")
    honest = encode(BeginRun(RUN, role, Terms(forest=ForestParameters())))
    begun = msgspec.msgpack.decode(honest)
    begun[3]["forest"]["min_samples_leaf"] = leaf
    with pytest.raises(RemoteProtocolError) as caught:
        hostile_party.answer(msgspec.msgpack.encode(begun))
    check_error(caught.value, "coordinator")


@settings(max_examples=200)
@given(data=st.binary(max_size=300))
def test_a_party_refuses_bytes_that_are_no_request(
    hostile_party: PartyService, data: bytes
) -> None:
    with pytest.raises(FederationError) as caught:
        hostile_party.answer(data)
    check_error(caught.value, "coordinator")


@pytest.fixture(scope="module")
def hostile_party(
    recordings: Mapping[str, Recording], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PartyService]:
    home = tmp_path_factory.mktemp("hostile") / "bank"
    shutil.copytree(recordings["vertical"].pattern.parties["bank"].home, home)
    service = make_party(home)
    yield service
    service.close()


class Liar:
    """A way to the parties on which one reply of one of them is another than it was."""

    def __init__(self, federation: LocalFederation, rng: np.random.Generator) -> None:
        self._carry = federation.hub.exchange
        self._rng = rng
        self._n_until_lie = -1
        self.liar: str | None = None  # who lied in the last exchange
        federation.hub.exchange = self._exchange  # type: ignore[method-assign] # this hub lies

    @property
    def suspects(self) -> tuple[str, ...]:
        """Who may be blamed: whoever lied just now; after a lie that was believed, anybody."""
        return PARTIES if self.liar is None else (self.liar,)

    def lie_after(self, n_exchanges: int) -> None:
        self._n_until_lie, self.liar = n_exchanges, None

    def _exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        self.liar = None
        answered = self._carry(requests, may_lose=may_lose)
        if self._n_until_lie == 0:
            self.liar = sorted(answered)[self._rng.integers(len(answered))]
            change = mutate if self._rng.random() < 0.7 else spoil
            answered[self.liar] = change(answered[self.liar], self._rng)
        self._n_until_lie -= 1
        return answered


class Rehearsal:
    """An honest training, played to fresh coordinators again and again, one exchange further."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        self._order = recording.order
        self._honest = [
            (asked, answered)
            for asked, answered in zip(recording.requests, recording.replies, strict=True)
            if all(kind_of(request) is RunRequest for request in asked.values())
        ]
        store = RunStore(folder, lambda _: secret_of("coordinator"))
        self.stored = store.begin(RUN, encode_order(self._order))
        self._lie: dict[str, bytes] = {}
        self._n_left = 0  # exchanges before the coordinator is killed

    def __len__(self) -> int:
        return len(self._honest)

    def listen(self, n_exchanges: int, lie: Mapping[str, bytes]) -> Any:
        """What a coordinator that goes on from its journal comes to; parties may lie first."""
        self._n_left, self._lie = n_exchanges, dict(lie)
        means = CoordinatorMeans(RUN, self.stored.randomness().of("coordinator"))
        conversation = training_of(self._order).conversation(self._order, means)
        return run_with_journal(conversation, self, self.stored)

    def replies(self, step: int) -> Mapping[str, bytes]:
        return self._honest[step][1]

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        """A transport to parties that say what they said before, and lie."""
        assert not may_lose
        if self._n_left == 0:
            raise Killed
        self._n_left -= 1
        step = next(n for n, (asked, _) in enumerate(self._honest) if asked == requests)
        lie, self._lie = self._lie, {}
        return {**self._honest[step][1], **lie}


@storms
@pytest.mark.parametrize("name", ORDERS)
def test_a_coordinator_names_the_party_whose_reply_is_spoiled_and_records_nothing_of_it(
    recordings: Mapping[str, Recording], name: str, n_messages: int, tmp_path: Path
) -> None:
    """Every reply of a training is spoiled many times before the coordinator hears the true one."""
    rng = np.random.default_rng([n_messages, len(name), 1])
    rehearsal = Rehearsal(recordings[name], tmp_path)
    journal, n_believed = rehearsal.stored.journal, 0
    with little_memory():
        for step in range(len(rehearsal)):
            for _ in range(-(-n_messages // len(rehearsal))):
                replies = rehearsal.replies(step)
                liar = sorted(replies)[rng.integers(len(replies))]
                change = mutate if rng.random() < 0.7 else spoil
                try:
                    rehearsal.listen(1, {liar: change(replies[liar], rng)})
                except FederationError as error:
                    check_error(error, liar, of_sum=name in MASKED)
                    assert journal.n_records == step
                    continue
                except Killed:
                    n_believed += 1  # it could have been true, and was recorded
                else:
                    n_believed += 1  # the last one
                journal.take_back()
            with suppress(Killed):
                rehearsal.listen(1, {})
            assert journal.n_records == step + 1
    assert n_believed < n_messages // 2  # a storm that is mostly believed tests nothing
    undisturbed = Rehearsal(recordings[name], tmp_path / "calm")
    assert _told(rehearsal.listen(0, {})) == _told(undisturbed.listen(len(undisturbed), {}))


def _told(trained: Any) -> bytes:
    """Everything a coordinator comes to, as bytes."""
    if isinstance(trained, LinearTrained):
        return encode_intercept(RUN.hex(), trained)
    return trained.model if hasattr(trained, "model") else encode_outline(trained.outline)


@storms
@pytest.mark.parametrize("name", ORDERS)
def test_a_coordinator_names_the_party_whose_reply_is_spoiled_and_resumes_the_run(
    recordings: Mapping[str, Recording], name: str, n_messages: int, tmp_path: Path
) -> None:
    """Resumed after an error, the run goes on to the next lie; after a lie that could have been
    true, somebody else may have to refuse what follows from it, and another run is begun."""
    recording = recordings[name]
    rng = np.random.default_rng([n_messages, len(name)])
    n_messages //= 16  # each costs a resumption of all services
    with local_federation(tmp_path / "lied to", recording.pattern) as federation:
        liar = Liar(federation, rng)
        run, n_believed = rng.bytes(16), 0
        order: AnyOrder = recording.order
        with little_memory():
            for _ in range(n_messages):
                liar.lie_after(int(rng.integers(0, 4)))
                try:
                    federation.ask(order, result_type(recording.order), run)
                except FederationError as error:
                    check_error(error, *liar.suspects, of_sum=name in MASKED)
                    order = ResumeRun(run=run.hex())
                    is_over = liar.liar is None
                else:
                    is_over = True
                if is_over:
                    n_believed += 1
                    run, order = rng.bytes(16), recording.order
        assert n_believed < n_messages // 2  # a storm that is mostly believed tests nothing
        liar.lie_after(-1)
        federation.ask(recording.order, result_type(recording.order), RUN)
        assert role_files(federation.homes, RUN.hex()) == recording.files


@storms
@pytest.mark.parametrize("name", ["vertical", "linear"])
def test_a_coordinator_names_the_party_that_lies_in_a_prediction(
    recordings: Mapping[str, Recording], name: str, n_messages: int, tmp_path: Path
) -> None:
    recording = recordings[name]
    assert not isinstance(recording.order, TrainHorizontal)
    rng = np.random.default_rng(n_messages)
    predict = prediction_of(recording.order)
    with local_federation(tmp_path / "lied to", recording.pattern) as federation:
        federation.ask(recording.order, result_type(recording.order), RUN)
        expected = _events(federation, predict)
        liar = Liar(federation, rng)
        with little_memory():
            for _ in range(n_messages):
                liar.lie_after(int(rng.integers(0, 3)))
                try:
                    _events(federation, predict)
                except FederationError as error:
                    check_error(error, *liar.suspects)
        liar.lie_after(-1)
        assert _events(federation, predict) == expected


def _events(federation: LocalFederation, order: AnyOrder) -> list[bytes]:
    return list(federation.coordinator.serve("user", encode_order(order)))


@storms
def test_a_coordinator_refuses_spoiled_orders(
    recordings: Mapping[str, Recording], n_messages: int, tmp_path: Path
) -> None:
    """No party answers, so that an order that could be carried out costs nothing."""
    rng = np.random.default_rng(n_messages)
    recording = recordings["vertical"]
    run = RUN.hex()
    orders: list[AnyOrder] = [
        *(make() for make in ORDERS.values()),
        PredictVertical(data=recording.order.data, model=run, rows=[0, 1]),
        *(kind(run=run) for kind in (WatchRun, ResumeRun, EndRunEarly, CancelRun)),
        ListRuns(),
    ]
    encoded = [encode_order(order) for order in orders]
    with local_federation(tmp_path / "ordered", recording.pattern) as federation:
        federation.ask(recording.order, VerticalResult, RUN)
        federation.hub.endpoints = dict.fromkeys(PARTIES, _nobody_answers)
        with little_memory():
            for _ in range(n_messages):
                data = encoded[rng.integers(len(encoded))]
                change = spoil if rng.random() < 0.7 else mutate
                federation.next_run = rng.bytes(16)
                try:
                    list(map(decode_event, federation.coordinator.serve("user", change(data, rng))))
                except FederationError as error:
                    check_error(error)
        runs = federation.ask(ListRuns(), RunList)
        assert isinstance(runs, RunList)
        assert any(state.run == run and state.state == "finished" for state in runs.runs)
        federation.hub.endpoints = {n: p.answer for n, p in federation.parties.items()}
        federation.ask(horizontal_order(), HorizontalResult, rng.bytes(16))


def _nobody_answers(_request: bytes) -> bytes:
    raise PartyLost("it is not connected", "shop")
