"""Services that die at every single moment of a run, from its beginning to its end.

What `tests/integration` does to processes at some moments is done here to the same services at
every exchange, before its requests arrive and after its replies are there but not heard of; in the
quick tests at every third one, beginning differently in each.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fedforest.errors import PredictionForgotten
from fedforest.runtime.coordinator.service import CoordinatorService
from fedforest.runtime.messages.envelope import MOST_BEGINNINGS
from fedforest.runtime.messages.orders import (
    PredictVertical,
    TrainHorizontal,
    WatchRun,
    encode_order,
)
from fedforest.runtime.messages.party_requests import TO_PARTY, InPrediction
from fedforest.runtime.messages.results import (
    Predictions,
    RunAccepted,
    VerticalResult,
    decode_event,
)
from fedforest.transport.codec import decode
from tests.integration.local_federation import (
    LocalFederation,
    LocalHub,
    local_federation,
    make_party,
)
from tests.integration.processes import result_type, role_files
from tests.runtime.service_recordings import (
    ORDERS,
    PARTIES,
    RUN,
    AnyTraining,
    Recording,
    record,
)

steps = pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.exhaustive)])
named = pytest.mark.parametrize("name", ORDERS)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    return {name: record(tmp_path_factory.mktemp(name), make()) for name, make in ORDERS.items()}


class MortalHub(LocalHub):
    """Ends the thread that asks, as a kill would, at one of its exchanges."""

    def __init__(self, federation: LocalFederation, n_exchanges: int, *, is_heard: bool) -> None:
        super().__init__(federation.hub.endpoints)
        self._n_left = n_exchanges
        self._is_heard = is_heard

    def exchange(
        self, requests: Mapping[str, bytes], *, may_lose: bool = False
    ) -> dict[str, bytes]:
        self._n_left -= 1
        if self._n_left < 0 and not self._is_heard:
            raise SystemExit
        replies = super().exchange(requests, may_lose=may_lose)
        if self._n_left < 0:
            raise SystemExit
        return replies


def n_exchanges_of(recording: Recording) -> int:
    """Exchanges of the training alone."""
    order = recording.order
    n_asked = len(recording.requests)
    return n_asked if isinstance(order, TrainHorizontal) else n_asked - _n_predicting(recording)


def _n_predicting(recording: Recording) -> int:
    kinds = (b"CountRows", b"InPrediction")
    return sum(
        any(kind in data for kind in kinds for data in asked.values())
        for asked in recording.requests
    )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the death
@named
@steps
@pytest.mark.parametrize("is_heard", [False, True])
def test_a_coordinator_that_dies_at_any_exchange_ends_the_run_when_it_is_back(
    recordings: Mapping[str, Recording], name: str, tmp_path: Path, step: int, *, is_heard: bool
) -> None:
    recording = recordings[name]
    for moment in range(int(is_heard) % step, n_exchanges_of(recording), step):
        with local_federation(tmp_path / str(moment), recording.pattern) as federation:
            begin_and_die(
                federation, recording.order, MortalHub(federation, moment, is_heard=is_heard)
            )
            reborn = CoordinatorService(federation.homes["coordinator"], federation.hub)
            reborn.start()
            list(reborn.serve("user", encode_order(WatchRun(run=RUN.hex()))))
            reborn.close()
            assert role_files(federation.homes, RUN.hex()) == recording.files


def begin_and_die(federation: LocalFederation, order: AnyTraining, hub: MortalHub) -> None:
    """Begin the run with a coordinator that does not live to see its end."""
    mortal = CoordinatorService(federation.homes["coordinator"], hub, randomness=federation.draw)
    federation.next_run = RUN
    mortal.start()
    events = mortal.serve("user", encode_order(order))
    assert decode_event(next(events)) == RunAccepted(RUN.hex())
    mortal.close()  # returns when its thread has ended


@named
@steps
@pytest.mark.parametrize("party", PARTIES)
@pytest.mark.parametrize("is_answered", [False, True])
def test_a_party_that_dies_at_any_exchange_answers_as_if_it_had_not(
    recordings: Mapping[str, Recording],
    name: str,
    party: str,
    tmp_path: Path,
    step: int,
    *,
    is_answered: bool,
) -> None:
    recording = recordings[name]
    first = (1 + PARTIES.index(party) + is_answered) % step
    for moment in range(first, n_exchanges_of(recording), step):
        with local_federation(tmp_path / str(moment), recording.pattern) as federation:
            mortify(federation, party, moment, is_answered=is_answered)
            federation.ask(recording.order, result_type(recording.order), RUN)
            assert role_files(federation.homes, RUN.hex()) == recording.files


def mortify(federation: LocalFederation, party: str, moment: int, *, is_answered: bool) -> None:
    """Let a party die at one of its requests, which it is sent again when it is back."""
    n_left = moment

    def answer(data: bytes) -> bytes:
        nonlocal n_left
        n_left -= 1
        if n_left == -1:
            if is_answered:
                federation.parties[party].answer(data)  # the reply is lost
            federation.parties[party].close()
            federation.parties[party] = make_party(federation.homes[party])
        return federation.parties[party].answer(data)

    federation.hub.endpoints[party] = answer


@pytest.fixture(scope="module")
def trained(
    recordings: Mapping[str, Recording], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalFederation]:
    """A federation that has a forest to predict with."""
    recording = recordings["vertical"]
    with local_federation(tmp_path_factory.mktemp("trained"), recording.pattern) as federation:
        federation.ask(recording.order, VerticalResult, RUN)
        yield federation


# A level in each exchange, so that parties are in the middle of a prediction for some time.
PREDICT = PredictVertical(data=dict.fromkeys(PARTIES, "columns"), model=RUN.hex(), lookahead=1)


@pytest.mark.parametrize("party", PARTIES)
@pytest.mark.parametrize("is_answered", [False, True])
def test_a_prediction_in_which_a_party_dies_is_begun_again_and_comes_to_the_same(
    trained: LocalFederation, party: str, *, is_answered: bool
) -> None:
    n_asked = 0

    def count(data: bytes) -> bytes:
        nonlocal n_asked
        n_asked += 1
        return trained.parties[party].answer(data)

    trained.hub.endpoints[party] = count
    expected = trained.ask(PREDICT, Predictions)
    n_undisturbed = n_asked
    assert n_undisturbed > 2
    for moment in range(n_undisturbed):
        mortify(trained, party, moment, is_answered=is_answered)
        assert trained.ask(PREDICT, Predictions) == expected


def test_a_party_that_dies_again_and_again_ends_a_prediction_by_name(
    trained: LocalFederation,
) -> None:
    n_begun = 0

    def forget(data: bytes) -> bytes:
        nonlocal n_begun
        message = decode(data, TO_PARTY)
        if isinstance(message, InPrediction):
            n_begun += message.begin is not None
            if message.begin is None:
                trained.parties["shop"].close()
                trained.parties["shop"] = make_party(trained.homes["shop"])
        return trained.parties["shop"].answer(data)

    trained.hub.endpoints["shop"] = forget
    with pytest.raises(PredictionForgotten) as caught:
        trained.ask(PREDICT, Predictions)
    assert caught.value.party == "shop"
    assert n_begun == MOST_BEGINNINGS
